"""POSH over files: pairs -> scored rows, by the engine.

Behind ``posh-reward score``, the recipes and the demo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from posh_reward.study.rows.engine import How, batches, go_through
from posh_reward.study.rows.journal import Row
from posh_reward.study.rows.pairs import Item, Pair
from posh_reward.study.rows.scored import elements_in, scored_row, scores_of
from posh_reward.study.rows.standings import Tally
from posh_reward.types import Scores

__all__ = ["How", "Metric", "PoshRows", "score_pairs", "score_table", "wants_images"]


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

        A metric that ``wants_images`` is given them too, as ``PoSh`` with a witness is.
        """
        ...


def wants_images(metric: object) -> bool:
    """Whether a metric has to be given the images, too."""
    return bool(getattr(metric, "wants_images", False))


class PoshRows:
    """Pairs -> rows with POSH's scores.

    Args:
        metric: what scores.
        elements: whether rows have each element with its grade and its place.
    """

    unit = "pair"

    def __init__(self, metric: Metric, *, elements: bool = False) -> None:
        self.metric = metric
        self.elements = elements

    @property
    def signature(self) -> str:
        """The metric's."""
        return self.metric.signature

    @property
    def wants_images(self) -> bool:
        """Whether the metric has a witness, who looks at images."""
        return wants_images(self.metric)

    def rows(self, items: Sequence[Item]) -> list[Row]:
        """One scored row for each pair."""
        given: list[list[Any]] = [
            [item.texts[name] for item in items] for name in ("generation", "reference")
        ]
        if self.wants_images:
            given.append([item.content for item in items])
        scores = self.metric.score(*given)
        return [
            scored_row(item, each, elements=self.elements)
            for item, each in zip(items, scores, strict=True)
        ]

    def asked(self, row: Row) -> bool:
        """Whether there was anything to ask: a pair without elements says nothing of the judge."""
        return elements_in(row) > 0

    @property
    def optional(self) -> Mapping[str, bool]:
        """Whether rows have their elements."""
        return {"elements": self.elements}

    def check(self, row: Row) -> None:
        """Raises ``InputError`` if it is not a row of POSH's scores."""
        scores_of(row)


def score_table(
    metric: Metric, source: str, output: str, how: How, *, elements: bool = False
) -> Tally:
    """Scores every pair of a table into a file; killed at any moment, it resumes.

    Args:
        metric: what scores.
        source: a table in the format that its ending names; ``-`` for standard input.
        output: likewise; ``-`` for JSON lines on standard output.
        how: columns, format, size of batches.
        elements: whether rows have each element with its grade and its place.

    Returns:
        Totals over all rows of the output, including those of earlier runs.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    tally = Tally()
    go_through(PoshRows(metric, elements=elements), source, output, how, tally)
    return tally


def score_pairs(
    metric: Metric, pairs: Iterator[Pair], *, batch: int, elements: bool
) -> Iterator[list[Row]]:
    """Scored rows, a batch at a time.

    Raises:
        JudgeError: the judge cannot work at all, or not any more.
    """
    return batches(PoshRows(metric, elements=elements), (each.item for each in pairs), batch)
