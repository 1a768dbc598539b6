"""Protocols, signatures, means, and checks of a call's lists and texts, for all metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, SupportsIndex, TypeVar

from posh_reward.errors import InputError, installed_version
from posh_reward.text_values import ONE_STRING, as_column, read_texts
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
    if not numbers:
        return math.nan
    return math.fsum(numbers) / len(numbers)


def number_or_nan(value: float | None) -> float:
    """Return a value as a float; NaN for None."""
    return math.nan if value is None else float(value)


@cache
def package_version() -> str:
    """Version of posh-reward; "unknown" if it runs from a folder without being installed."""
    return installed_version("posh-reward") or "unknown"


def build_signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, with the fields in order."""
    parts = [metric]
    for key, value in {**fields, "version": package_version()}.items():
        parts.append(f"{key}:{value}")
    return "|".join(parts)


def read_signature_field(signature: str, key: str) -> str | None:
    """Value of a field of a signature; None if it has no such field."""
    match = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return match[1] if match else None


SEVERAL_REFERENCES = "|references:joined"
"""Part of the signature of a row with several references, which the same metric has scored."""


def as_lists(**values: object) -> list[list[Any]]:
    """Return arguments as lists; raise ``InputError`` if one is none, or if lengths differ."""
    lists: dict[str, list[Any]] = {}
    for name, value in values.items():
        column = as_column(value)
        if isinstance(column, str):
            raise InputError(f"{name} {column}")
        lists[name] = column
    check_lengths(**lists)
    check_same_index(**values)
    return list(lists.values())


def check_lengths(**lists: Sequence[object]) -> None:
    """Check that lists have equal lengths; one may load its values as they are read."""
    for name, each in lists.items():
        if isinstance(each, str | bytes):
            raise InputError(f"{name} {ONE_STRING}, [{each[:40]!r}]")
    (first, count), *others = ((name, len(each)) for name, each in lists.items())
    for name, other in others:
        if other != count:
            raise InputError(f"{count} {first} but {other} {name}: pass one for each")


def check_same_index(**values: Any) -> None:
    """Refuse pandas Series whose indexes disagree: they would be paired by their order."""
    series = [
        (name, list(each.index)) for name, each in values.items() if type(each).__name__ == "Series"
    ]
    for name, index in series[1:]:
        first, first_index = series[0]
        if index != first_index:
            raise InputError(
                f"{first} and {name} are Series with different indexes, and would be paired by "
                f"their order: align them, as with {name}.loc[{first}.index]"
            )


def check_sizes(**sizes: int) -> None:
    """Check that arguments are whole numbers of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, SupportsIndex) or size < 1:
            raise InputError(f"{name} is {size!r}: use a whole number, 1 or more")


def read_usable_text(value: object, what: str) -> str | Failure:
    """Read a text for use in a prompt, and strip it; a failure about ``what`` if it is unusable."""
    from posh_reward.graph.reader import stripped_text  # slow: imports the graph rules

    stripped = stripped_text(value)
    if isinstance(stripped, Failure):
        return stripped.about(what)
    return stripped


def read_reference(value: object) -> str | Failure:
    """Read a reference: a text, or several of one image, which become one."""
    texts = read_texts(value)
    if isinstance(texts, Failure):
        return texts
    return join_references(texts)


def join_references(references: Sequence[str]) -> str:
    """Join an image's references into one text of sentences; a single one stays as it is."""
    if len(references) == 1:
        return references[0]
    return " ".join(reference.strip().rstrip(" .") + "." for reference in references)
