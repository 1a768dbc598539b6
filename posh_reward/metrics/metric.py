"""Common parts of all metrics: contract with a reward, checks of inputs, prompts, signatures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, TypeVar

from posh_reward.errors import InputError
from posh_reward.types import Failure, Usage


class MetricResult(Protocol):
    """A metric's result for one pair, as far as all metrics agree."""

    @property
    def failure(self) -> Failure | None:
        """Reason why there is no score; None if there is one."""


S = TypeVar("S", bound=MetricResult, contravariant=True)


class Figures(Protocol[S]):
    """A metric's name, signature, usage, and figures for a training log."""

    @property
    def name(self) -> str:
        """First word of its signatures and of its names in logs."""

    @property
    def signature(self) -> str:
        """Settings and versions that reproduce a score; each score carries it."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds of its judge so far."""

    def figures(self, scores: Sequence[S]) -> dict[str, float]:
        """Figures of one call; the same names at every call."""

    def columns(self, scores: Sequence[S]) -> dict[str, list[float | None]]:
        """Figures of each completion; the same names at every call."""


def mean(values: Sequence[float | None]) -> float:
    """Mean of those that are there; NaN if none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else math.nan


@cache
def package_version() -> str:
    """Our own version, or "unknown" when run from a folder that was never installed."""
    try:
        return version("posh-reward")
    except PackageNotFoundError:
        return "unknown"


def signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, the fields in the order given."""
    whole = {**fields, "version": package_version()}
    return f"{metric}|" + "|".join(f"{key}:{value}" for key, value in whole.items())


def field_of(signature: str, key: str) -> str | None:
    """One field of a signature; None if it does not have it."""
    match = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return match[1] if match else None


def check_lists(**lists: Sequence[object]) -> None:
    """Check that arguments are lists of equal length.

    Raises:
        InputError: one is a bare string, or two differ in length; the message names them.
    """
    for name, values in lists.items():
        if isinstance(values, str | bytes):
            raise InputError(f"{name} is one string: pass a list, [{values[:40]!r}]")
    (first, values), *others = lists.items()
    for name, each in others:
        if len(each) != len(values):
            raise InputError(f"{len(values)} {first} but {len(each)} {name}: pass one for each")


def check_sizes(**sizes: int) -> None:
    """Check that arguments are at least 1.

    Raises:
        InputError: one is not; the message names it.
    """
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} is {size}: give a number from 1")


def usable(text: object, what: str) -> str | Failure:
    """A text that can be put into a prompt, stripped; a failure about ``what`` if it cannot."""
    from posh_reward.graph.reader import stripped_text  # loads the rules of the graph

    stripped = stripped_text(text)
    return stripped.about(what) if isinstance(stripped, Failure) else stripped


def joined_references(references: Sequence[str]) -> str:
    """Several references of one image as one text, each as a sentence; a sole one as it is."""
    if len(references) == 1:
        return references[0]
    return " ".join(each.strip().rstrip(" .") + "." for each in references)


@cache
def wording(package: str, name: str) -> str:
    """The text of a package's ``prompts/NAME.txt``."""
    return resources.files(package).joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")


@cache
def sections(package: str, name: str) -> Mapping[str, str]:
    """The texts of a package's ``prompts/NAME.txt`` that stand under ``[headings]``."""
    pieces = re.split(r"^\[([a-z._]+)\]\n", wording(package, name), flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with each name in braces that has a value replaced by it, in a single pass.

    For texts with other braces in them, such as JSON.
    """
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
