"""A file of references, joined to the rows of another file by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from posh_reward.errors import InputError
from posh_reward.settings import brief, brief_list
from posh_reward.study.rows.reading import open_rows
from posh_reward.study.rows.tables import Row, display_name
from posh_reward.text_values import MISSING, read_texts
from posh_reward.types import Failure, is_missing

SHOWN_IDS = 3


@dataclass(slots=True)
class ReferenceFile:
    """The references of each id; those of several rows with one id are of one image.

    Raises:
        InputError: the file has no column of ids or of references, or a value is no text.
    """

    name: str
    id: str | None = None  # column of ids; None, or missing in the file: ``id``
    column: str = "reference"
    format: str | None = None
    delimiter: str | None = None
    texts: dict[str, list[str]] = field(init=False, default_factory=dict)
    _found: set[str] = field(init=False, default_factory=set)
    _missing: dict[str, None] = field(init=False, default_factory=dict)
    _replaced: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        with open_rows(self.name, self.format, self.delimiter, self.column) as rows:
            for number, row in enumerate(rows, start=1):
                id = row[self._column(row, self.id, "id")]
                texts = read_texts(row[self._column(row, self.column, "reference")])
                if texts == MISSING:
                    continue
                if isinstance(texts, Failure):
                    why = texts.about("the reference")
                    raise InputError(f"{self._shown}, row {number}: {why}")
                self.texts.setdefault(str(id), []).extend(texts)
        if not self.texts:
            raise InputError(f"{self._shown} has no references")

    @property
    def _shown(self) -> str:
        return display_name(self.name)

    def _column(self, row: Row, name: str | None, default: str) -> str:
        for each in (name, default):
            if each is not None and each in row:
                return each
        raise InputError(
            f"{self._shown} has no column {brief(name or default)}, but {brief_list(row)}: rename "
            f"the column of {default}s to {default}"
        )

    def join(self, rows: Iterable[Row], name: str) -> Iterator[Row]:
        """Give each row of ``name`` its references, as a list; None if its id has none."""
        for row in rows:
            column = "id" if self.id is None else self.id
            if is_missing(id := row.get(column)):
                raise InputError(
                    f"{name} has no column {brief(column)} to find references by, but "
                    f"{brief_list(row)}: name the right one with --id"
                )
            self._replaced = self._replaced or self.column in row
            texts = self.texts.get(str(id))
            if texts is None:
                self._missing[str(id)] = None
            else:
                self._found.add(str(id))
            yield {**row, self.column: texts}
        if not self._found:
            raise InputError(
                f"no id of {name}, such as {_some(self._missing)}, is in {self._shown}, which has "
                f"{_some(self.texts)}: do both name the same images?"
            )

    def lines(self) -> Iterator[str]:
        """Say what was not joined."""
        if self._replaced:
            yield f"the input's own column {self.column!r} is not used"
        if self._missing:
            yield f"no reference in {self._shown} for {_counted(self._missing)}"
        if unused := [id for id in self.texts if id not in self._found]:
            yield f"references in {self._shown} that no row has the id of: {_counted(unused)}"


def _counted(ids: Iterable[str]) -> str:
    count = len(names := list(ids))
    return f"{count:,} id{'s' * (count != 1)} ({_some(names)})"


def _some(ids: Iterable[str]) -> str:
    names = list(ids)
    return ", ".join(map(repr, names[:SHOWN_IDS])) + (", ..." if len(names) > SHOWN_IDS else "")
