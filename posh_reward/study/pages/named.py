"""A scored row of one of POSH's siblings -> what a page shows of it: texts and named scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.rows.tables import Row

HARMONIC = (1.0, 5.0)
PROVE = (0.0, 1.0)
"""Ranges of scores."""
LISTS = ("criteria", "given", "wanted", "claims")
TEXTS = {
    "question": "Question",
    "generation": "Written",
    "response": "Response",
    "reference": "Reference",
    "answer": "True answer",
    "caption": "Caption",
}
"""Text of a row -> its heading, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Named:
    """One score with its name. Higher is better."""

    name: str
    value: float | None
    """None if there is none; ``detail`` may say why."""
    lowest: float
    highest: float
    detail: str = ""
    """A judge's reason, or what the score rests on."""
    digits: int = 2
    first: bool = False
    """Whether it is the metric's overall score."""
    title: str = ""
    """What the name stands for."""


@dataclass(frozen=True, slots=True)
class Group:
    """Scores under one heading."""

    scores: tuple[Named, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a page shows of one row."""

    name: str
    """Its id."""
    model: str
    """"" without one."""
    texts: tuple[tuple[str, str], ...]
    """Heading and text."""
    scores: Group
    details: tuple[Group, ...]
    failure: str | None
    signature: str


@dataclass(frozen=True, slots=True)
class Kind:
    """How a metric's rows are shown."""

    title: str
    explained: str
    """The range of its scores, and that higher is better."""
    groups: Callable[[Row], tuple[Group, ...]]
    """The scores first, then what they rest on."""


def metric_of(row: Mapping[str, Any]) -> str:
    """The metric that a row says it was scored by; "" if it does not say."""
    signed = row.get("signature")
    return signed.partition("|")[0] if isinstance(signed, str) else ""


def sheet_of(row: Row, metric: str) -> Sheet:
    """What a page shows of a row, in whatever format it was kept.

    Raises:
        InputError: it is not a scored row of this metric.
    """
    if metric_of(row) != metric:
        raise InputError(f"its signature is {short(row.get('signature'))}")
    row = {**row, **{name: _list(row, name) for name in LISTS if name in row}}
    scores, *details = KINDS[metric].groups(row)
    found = any(each.value is not None for each in scores.scores)
    failure = _failure(row)
    return Sheet(
        _label(row.get("id")),
        _label(row.get("model")),
        tuple((heading, str(row[name])) for name, heading in TEXTS.items() if row.get(name)),
        scores,
        tuple(details),
        failure and f"{'Not all could be scored' if found else 'No score'}: {failure}",
        row["signature"],
    )


def _harmonic(row: Row) -> tuple[Group, ...]:
    overall = Named("overall", _number(row, "overall"), *HARMONIC, first=True)
    return (Group((overall, *map(_criterion, row.get("criteria") or ()))),)


def _criterion(each: Row) -> Named:
    said = _failure(each)
    if said is None:
        sigma, weight = _number(each, "sigma"), _number(each, "weight")
        said = "" if sigma is None else f"sigma {sigma:.2f} (0: sure)"
        said += "" if weight is None else f", weight {weight:.2f}"
    return Named(_text(each, "criterion"), _number(each, "mean"), *HARMONIC, detail=said)


def _rubric(row: Row) -> tuple[Group, ...]:
    points = [_points(each) for each in row.get("given") or ()]
    if not points:
        return (Group(()),)
    lowest, highest = sum(each.lowest for each in points), sum(each.highest for each in points)
    total = Named("total", _number(row, "total"), lowest, highest, digits=0, first=True)
    return (Group((total, *points)),)


def _points(each: Row) -> Named:
    name, feedback = _text(each, "metric"), str(each.get("feedback") or "")
    lowest, highest = _known(each, "lowest"), _known(each, "highest")
    if lowest >= highest:
        raise InputError(f"{name} goes from {lowest:g} to {highest:g} points")
    value = _number(each, "points")
    return Named(name, value, lowest, highest, feedback, 0, title=_text(each, "title"))


def _prove(row: Row) -> tuple[Group, ...]:
    names = ("average", "helpfulness", "truthfulness")
    scores = (Named(name, _number(row, name), *PROVE, first=name == names[0]) for name in names)
    wanted, claims = map(_wanted, row.get("wanted") or ()), map(_claim, row.get("claims") or ())
    return (
        Group(tuple(scores)),
        Group(tuple(wanted), "What the answer says: how much of it the response has"),
        Group(tuple(claims), "What the response claims: what bears it out"),
    )


def _wanted(each: Row) -> Named:
    closest = _joined(each.get("closest"))
    detail = f"closest in the response: {closest}" if closest else "not in the response"
    return Named(_joined(each.get("tuple")), _number(each, "score"), *PROVE, detail=detail)


def _claim(each: Row) -> Named:
    """A claim with its two witnesses; the one that bears it out better comes first."""
    caption, image = _number(each, "caption"), _number(each, "picture")
    said = {}
    if caption is not None:
        closest = _joined(each.get("closest"))
        said["caption"] = f"caption {caption:.2f} (closest: {closest or 'nothing'})"
    if image is not None:
        said["picture"] = f"image {image:.2f}"
    better = said.pop(str(each.get("witness")), None)
    parts = [*([f"best witness: {better}"] if better else []), *said.values()]
    failure = _failure(each)
    detail = "; ".join([*parts, *([failure] if failure else [])])
    return Named(_joined(each.get("tuple")), _number(each, "score"), *PROVE, detail=detail)


KINDS = {
    "harmonic": Kind(
        "HarmonicEval: five criteria of texts about images",
        "Scores are 1 to 5, higher is better; overall is the weighted mean of the criteria",
        _harmonic,
    ),
    "rubric": Kind(
        "Rubric: points with a judge's reasons",
        "Scores are points, higher is better; total is the sum of the points",
        _rubric,
    ),
    "prove": Kind(
        "PROVE: helpful and truthful responses",
        "Scores are 0 to 1, higher is better. helpfulness: how much of the true answer the "
        "response says; truthfulness: how much of the response the caption, or the image, bears "
        "out; average: the mean of the two",
        _prove,
    ),
}
"""First word of a signature -> how its rows are shown."""


def _list(row: Row, name: str) -> Sequence[Row]:
    """A row's list of records, from CSV, too."""
    value = row[name]
    if isinstance(value, str):
        try:
            value = json.loads(value or "[]")
        except (ValueError, RecursionError):
            raise InputError(f"{name} is not JSON") from None
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InputError(f"{name} is {short(value)}, not a list of records")
    return value


def _number(row: Mapping[str, Any], name: str) -> float | None:
    """A number, from CSV, too; None if there is none."""
    value = row.get(name)
    if value is None or value == "":
        return None
    try:
        found = float("" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{name} is {short(value)}, not a number")
    return found


def _known(row: Mapping[str, Any], name: str) -> float:
    found = _number(row, name)
    if found is None:
        raise InputError(f"{name} is missing")
    return found


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name} is {short(value)}, not a text")
    return value


def _failure(row: Mapping[str, Any]) -> str | None:
    value = row.get("failure")
    return None if value in (None, "") else str(value)


def _joined(words: object) -> str:
    """A tuple as people read it."""
    return ", ".join(map(str, words)) if isinstance(words, list | tuple) else ""


def _label(value: object) -> str:
    """A model's or a row's name as text, however odd; "" for none."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)
