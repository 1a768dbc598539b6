"""Scores <-> rows of a file, and the words for the scores.

A scored row has ``id``, ``model`` and ``image`` if the input has them, ``generation``,
``reference``, the scores ``mistakes``, ``omissions`` and ``overall`` (0.2 to 1, higher is better;
null where there is none, with ``failure_kind`` and ``failure``), the number of elements on each
side, ``unparsed`` and ``signature``, and on request the ``elements``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, get_args

from posh_reward.errors import InputError
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import Row
from posh_reward.types import (
    HIGHEST_GRADE,
    LOWEST_GRADE,
    Direction,
    Element,
    Failure,
    FailureKind,
    ImageGrade,
    Kind,
    Scores,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the three scores, under the names that people and the paper have for it."""

    name: str
    """What raters call it: a column of scored rows."""
    field: str
    """What the paper calls it: a field of ``Scores``."""
    meaning: str


AXES = (
    Axis("mistakes", "precision", "how much of what was written is true"),
    Axis("omissions", "recall", "how much of the reference was written"),
    Axis("overall", "f1", "the harmonic mean of the two"),
)
NAMES = tuple(axis.name for axis in AXES)
SCALE = "0.2 to 1, higher is better"
"""Said wherever scores are shown: without it "mistakes 0.95" reads as many mistakes."""
MEANINGS = "; ".join(f"{axis.name} ({axis.field} in the paper): {axis.meaning}" for axis in AXES)
EXPLAINED = f"Scores are {SCALE}; {MEANINGS}"
"""Said once on each page and under each table: 1 in mistakes means that there are none."""
COUNTS = ("generation_elements", "reference_elements", "unparsed")
NEEDED = ("generation", "reference", "failure", "signature", *NAMES)


def scored_row(item: TableItem, scores: Scores, *, elements: bool) -> Row:
    """One row of output."""
    row: Row = {
        **item.head,
        **{axis.name: getattr(scores, axis.field) for axis in AXES},
        "generation_elements": scores.count("precision"),
        "reference_elements": scores.count("recall"),
        **_failure_columns(scores.failure),
        "unparsed": scores.unparsed,
        "signature": scores.signature,
    }
    if elements:
        row["elements"] = [_element_row(element) for element in scores.elements]
    return row


def scores_of(row: Mapping[str, Any]) -> Scores:
    """The scores that a scored row was written from; nothing is judged again.

    Raises:
        InputError: it is not a scored row; the message has what is wrong.
    """
    missing = [name for name in NEEDED if name not in row]
    if missing:
        raise InputError(f"it lacks {', '.join(missing)}")
    return Scores(
        precision=_score(row, "mistakes"),
        recall=_score(row, "omissions"),
        f1=_score(row, "overall"),
        signature=_text(row, "signature"),
        elements=tuple(_element(each) for each in _list(row.get("elements") or [], "elements")),
        failure=_failure(row),
        unparsed=_count(row, "unparsed"),
        generation=(_optional_text(row, "generation") or "").strip(),
        reference=(_optional_text(row, "reference") or "").strip(),
    )


def elements_in(row: Mapping[str, Any]) -> int:
    """How many elements a scored row is about, whether or not it has them.

    Raises:
        InputError: its counts are not numbers.
    """
    return sum(_count(row, f"{side}_elements") for side in ("generation", "reference"))


def typed(row: Row) -> Row:
    """A scored row as it was before CSV made texts of everything."""
    read = dict(row)
    for column in (*NAMES, *COUNTS):
        if isinstance(read.get(column), str):
            try:
                read[column] = float(read[column]) if read[column] else None
            except ValueError:
                raise InputError(f"{column} is {short(read[column])}, not a number") from None
    if isinstance(read.get("elements"), str):
        try:
            read["elements"] = json.loads(read["elements"])
        except (ValueError, RecursionError) as error:
            raise InputError(f"its elements are not JSON ({error})") from None
    for column in ("failure", "failure_kind"):
        read[column] = None if read.get(column) == "" else read.get(column)
    return read


def _failure_columns(failure: Failure | None) -> Row:
    if failure is None:
        return {"failure_kind": None, "failure": None}
    return {"failure_kind": failure.kind, "failure": failure.detail}


def _failure(row: Mapping[str, Any]) -> Failure | None:
    detail = _optional_text(row, "failure")
    if detail is None:
        return None
    kinds = (kind for kind in get_args(FailureKind) if kind == row.get("failure_kind"))
    return Failure(next(kinds, "error"), detail)


COLUMNS_OF_FIELDS = {"direct": "asked", "image_grade": "seen"}
"""Fields of an element that a file has under another name."""


def _element_row(element: Element) -> Row:
    fields = {COLUMNS_OF_FIELDS.get(name, name): value for name, value in asdict(element).items()}
    row = {**fields, **_failure_columns(element.failure)}
    image = element.image_grade
    if image is None:  # the row of a metric without a witness is as it was before there were any
        del row["seen"]
    else:
        grades = {"grade": image.grade, "stated": image.reference_grade}
        row["seen"] = {**grades, **_failure_columns(image.failure)}
    return row


def _element(row: object) -> Element:
    if not isinstance(row, dict):
        raise InputError(f"an element is {short(row)}")
    lacking = [name for name in ("direction", "kind", "text", "grade", "spans") if name not in row]
    if lacking:
        raise InputError(f"an element lacks {', '.join(lacking)}")
    if row["direction"] not in get_args(Direction) or row["kind"] not in get_args(Kind):
        raise InputError(f"an element is {short(row['direction'])}, {short(row['kind'])}")
    return Element(
        direction=row["direction"],
        kind=row["kind"],
        text=_text(row, "text"),
        grade=_grade(row["grade"]),
        spans=tuple(map(_span, _list(row["spans"], "spans"))),
        identifier=_text(row, "identifier"),
        other=_optional_text(row, "other"),
        direct=row.get("asked") is not False,
        failure=_failure(row),
        image_grade=_image_grade(row.get("seen")),
    )


def _image_grade(row: object) -> ImageGrade | None:
    if row is None:
        return None
    if not isinstance(row, dict):
        raise InputError(f"what the image said is {short(row)}")
    reference_grade = _grade(row.get("stated"))
    if reference_grade is None:
        raise InputError("what the image said lacks the reference's grade (stated)")
    return ImageGrade(_grade(row.get("grade")), reference_grade, _failure(row))


def _grade(value: object) -> float | None:
    """A grade as it is in a row; None if there is none."""
    if value is None:
        return None
    if not _is_number(value) or not LOWEST_GRADE <= value <= HIGHEST_GRADE:
        raise InputError(f"an element has the grade {short(value)}, which is not 1 to 5")
    return value


def _span(value: object) -> tuple[int, int]:
    match value:
        case [int(start), int(end)]:
            return start, end
    raise InputError(f"a span is {short(value)}, not two whole numbers")


def _score(row: Mapping[str, Any], name: str) -> float | None:
    value = row[name]
    if value is None:
        return None
    if not _is_number(value):
        raise InputError(f"{name} is {short(value)}, not a number")
    return float(value)


def _count(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name)
    if value is not None and not _is_number(value):
        raise InputError(f"{name} is {short(value)}, not a number")
    return int(value or 0)


def _is_number(value: object) -> TypeIs[float]:
    """Whether it is a finite number that a float can hold, which JSON's need not be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _text(row: Mapping[str, Any], name: str) -> str:
    value = _optional_text(row, name)
    if value is None:
        raise InputError(f"{name} is missing")
    return value


def _optional_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{name} is {short(value)}, not a text")
    return value


def _list(value: object, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{name} is {short(value)}, not a list")
    return value
