"""Pairs -> scored rows, in order, batch by batch; what an earlier run scored is kept.

The one engine behind ``posh-reward score``, the recipes and the demo.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from posh_reward.errors import InputError, JudgeError
from posh_reward.study.rows.files import check_apart, open_table, shown, sink
from posh_reward.study.rows.formats import STANDARD, format_of
from posh_reward.study.rows.journal import Row, Sink
from posh_reward.study.rows.pairs import Columns, Pair, checked, pairs_of, survey, with_pictures
from posh_reward.study.rows.scored import scored_row, scores_of
from posh_reward.study.rows.standings import Tally
from posh_reward.study.rows.writing import write_table
from posh_reward.types import Scores

PATIENCE = 3
"""Batches in a row in which the judge failed at every pair, after which it counts as gone."""


class Metric(Protocol):
    """What scores pairs, such as ``PoSh``."""

    @property
    def signature(self) -> str:
        """Everything that another run needs to reproduce the scores; its name comes first."""
        ...

    def score(
        self, generations: Sequence[str | None], references: Sequence[str | None], /
    ) -> list[Scores]:
        """One record for each pair, in order.

        A metric that ``wants_pictures`` is given them too, as ``PoSh`` with a witness is.
        """
        ...


@dataclass(frozen=True, slots=True)
class How:
    """How a table is scored."""

    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    """Of the input, one of ``FORMATS``; None: what its ending says."""
    delimiter: str | None = None
    """Of an input in CSV; None: a comma, or a tab for ``tsv``."""
    elements: bool = False
    """Whether rows have each element with its grade and its place."""
    batch: int = 32
    """Pairs that are scored and written at a time."""
    overwrite: bool = False
    """Discard what the output holds, instead of going on after it."""
    quiet: bool = False


def score_table(metric: Metric, source: str, output: str, how: How) -> Tally:
    """Scores every pair of a table into a file; killed at any moment, it resumes.

    Args:
        metric: what scores.
        source: a table in the format that its ending names; ``-`` for standard input.
        output: likewise; ``-`` for JSON lines on standard output.
        how: columns, format, size of batches.

    Returns:
        Totals over all rows of the output, including those of earlier runs.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    source_format = format_of(source, how.format, how.delimiter)
    format = format_of(output)
    check_apart(source, output)
    if wants_pictures(metric):  # otherwise a column of them may be missing
        how = replace(how, columns=replace(how.columns, image=how.columns.image or "image"))
    total = None
    if source != STANDARD:
        with open_table(source, source_format) as rows:
            total = survey(rows, shown(source), how.columns)
    with sink(output, format, how.overwrite) as out, open_table(source, source_format) as rows:
        new = rows if total is not None else checked(rows, shown(source), how.columns)
        pairs = with_pictures(pairs_of(new, how.columns), Path(source).parent)
        tally = _score_into(out, metric, pairs, output, how, total)
        if not format.appendable:
            write_table(out.rows(), Path(output), format)
            out.discard()
    return tally


def _score_into(
    out: Sink, metric: Metric, pairs: Iterator[Pair], output: str, how: How, total: int | None
) -> Tally:
    """Scores the pairs that ``out`` does not hold yet; counts all that it holds then."""
    from tqdm import tqdm

    tally = Tally()
    for row in check_done(out.rows(), pairs, output, metric.signature, how.elements):
        tally.add(row)
    name = metric.signature.partition("|")[0]
    with tqdm(desc=name, unit="pair", total=total, initial=tally.rows, disable=how.quiet) as bar:
        if tally.rows and not how.quiet:
            bar.write(f"{tally.rows:,} of {total or '?'} pairs were scored before", file=sys.stderr)
        for batch in score_pairs(metric, pairs, batch=how.batch, elements=how.elements):
            out.append(batch)
            for row in batch:
                tally.add(row)
            bar.update(len(batch))
    return tally


def check_done(
    done: Iterable[Row], pairs: Iterator[Pair], name: str, signature: str, elements: bool
) -> Iterator[Row]:
    """Passes on the rows of an earlier run, after checking that this run would begin with them.

    Takes one of the ``pairs`` for each.

    Raises:
        InputError: another signature, other rows or another choice of columns.
    """
    remedy = "write elsewhere, or start over with --overwrite"
    for place, row in enumerate(done, start=1):
        try:
            signed = scores_of(row).signature
        except InputError as error:
            raise InputError(
                f"row {place} of {name!r} is not a row of scores ({error}): write elsewhere"
            ) from None
        if signed != signature:
            raise InputError(f"{name!r} was scored as {signed}, not as {signature}: {remedy}")
        if ("elements" in row) != elements:
            raise InputError(
                f"{name!r} was written {'with' if 'elements' in row else 'without'} --elements: "
                f"{remedy}"
            )
        pair = next(pairs, None)
        if pair is None or any(row.get(key) != value for key, value in pair.head.items()):
            raise InputError(
                f"row {place} of {name!r} is not row {place} of the input, which must have "
                f"changed: {remedy}"
            )
        yield row


def score_pairs(
    metric: Metric, pairs: Iterator[Pair], *, batch: int, elements: bool
) -> Iterator[list[Row]]:
    """Scored rows, a batch at a time.

    If the judge fails at every pair of a batch, the batch is kept back until the judge works again:
    once written, its rows would count as done, and no later run would ask again.

    Raises:
        JudgeError: the judge cannot work at all, or not any more.
    """
    kept_back: list[list[Row]] = []
    failed = 0
    while some := list(islice(pairs, batch)):
        scores = score_together(metric, some)
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


def wants_pictures(metric: object) -> bool:
    """Whether a metric has to be given the pictures, too."""
    return bool(getattr(metric, "wants_pictures", False))


def score_together(metric: Metric, pairs: Sequence[Pair]) -> list[Scores]:
    """The scores of some pairs, with their pictures for a metric that looks at them."""
    given: list[list[Any]] = [[p.generation for p in pairs], [p.reference for p in pairs]]
    if wants_pictures(metric):
        given.append([p.picture for p in pairs])
    return metric.score(*given)
