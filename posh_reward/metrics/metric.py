"""Parts shared by all metrics: protocol for rewards, input checks, prompts, signatures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, SupportsIndex, TypeVar

from posh_reward.errors import InputError
from posh_reward.types import Failure, Usage


class MetricResult(Protocol):
    """The part of a metric's result for one pair that all metrics share."""

    @property
    def failure(self) -> Failure | None:
        """Reason for a missing score; None if there is a score."""


S = TypeVar("S", bound=MetricResult, contravariant=True)


class Figures(Protocol[S]):
    """A metric as a reward sees it: name, signature, usage, and figures for a training log."""

    @property
    def name(self) -> str:
        """First word of its signatures and log names."""

    @property
    def signature(self) -> str:
        """Settings and versions needed to reproduce a score; part of every score."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds of its judge so far."""

    def figures(self, scores: Sequence[S]) -> dict[str, float]:
        """Figures of one call, such as means; every call returns the same names."""

    def columns(self, scores: Sequence[S]) -> dict[str, list[float | None]]:
        """Figures per completion; every call returns the same names."""


def mean(values: Sequence[float | None]) -> float:
    """Mean of the values that are not None; NaN if there are none."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


@cache
def package_version() -> str:
    """Version of posh-reward; "unknown" if it runs from a folder without being installed."""
    try:
        return version("posh-reward")
    except PackageNotFoundError:
        return "unknown"


def signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, with the fields in order."""
    versioned = {**fields, "version": package_version()}
    return "|".join([metric, *(f"{key}:{value}" for key, value in versioned.items())])


def field_of(signature: str, key: str) -> str | None:
    """Value of a field of a signature; None if it has no such field."""
    match = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return match[1] if match else None


def check_lists(**lists: Sequence[object]) -> None:
    """Check that arguments are lists of equal length."""
    for name, values in lists.items():
        if isinstance(values, str | bytes):
            raise InputError(f"{name} is one string: pass a list, [{values[:40]!r}]")
    (first, values), *others = lists.items()
    for name, other in others:
        if len(other) != len(values):
            raise InputError(f"{len(values)} {first} but {len(other)} {name}: pass one for each")


def check_sizes(**sizes: int) -> None:
    """Check that arguments are whole numbers of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, SupportsIndex) or size < 1:
            raise InputError(f"{name} is {size!r}: use a whole number, 1 or more")


def usable(text: object, what: str) -> str | Failure:
    """Strip a text for use in a prompt; a failure about ``what`` if it is unusable."""
    from posh_reward.graph.reader import stripped_text  # slow: imports the graph rules

    stripped = stripped_text(text)
    return stripped.about(what) if isinstance(stripped, Failure) else stripped


def joined_references(references: Sequence[str]) -> str:
    """Join an image's references into one text of sentences; a single one stays as it is."""
    if len(references) == 1:
        return references[0]
    return " ".join(reference.strip().rstrip(" .") + "." for reference in references)


@cache
def wording(folder: str, name: str) -> str:
    """Text of ``prompts/NAME.txt`` in a folder of this package, such as "metrics/posh"."""
    file = resources.files("posh_reward").joinpath(f"{folder}/prompts/{name}.txt")
    return file.read_text(encoding="utf-8")


@cache
def sections(folder: str, name: str) -> Mapping[str, str]:
    """Map each ``[heading]`` of a folder's ``prompts/NAME.txt`` to the text below it."""
    pieces = re.split(r"^\[([a-z._]+)\]\n", wording(folder, name), flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value in a single pass; other braces, such as JSON's, stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
