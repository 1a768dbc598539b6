"""Texts -> scores with their elements; what a file of scored rows has is not judged again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.agreement.items import Pair, Progress
from posh_reward.study.rows.journal import Journal
from posh_reward.study.rows.posh_rows import elements_in, scores_of, typed
from posh_reward.study.rows.scorers import Metric, score_pairs, wants_images
from posh_reward.study.rows.table_items import pair_item
from posh_reward.study.rows.tables import Row, format_of, open_table
from posh_reward.types import Scores

BATCH = 32
"""Pairs that are scored and kept at a time."""


def unweighted(signature: str) -> str:
    """A signature without its weights: grades do not depend on them."""
    return re.sub(r"\|weights:[^|]*", "", signature)


@dataclass
class Kept:
    """Scored rows with elements, by generation and reference."""

    source: str | None = None
    """What messages call the file."""
    signature: str | None = None
    """That of all rows, without weights; None if there are none."""
    scores: dict[tuple[object, object], Scores] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Takes one more row.

        Raises:
            InputError: it is not a scored row, lacks its elements, or another metric scored it.
        """
        found = scores_of(row)
        if found.failure is None and elements_in(row) and not found.elements:
            raise InputError("it has no elements: score with --elements")
        signature = unweighted(found.signature)
        if self.signature not in (None, signature):
            raise InputError(f"it was scored as {signature}, earlier rows as {self.signature}")
        self.signature = signature
        self.scores[row["generation"], row["reference"]] = found


def read_kept(path: Path) -> Kept:
    """The rows of a file that ``posh-reward score --elements`` wrote; none if it is not there yet.

    Raises:
        InputError: it cannot be read, or a row cannot be used; the message has the row.
    """
    kept = Kept(str(path))
    if not path.exists():
        return kept
    with open_table(str(path), format_of(str(path))) as rows:
        for place, row in enumerate(rows, start=1):
            try:
                kept.add(typed(row))
            except InputError as error:
                raise InputError(f"{str(path)!r}, row {place}: {error}") from None
    return kept


def score_missing(
    wanted: Sequence[Pair],
    kept: Kept,
    metric: Callable[[], Metric],
    progress: Callable[[int], Progress],
) -> list[Scores]:
    """Scores of all pairs, in order; those that were not kept are judged, and kept from now on.

    Args:
        wanted: the pairs; each distinct one is judged once.
        kept: what was scored before.
        metric: makes what scores, and is called only if something is missing.
        progress: given the number of pairs to judge, makes what is told how many more are done.

    Raises:
        InputError: the metric is not the one that scored the rows that were kept, or needs
            images, or more rows cannot be added to their file.
        JudgeError: the judge cannot work.
    """
    distinct = dict.fromkeys((pair.generation, pair.reference) for pair in wanted)
    missing = sorted((each for each in distinct if each not in kept.scores), key=lambda p: p[::-1])
    if missing:
        used = metric()
        if wants_images(used):
            raise InputError(
                "calibration grades texts without their images, which a witness needs: leave the "
                "witness out"
            )
        check_same(kept, used.signature)
        done = progress(len(missing))
        for rows in _scored(missing, used, kept):
            for row in rows:
                kept.add(row)
            done(len(rows))
    return [kept.scores[pair.generation, pair.reference] for pair in wanted]


def check_same(kept: Kept, signature: str) -> None:
    """Makes sure that a metric would grade as the one that scored the rows did.

    Raises:
        InputError: it would not.
    """
    if kept.signature not in (None, unweighted(signature)):
        raise InputError(
            f"{kept.source!r} was scored as {kept.signature}, but the flags describe "
            f"{unweighted(signature)}: give the --config (or --judge, --parser, ...) that it was "
            "scored with, or another file"
        )


def _scored(
    missing: Iterable[tuple[str, str]], metric: Metric, kept: Kept
) -> Iterator[Sequence[Row]]:
    start = len(kept.scores) + 1
    items = (pair_item(number, *each) for number, each in enumerate(missing, start=start))
    batches = score_pairs(metric, items, batch=BATCH, elements=True)
    if kept.source is None:
        yield from batches
        return
    if not format_of(kept.source).appendable:
        raise InputError(
            f"{kept.source!r} does not have all texts, and rows are added to .jsonl only: name one"
        )
    with closing(Journal(Path(kept.source))) as journal:
        for rows in batches:
            journal.append(rows)
            yield rows
