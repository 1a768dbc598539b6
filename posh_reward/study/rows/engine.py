"""A table -> a file with one result row for each of its rows; what an earlier run did is kept.

The one engine behind every command that scores a file, whatever the metric.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from posh_reward.errors import InputError, JudgeError
from posh_reward.process.progress import progress_bar
from posh_reward.study.rows.journal import Sink, check_apart, sink
from posh_reward.study.rows.table_items import (
    Columns,
    TableItem,
    check_rows,
    read_items,
    survey,
    with_images,
)
from posh_reward.study.rows.table_writer import write_table
from posh_reward.study.rows.tables import (
    STANDARD,
    Row,
    display_name,
    first_line_delimiter,
    format_of,
    open_table,
)

PATIENCE = 3
"""Batches in a row in which the judge failed at every row, after which it counts as gone."""
SEVERAL = "|references:joined"  # part of the signature of a row with several references
REMEDY = "write elsewhere, or start over with --overwrite"


class RowScorer(Protocol):
    """A metric over the rows of a table, and how its scores are written down."""

    @property
    def signature(self) -> str:
        """Everything that another run needs to get the same rows; the metric's name comes first."""

    @property
    def unit(self) -> str:
        """Noun for a row: "pair"."""

    @property
    def wants_images(self) -> bool:
        """True if the table needs a column of images."""

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One result row for each item, in order: its ``head``, scores, failure, signature."""

    def has_question(self, row: Row) -> bool:
        """Return True if there was a question for the judge about this row."""

    @property
    def optional(self) -> Mapping[str, bool]:
        """Columns that rows have only with the flag of that name, and whether it was given."""

    def check(self, row: Row) -> None:
        """Raise ``InputError`` if it is not a row of this metric; it has a signature then."""


class RowCounter(Protocol):
    """Take note of each result row, for a summary."""

    def add(self, row: Row) -> None:
        """Count one more row."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Columns, format and batches of one pass over a table."""

    columns: Columns = field(default_factory=Columns)
    format: str | None = None  # of the input, one of ``FORMATS``; None: what its ending says
    delimiter: str | None = None  # of an input in CSV; None: a comma, or a tab for ``tsv``
    batch: int = 32  # rows that are scored and written at a time
    overwrite: bool = False  # discard what the output holds, instead of going on after it
    quiet: bool = False
    # Folder that paths and names of images are relative to; None: that of the table.
    images: Path | None = None


def go_through(
    scorer: RowScorer, source: str, output: str, settings: TableSettings, counter: RowCounter
) -> None:
    """Score every row of a table into a file; killed at any moment, it resumes.

    Args:
        scorer: the metric.
        source: a table in the format that its ending names; ``-`` for standard input.
        output: likewise; ``-`` for JSON lines on standard output.
        settings: columns, format, size of batches.
        counter: is given all rows of the output, including those of earlier runs.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    format = format_of(output)
    if format.kind == "csv":  # semicolons in, semicolons out
        own = format_of(source, settings.format, settings.delimiter)
        format = format_of(output, None, settings.delimiter or first_line_delimiter(source, own))
    check_apart(source, output)
    with (
        open_items(source, settings, images=scorer.wants_images) as (items, total),
        sink(output, format, settings.overwrite) as out,
    ):
        fill(out, scorer, items, output, settings, counter, total)
        if not format.appendable:
            write_table(out.rows(), Path(output), format)
            out.discard()


@contextmanager
def open_items(
    source: str, settings: TableSettings, *, images: bool = False
) -> Iterator[tuple[Iterator[TableItem], int | None]]:
    """The items of a table, and how many there are, while the block lasts.

    The number is None for standard input, which can be read only once.

    Raises:
        InputError: it cannot be read, has no rows, or lacks a column.
    """
    format = format_of(source, settings.format, settings.delimiter)
    # A file is read twice: faults in its last row are told before hours are spent on its first.
    columns = settings.columns
    if images:  # otherwise a column of them may be missing
        columns = replace(columns, image=columns.image or "image")
    total = None
    if source != STANDARD:
        with open_table(source, format) as rows:
            total = survey(rows, display_name(source), columns)
    with open_table(source, format) as rows:
        new = rows if total is not None else check_rows(rows, display_name(source), columns)
        yield with_images(read_items(new, columns), settings.images or Path(source).parent), total


def fill(
    out: Sink,
    scorer: RowScorer,
    items: Iterator[TableItem],
    name: str,
    settings: TableSettings,
    counter: RowCounter,
    total: int | None = None,
) -> None:
    """Add the rows that ``out``, called ``name``, does not hold yet; count all of them."""
    count = 0
    for row in check_earlier(out.rows(), items, name, scorer):
        counter.add(row)
        count += 1
    metric = scorer.signature.partition("|")[0]
    with progress_bar(metric, total, scorer.unit, settings.quiet, initial=count) as bar:
        if count and not settings.quiet:
            text = f"{count:,} of {total or '?'} {scorer.unit}s were scored before"
            bar.write(text, file=sys.stderr)
        for batch in batches(scorer, items, settings.batch):
            out.append(batch)
            for row in batch:
                counter.add(row)
            bar.update(len(batch))


def check_earlier(
    rows: Iterable[Row], items: Iterator[TableItem], name: str, scorer: RowScorer
) -> Iterator[Row]:
    """Pass on the rows of an earlier run, each checked to be the one that its item would get.

    Raises:
        InputError: another signature, other rows or another choice of columns.
    """
    for place, row in enumerate(rows, start=1):
        try:
            scorer.check(row)
        except InputError as error:
            raise InputError(
                f"row {place} of {name!r} is not a row of scores ({error}): write elsewhere"
            ) from None
        if row["signature"].replace(SEVERAL, "") != scorer.signature:
            raise InputError(
                f"{name!r} was scored as {row['signature']}, not as {scorer.signature}: {REMEDY}"
            )
        for flag, is_on in scorer.optional.items():
            if (flag in row) != is_on:
                raise InputError(
                    f"{name!r} was written {'without' if is_on else 'with'} --{flag}: {REMEDY}"
                )
        item = next(items, None)
        if item is None or any(row.get(key) != value for key, value in item.head.items()):
            raise InputError(
                f"row {place} of {name!r} is not row {place} of the input, which must have "
                f"changed: {REMEDY}"
            )
        yield row


def batches(scorer: RowScorer, items: Iterator[TableItem], batch: int) -> Iterator[list[Row]]:
    """Result rows, a batch at a time.

    Raises:
        JudgeError: the judge cannot work at all, or not any more.
    """
    # A batch at whose every row the judge fails waits until the judge works again: once written,
    # its rows would count as done, and no later run would ask again. Rows without a question for
    # the judge (an empty text) say nothing of the judge and neither start nor end such a run.
    waiting: list[list[Row]] = []
    failures = 0
    while chunk := list(islice(items, batch)):
        rows = scorer.rows(chunk)
        waiting.append(rows)
        reasons = [row["failure"] for row in rows if scorer.has_question(row)]
        if None in reasons:
            failures = 0
        elif reasons:
            failures += 1
        if failures == PATIENCE:
            raise JudgeError(
                f"it failed at every {scorer.unit} of {PATIENCE} batches in a row ({reasons[0]}), "
                f"whose rows are not kept; if the {scorer.unit}s are at fault, a greater --batch "
                "gets past them"
            )
        if not failures:
            yield from waiting
            waiting.clear()
    yield from waiting
