"""Score the rows of a table into a file, resuming what an earlier run left; for any metric."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.metrics.records import fields_of_record, read_scores, reason_of, row_of
from posh_reward.process.progress import progress_bar
from posh_reward.study.rows.journal import Journal, Stream, check_apart, sink
from posh_reward.study.rows.table_items import (
    Columns,
    TableItem,
    check_rows,
    read_items,
    with_images,
)
from posh_reward.study.rows.tables import (
    STANDARD,
    Row,
    display_name,
    format_of,
    open_table,
)
from posh_reward.types import Scores

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh


PATIENCE = 3
"""Consecutive batches in which the judge failed on every row, after which it counts as gone."""
SEVERAL = "|references:joined"  # part of the signature of a row with several references
REMEDY = "choose another output, or start over with --overwrite"


class RowScorer(ABC):
    """A metric over the rows of a table, and how its scores become rows."""

    record = ""  # metric whose scores the rows have, one of ``RECORDS``
    unit = "text"  # noun for a row
    optional: Mapping[str, bool] = {}  # column written only with the flag of that name -> flag set

    def __init__(self, signature: Callable[[], str], wants_images: bool, *columns: str) -> None:
        self._signature = signature
        self.wants_images = wants_images
        self._columns = columns

    @cached_property
    def signature(self) -> str:
        """Everything another run needs to get the same rows; the metric's name comes first."""
        return self._signature()

    @abstractmethod
    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One result row per item, in order: its ``head``, scores, failure, signature."""

    def row(self, item: TableItem, scores: Any, **columns: object) -> Row:
        """The row of one item: its ``head``, the fields of its scores, ``columns``, lists last."""
        fields = {**row_of(self.record, scores), **columns}
        last = sorted(
            fields, key=lambda name: (isinstance(fields[name], list), name == "signature")
        )
        head = self.head(item)
        return {**head, **{name: fields[name] for name in last if name not in head}}

    def head(self, item: TableItem) -> Row:
        """Columns that a row repeats from its item."""
        return item.head

    def has_question(self, row: Row) -> bool:
        """Return True if the judge was asked about this row: its text and image were usable."""
        return row["failure"] is None or bool(row["failure"]["kind"] != "text")

    def check(self, row: Row) -> None:
        """Raise ``InputError`` if this is not a row of the metric."""
        own = fields_of_record(self.record) if self.record else ("failure", "signature")
        names = [name for name in (*own, *self._columns) if name not in self.optional]
        if missing := [name for name in names if name not in row]:
            raise InputError(f"it lacks {', '.join(missing)}")
        if self.record:
            read_scores(self.record, row)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Columns, format and batches of one pass over a table."""

    columns: Columns = field(default_factory=Columns)
    format: str | None = None  # of the input, one of ``FORMATS``; None: by its ending
    delimiter: str | None = None  # of a CSV input; None: a comma, or a tab for ``tsv``
    batch: int = 32  # rows scored and written at a time
    overwrite: bool = False  # discard the output's rows instead of resuming after them
    quiet: bool = False
    images: Path | None = None  # folder of relative image paths and names; None: the table's


def go_through(
    scorer: RowScorer,
    source: str,
    output: str,
    settings: TableSettings,
    count: Callable[[Row], None],
) -> None:
    """Score every row of a table into a file; a killed run resumes where it stopped."""
    format = format_of(output)
    if format.kind == "csv":  # semicolons in, semicolons out
        format = format_of(output, None, settings.delimiter)
    check_apart(source, output)
    with (
        open_items(source, settings, images=scorer.wants_images) as (items, total),
        sink(output, format, settings.overwrite) as out,
    ):
        fill(out, scorer, items, output, settings, count, total)


@contextmanager
def open_items(
    source: str, settings: TableSettings, *, images: bool = False
) -> Iterator[tuple[Iterator[TableItem], int | None]]:
    """Open a table: its items, and their number (None for standard input, read only once)."""
    format = format_of(source, settings.format, settings.delimiter)
    columns = settings.columns
    if images:  # without, a missing column of images is no error
        columns = replace(columns, image=columns.image or "image")
    total = None
    if source != STANDARD:
        # Read the file twice: report a fault in its last row before spending hours on the others.
        with open_table(source, format) as rows:
            total = sum(1 for _ in check_rows(rows, display_name(source), columns))
    with open_table(source, format) as rows:
        checked = rows if total is not None else check_rows(rows, display_name(source), columns)
        folder = settings.images or Path(source).parent
        yield with_images(read_items(checked, columns), folder), total


def fill(
    out: Journal | Stream,
    scorer: RowScorer,
    items: Iterator[TableItem],
    name: str,
    settings: TableSettings,
    count: Callable[[Row], None],
    total: int | None = None,
) -> None:
    """Add to ``out``, called ``name``, the rows it lacks; call ``count`` with every row."""
    done = 0
    for row in check_earlier(out.rows(), items, name, scorer):
        count(row)
        done += 1
    metric = scorer.signature.partition("|")[0]
    with progress_bar(metric, total, scorer.unit, settings.quiet, initial=done) as bar:
        if done and not settings.quiet:
            text = f"{done:,} of {total or '?'} {scorer.unit}s were scored before"
            bar.write(text, file=sys.stderr)
        for batch in batches(scorer, items, settings.batch):
            out.append(batch)
            for row in batch:
                count(row)
            done += len(batch)
            bar.update(len(batch))
    if total is not None and done < total:
        raise InputError(
            f"the input had {total:,} rows and now has {done:,}: run the same command again"
        )


def check_earlier(
    rows: Iterable[Row], items: Iterator[TableItem], name: str, scorer: RowScorer
) -> Iterator[Row]:
    """Pass on the rows of an earlier run, checking each against the item of its place."""
    for place, row in enumerate(rows, start=1):
        try:
            scorer.check(row)
        except InputError as error:
            raise InputError(
                f"row {place} of {name!r} is not a row of scores ({error}): choose another output"
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
                f"row {place} of {name!r} does not match row {place} of the input, which must "
                f"have changed: {REMEDY}"
            )
        yield row


def batches(scorer: RowScorer, items: Iterator[TableItem], batch: int) -> Iterator[list[Row]]:
    # Hold back a batch in which the judge failed on every row until it works again: once written,
    # its rows would count as done and no later run would retry them. Rows without a question for
    # the judge (an empty text) tell nothing about the judge, so they are ignored here.
    waiting: list[list[Row]] = []
    failures = 0
    while chunk := list(islice(items, batch)):
        rows = scorer.rows(chunk)
        waiting.append(rows)
        reasons = [reason_of(row) for row in rows if scorer.has_question(row)]
        if None in reasons:
            failures = 0
        elif reasons:
            failures += 1
        if failures == PATIENCE:
            raise JudgeError(
                f"it failed on every {scorer.unit} of {PATIENCE} consecutive batches "
                f"({reasons[0]}); their rows are not kept. If the {scorer.unit}s are at fault, "
                "get past them with a larger --batch"
            )
        if not failures:
            yield from waiting
            waiting.clear()
    yield from waiting


_posh: PoSh | None = None  # of a worker process


class ScoringPool:
    """A metric that scores pairs in worker processes; a context manager."""

    wants_images = False

    def __init__(self, posh: PoSh, settings: Mapping[str, Any], jobs: int) -> None:
        # A language model batches pairs by itself, and a witness's images would be copied between
        # processes.
        if not posh.judge.name.startswith("embedded") or posh.wants_images:
            raise InputError(
                "--processes is for the embedded judge without a witness, not for "
                f"{posh.judge.name}: leave it out"
            )
        self._posh = posh
        self._jobs = jobs
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # else each worker uses a thread per core
        self._pool = ProcessPoolExecutor(
            jobs, get_context("spawn"), initializer=_start, initargs=(dict(settings),)
        )

    def __enter__(self) -> ScoringPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def signature(self) -> str:
        """The metric's."""
        return self._posh.signature

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None]
    ) -> list[Scores]:
        """Score pairs, in order; ``JudgeError`` if a worker died, for example out of memory."""
        # Contiguous chunks: neighbours often share a reference, which a worker then parses once.
        size = -(-len(generations) // self._jobs)  # rounded up
        starts = range(0, len(generations), size)
        try:
            parts = self._pool.map(
                _score,
                [generations[start : start + size] for start in starts],
                [references[start : start + size] for start in starts],
            )
            return list(chain.from_iterable(parts))
        except BrokenProcessPool:
            raise JudgeError(
                "a process of --processes died, perhaps out of memory: use fewer"
            ) from None


def _start(settings: dict[str, Any]) -> None:
    from posh_reward.metrics.load_metric import load_metric

    global _posh
    _posh = load_metric(settings)


def _score(generations: Sequence[str | None], references: Sequence[str | None]) -> list[Scores]:
    assert _posh is not None
    return _posh.score(generations, references)
