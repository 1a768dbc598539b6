"""A table worked through batch by batch; a run that broke off goes on where it was.

An output that was made from other rows, or by another signature, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

from posh_reward.errors import InputError, JudgeError
from posh_reward.study.rows.files import open_table, shown
from posh_reward.study.rows.formats import STANDARD, format_of
from posh_reward.study.rows.journal import Journal, Row
from posh_reward.study.rows.pairs import check_column

REMEDY = "write elsewhere, or start over with --overwrite"

Work = Callable[[Sequence[Row]], list[Row]]
"""What is to be done with a batch of the input: one row for each."""


@dataclass(frozen=True, slots=True)
class How:
    """How a table is gone through."""

    id: str | None = None
    """The column that tells rows apart; None: they are counted from 1."""
    image: str | None = None
    """The column with pictures: paths, from here or from the input's folder, or their bytes."""
    model: str | None = None
    """The column that says who wrote the response; it is carried along."""
    batch: int = 16
    """Rows that are worked on, and written, at a time."""
    overwrite: bool = False
    """Discard what the output holds, instead of going on after it."""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The input: what is read of each of its rows."""

    source: str
    columns: Mapping[str, str]
    """Name -> column, of texts."""
    how: How

    def count(self) -> int | None:
        """How many rows there are; None for standard input, which is read once."""
        return None if self.source == STANDARD else sum(1 for _ in self.heads())

    def heads(self) -> Generator[Row]:
        """Id, texts and picture of each row.

        Raises:
            InputError: there are none, or a column is missing.
        """
        number, carried = 0, {"model": self.how.model, "image": self.how.image}
        with open_table(self.source, format_of(self.source)) as rows:
            for number, row in enumerate(rows, start=1):
                if number == 1:
                    self._check(row, {**self.columns, **carried, "id": self.how.id})
                yield {
                    "id": number if self.how.id is None else row.get(self.how.id),
                    **{name: row.get(column) for name, column in carried.items() if column},
                    **{name: _text(row.get(column)) for name, column in self.columns.items()},
                }
        if not number:
            raise InputError(f"{shown(self.source)} has no rows")

    def _check(self, row: Row, flags: Mapping[str, str | None]) -> None:
        for flag, column in flags.items():
            check_column(row, shown(self.source), flag, column)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def plain(head: Row) -> Row:
    """A row of the input as it is written: a picture by its path, if it has one."""
    image = head.get("image")
    path = image.get("path") if isinstance(image, Mapping) else image
    return {**head, "image": path if isinstance(path, str) else None} if "image" in head else head


def go_on(journal: Journal, table: Table, work: Work, signature: str, how: How) -> list[Row]:
    """Does what the journal does not hold yet, a batch in memory at a time; all its rows then."""
    from tqdm import tqdm

    total = table.count()
    with closing(table.heads()) as heads:
        rows = chain(list(islice(heads, 1)), heads)  # nothing is cleared for an unusable input
        if how.overwrite:
            journal.clear()
        done = _skip_done(journal, rows, signature)
        with tqdm(desc="prove", unit="row", total=total, initial=done, disable=how.quiet) as bar:
            while some := list(islice(rows, how.batch)):
                new = work(some)
                if all(row["failure_kind"] == "engine" for row in new):
                    raise JudgeError(
                        f"it failed at every row of a batch ({new[0]['failure']}), which is not "
                        "kept; if the rows are at fault, a greater --batch gets past them"
                    )
                journal.append(new)
                bar.update(len(new))
    return list(journal.rows())


def _skip_done(journal: Journal, rows: Iterator[Row], signature: str) -> int:
    """How many rows the journal holds; takes as many of the input's.

    Raises:
        InputError: they are of another signature, or not the first of the input.
    """
    path, place = str(journal.path), 0
    for place, before in enumerate(journal.rows(), start=1):
        if before.get("signature") != signature:
            raise InputError(
                f"{path!r} was made as {before.get('signature')}, not as {signature}: {REMEDY}"
            )
        row = next(rows, None)
        if row is None:
            raise InputError(f"{path!r} has more rows than the input: {REMEDY}")
        if any(before.get(key) != value for key, value in plain(row).items()):
            raise InputError(
                f"row {place} of {path!r} is not row {place} of the input, which must have "
                f"changed: {REMEDY}"
            )
    return place
