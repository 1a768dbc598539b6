"""A file of references, joined to the rows of another file by id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from posh_reward.errors import InputError
from posh_reward.settings import shorten, shorten_list
from posh_reward.tables.reading import open_rows, read_row_texts
from posh_reward.tables.tables import Row, display_name
from posh_reward.types import is_missing


@dataclass(slots=True)
class ReferenceFile:
    """The references of each id; those of several rows with one id are of one image.

    Raises:
        InputError: the file has no column of ids or of references, or a value is no text.
    """

    name: str
    id: str | None = None  # column of ids; None, or missing in the file: ``id``
    column: str = "reference"
    texts: dict[str, list[str]] = field(init=False, default_factory=dict)
    images: dict[str, object] = field(init=False, default_factory=dict)  # for rows without one
    _numbers: dict[int, str | None] = field(init=False, default_factory=dict)
    """Id as a number -> id; None if two ids are the same number."""
    _source: str = field(init=False, default="")
    _found: set[str] = field(init=False, default_factory=set)
    _missing: dict[str, None] = field(init=False, default_factory=dict)
    _replaced: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        first: Row = {}
        with open_rows(self.name, text=self.column) as rows:
            for number, row in enumerate(rows, start=1):
                first = first or row
                self._add_row(row, f"{self._label}, row {number}")
        if not self.texts:
            if first:
                self._find_column(first, self.column, "reference")  # tells what there is instead
            raise InputError(f"{self._label} has no references")
        for id in self.texts:
            if (value := parse_whole_number(id)) is not None:
                self._numbers[value] = None if value in self._numbers else id

    def _add_row(self, row: Row, where: str) -> None:
        id = _read_id(row[self._find_column(row, self.id, "id")])
        if not id.strip():
            raise InputError(f"{where}: the id is missing: fill it in")
        if not self._source:  # one column for all rows
            named = (each for each in (self.column, "reference") if each in row)
            self._source = next(named, "")
        if texts := read_row_texts(row, self._source, where):
            own = self.texts.setdefault(id, [])
            # A text twice would count twice: an image of two tables, or of two models' rows.
            own += [text for text in texts if text not in own]
        if row.get("image") is not None:
            self.images.setdefault(id, row["image"])

    @property
    def _label(self) -> str:
        return display_name(self.name)

    def _find_column(self, row: Row, name: str | None, default: str) -> str:
        for each in (name, default):
            if each is not None and each in row:
                return each
        raise InputError(
            f"{self._label} has no column {shorten(name or default)}, but {shorten_list(row)}: "
            f"name the right one with --{default}, or rename it to {default}"
        )

    def join(self, rows: Iterable[Row], name: str) -> Iterator[Row]:
        """Give each row of ``name`` its references, as a list; None if its id has none."""
        column = "id" if self.id is None else self.id
        for row in rows:
            if is_missing(row.get(column)):
                raise InputError(
                    f"{name} has no column {shorten(column)} to find references by, but "
                    f"{shorten_list(row)}: name the right one with --id"
                )
            if self.id is None and row.get("image_id", row["id"]) != row["id"]:
                raise InputError(
                    f"{name} has the columns id and image_id: name the one whose values "
                    f"{self._label} has with --id"
                )
            self._replaced = self._replaced or self.column in row
            id = self._find_id(_read_id(row[column]))
            texts = self.texts.get(id)
            if texts:
                self._found.add(id)
            else:
                self._missing[id] = None
            joined = {**row, self.column: texts or None}
            if id in self.images:
                joined = {"image": self.images[id], **joined}
            yield joined
        if not self._found:
            raise InputError(
                f"no id of {name}, such as {shorten_list(self._missing)}, is in "
                f"{self._label}, which "
                f"has {shorten_list(self.texts)}: write them alike, or name the column that "
                "has them "
                "with --id"
            )

    def _find_id(self, id: str) -> str:
        """The id as the file writes it: 000000391895 and 391895.0 are 391895."""
        if id in self.texts:
            return id
        value = parse_whole_number(id)
        if value is None:
            return id
        return self._numbers.get(value) or id

    def lines(self) -> Iterator[str]:
        """Say what was not joined."""
        if self._replaced:
            yield f"the input's own column {self.column!r} is not used"
        if self._missing:
            yield f"no reference in {self._label} for {_count_ids(self._missing)}"
        if unused := [id for id in self.texts if id not in self._found]:
            yield f"references in {self._label} that no row has the id of: {_count_ids(unused)}"


def parse_whole_number(id: str) -> int | None:
    """Return the whole number that an id is written as; None for other ids."""
    match = re.fullmatch(r"\s*(\d{1,18})(?:\.0+)?\s*", id)
    if match is None:
        return None
    return int(match[1])


def _read_id(id: object) -> str:
    return "" if is_missing(id) else str(id)


def _count_ids(ids: Collection[str]) -> str:
    return f"{len(ids):,} id{'s' * (len(ids) != 1)} ({shorten_list(ids)})"
