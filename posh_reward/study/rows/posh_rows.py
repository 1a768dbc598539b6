"""POSH's scores <-> rows of a file.

A scored row has ``id``, ``model`` and ``image`` if the input has them, ``generation``,
``reference``, the scores ``mistakes``, ``omissions`` and ``overall`` (0.2 to 1, higher is better;
null where there is none, with ``failure_kind`` and ``failure``), the number of elements on each
side, ``unparsed`` and ``signature``, and on request the ``elements``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from reprlib import repr as short
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from posh_reward.errors import InputError
from posh_reward.study.rows.score_axes import AXES, NAMES
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.tables import Row, cell_number
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

COUNTS = ("generation_elements", "reference_elements", "unparsed")


def scored_row(item: TableItem, scores: Scores, *, elements: bool) -> Row:
    row: Row = {
        **item.head,
        **{axis.name: getattr(scores, axis.field) for axis in AXES},
        "generation_elements": scores.count("precision"),
        "reference_elements": scores.count("recall"),
        **failure_columns(scores.failure),
        "unparsed": scores.unparsed,
        "signature": scores.signature,
    }
    if elements:
        row["elements"] = [_element_row(element) for element in scores.elements]
    return row


class FailureColumns(BaseModel):
    """The two columns of every record that may fail."""

    model_config = ConfigDict(strict=True)

    failure: str | None = None
    failure_kind: str | None = None

    @property
    def reason(self) -> Failure | None:
        """The failure; None if there is none."""
        if self.failure is None:
            return None
        kinds = (kind for kind in get_args(FailureKind) if kind == self.failure_kind)
        return Failure(next(kinds, "error"), self.failure)


Number = Annotated[float, Field(allow_inf_nan=False)]
Grade = Annotated[float, Field(ge=LOWEST_GRADE, le=HIGHEST_GRADE)]
Span = Annotated[tuple[int, int], Strict(False)]


class ImageGradeRow(FailureColumns):
    """The column ``seen`` of an element: its grade by the image."""

    grade: Grade | None = None
    reference_grade: Grade = Field(alias="stated")


class ElementRow(FailureColumns):
    """An element as stored in a file."""

    direction: Direction
    kind: Kind
    text: str
    grade: Grade | None
    spans: Annotated[tuple[Span, ...], Strict(False)]
    identifier: str
    other: str | None = None
    direct: bool | None = Field(None, alias="asked")
    image_grade: ImageGradeRow | None = Field(None, alias="seen")

    @property
    def element(self) -> Element:
        row = self.image_grade
        image = None if row is None else ImageGrade(row.grade, row.reference_grade, row.reason)
        return Element(
            self.direction,
            self.kind,
            self.text,
            self.grade,
            self.spans,
            self.identifier,
            self.other,
            direct=self.direct is not False,
            failure=self.reason,
            image_grade=image,
        )


class ElementCounts(BaseModel):
    """Columns with the number of elements of each text."""

    model_config = ConfigDict(strict=True)

    generation_elements: Number | None = None
    reference_elements: Number | None = None


class ScoredRow(FailureColumns):
    """The columns of a scored row that ``Scores`` are read from."""

    generation: str | None
    reference: str | None
    failure: str | None
    signature: str
    mistakes: Number | None
    omissions: Number | None
    overall: Number | None
    unparsed: Number | None = None
    elements: list[ElementRow] | None = None


Record = TypeVar("Record", bound=BaseModel)
WRONG = {
    "finite_number": "not a finite number",
    "float_type": "not a number",
    "int_type": "not a whole number",
    "list_type": "not a list",
    "model_type": "not a record",
    "string_type": "not a text",
    "tuple_type": "not a list",
}
"""pydantic's error types -> the end of a message."""


def record_of(kind: type[Record], row: object) -> Record:
    """Read a row as a record, checking the types of its values.

    Raises:
        InputError: it is not such a row; the message names the first wrong value.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        problems = [(".".join(map(str, each["loc"])), each) for each in error.errors()]
    if missing := [place for place, each in problems if each["type"] == "missing"]:
        raise InputError(f"it lacks {', '.join(missing)}")
    place, first = problems[0]
    why = WRONG.get(first["type"]) or first["msg"].replace("Input should", "it should")
    raise InputError(f"{place} is {short(first['input'])}, {why}")


def scores_of(row: Mapping[str, Any]) -> Scores:
    """The scores that a row was written from; ``InputError`` if it is not a scored row."""
    record = record_of(ScoredRow, row)
    return Scores(
        precision=record.mistakes,
        recall=record.omissions,
        f1=record.overall,
        signature=record.signature,
        elements=tuple(each.element for each in record.elements or ()),
        failure=record.reason,
        unparsed=int(record.unparsed or 0),
        generation=(record.generation or "").strip(),
        reference=(record.reference or "").strip(),
    )


def elements_in(row: Mapping[str, Any]) -> int:
    """Number of elements behind a scored row, whether or not it lists them."""
    counts = record_of(ElementCounts, row)
    return int((counts.generation_elements or 0) + (counts.reference_elements or 0))


def parse_cells(row: Row) -> Row:
    """A scored row read from CSV, with its texts converted back to numbers and elements."""
    read = dict(row)
    for column in (*NAMES, *COUNTS):
        if isinstance(read.get(column), str):
            try:
                read[column] = cell_number(read[column]) if read[column] else None
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


def failure_columns(failure: Failure | None) -> Row:
    """The two columns with the reason for a missing score."""
    if failure is None:
        return {"failure_kind": None, "failure": None}
    return {"failure_kind": failure.kind, "failure": failure.detail}


COLUMNS_OF_FIELDS = {"direct": "asked", "image_grade": "seen"}
"""Fields of an element that have another name in files."""


def _element_row(element: Element) -> Row:
    fields = {COLUMNS_OF_FIELDS.get(name, name): value for name, value in asdict(element).items()}
    row = {**fields, **failure_columns(element.failure)}
    image = element.image_grade
    if image is None:  # a metric without a witness writes no such column
        del row["seen"]
    else:
        grades = {"grade": image.grade, "stated": image.reference_grade}
        row["seen"] = {**grades, **failure_columns(image.failure)}
    return row
