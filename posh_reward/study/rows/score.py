"""Pairs -> scored rows, in order, batch by batch; what is done is not done again.

The one engine behind ``posh-reward score``, the recipes and the demo.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import InputError, JudgeError
from posh_reward.study.rows.files import STANDARD, check_apart, open_table, output_format, sink
from posh_reward.study.rows.journal import Row, Sink
from posh_reward.study.rows.pairs import Columns, Pair, check_columns, pairs_of, survey
from posh_reward.study.rows.scored import AXES, scored_row
from posh_reward.study.rows.standings import Tally
from posh_reward.study.rows.tables import write_table

if TYPE_CHECKING:
    from posh_reward.metrics.posh.metric import PoSh

PATIENCE = 3
"""Batches in a row in which the judge failed at every pair, after which it counts as gone."""


@dataclass(frozen=True, slots=True)
class How:
    """How a table is scored."""

    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    """Of the input; None: what its ending says."""
    elements: bool = False
    """Whether rows have each element with its grade and its place."""
    batch: int = 32
    """Pairs that are scored and written at a time."""
    overwrite: bool = False
    """Discard what the output holds, instead of going on after it."""
    quiet: bool = False


def score_table(posh: PoSh, source: str, output: str, how: How) -> Tally:
    """Scores every pair of a table into a file; killed at any moment, it resumes.

    Args:
        posh: the metric.
        source: JSON lines, CSV or Parquet, by its ending; ``-`` for standard input.
        output: likewise; ``-`` for JSON lines on standard output.
        how: columns, format, size of batches.

    Returns:
        Totals over all rows of the output, those of earlier runs included.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    kind = output_format(output)
    check_apart(source, output)
    total = None
    if source != STANDARD:
        with open_table(source, how.format) as rows:
            total = survey(rows, source, how.columns).rows
    with sink(output, kind, how.overwrite) as out, open_table(source, how.format) as rows:
        tally = _score_into(out, posh, rows, source, output, how, total)
        if kind != "jsonl":
            write_table(out.rows(), Path(output), kind)
            out.discard()
    return tally


def _score_into(
    out: Sink,
    posh: PoSh,
    rows: Iterable[Row],
    source: str,
    output: str,
    how: How,
    total: int | None,
) -> Tally:
    """Scores what ``out`` does not hold yet; counts that and what it held."""
    from tqdm import tqdm

    tally = Tally()
    pairs = pairs_of(_checked(rows, source, how.columns), how.columns)
    for row in check_done(out.rows(), pairs, output, posh.signature, how.elements):
        tally.add(row)
    with tqdm(desc="POSH", unit="pair", total=total, initial=tally.rows, disable=how.quiet) as bar:
        if tally.rows and not how.quiet:
            bar.write(f"{tally.rows:,} of {total or '?'} pairs were scored before", file=sys.stderr)
        for batch in score_pairs(posh, pairs, batch=how.batch, elements=how.elements):
            out.append(batch)
            for row in batch:
                tally.add(row)
            bar.update(len(batch))
    return tally


def _checked(rows: Iterable[Row], name: str, columns: Columns) -> Iterator[Row]:
    """The rows, of which there has to be one, with the columns that were named."""
    empty = True
    for row in rows:
        if empty:
            check_columns(row, name, columns)
        empty = False
        yield row
    if empty:
        raise InputError(f"{name} has no rows")


def check_done(
    done: Iterable[Row], pairs: Iterator[Pair], name: str, signature: str, elements: bool
) -> Iterator[Row]:
    """Passes on what an earlier run has scored, if that is how this run would begin.

    Takes as many of the ``pairs``.

    Raises:
        InputError: another signature, other rows or another choice of columns.
    """
    remedy = "write elsewhere, or start over with --overwrite"
    for place, row in enumerate(done, start=1):
        if "signature" not in row or not row.keys() >= {"id", *AXES}:
            raise InputError(f"{name} holds rows that are not scores: write elsewhere")
        if row["signature"] != signature:
            raise InputError(
                f"{name} was scored as {row['signature']}, not as {signature}: {remedy}"
            )
        if ("elements" in row) != elements:
            raise InputError(
                f"{name} was written {'with' if 'elements' in row else 'without'} --elements: "
                f"{remedy}"
            )
        pair = next(pairs, None)
        if pair is None or any(row.get(key) != value for key, value in pair.head.items()):
            raise InputError(
                f"row {place} of {name} is not row {place} of the input, which must have "
                f"changed: {remedy}"
            )
        yield row


def score_pairs(
    posh: PoSh, pairs: Iterator[Pair], *, batch: int, elements: bool
) -> Iterator[list[Row]]:
    """Scored rows, a batch at a time.

    Rows of batches in which the judge failed at every pair are kept back until it is seen to
    work again: those of a judge that is gone would count as done for good.

    Raises:
        JudgeError: the judge cannot work at all, or not any more.
    """
    kept_back: list[list[Row]] = []
    failed = 0
    while some := list(islice(pairs, batch)):
        scores = posh.score([p.generation for p in some], [p.reference for p in some])
        kept_back.append(
            [scored_row(p, s, elements=elements) for p, s in zip(some, scores, strict=True)]
        )
        reasons = [each.failure for each in scores if each.elements]  # none: it was not asked
        if None in reasons:
            failed = 0
        elif reasons:
            failed += 1
        if failed == PATIENCE:
            raise JudgeError(
                f"it failed at every pair of {PATIENCE} batches in a row ({reasons[0]}), whose "
                "rows are not kept; if the pairs are at fault, a greater --batch gets past them"
            )
        if not failed:
            yield from kept_back
            kept_back.clear()
    yield from kept_back
