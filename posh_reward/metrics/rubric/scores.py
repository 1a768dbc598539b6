"""What a rubric's judge gives one text."""

from __future__ import annotations

from dataclasses import dataclass

from posh_reward.types import Failure


@dataclass(frozen=True, slots=True)
class Given:
    """The points of one metric."""

    metric: str
    points: int
    """Higher is better."""
    feedback: str
    """The judge's reason. Text of a model: escape it before you show it in a page."""


@dataclass(frozen=True, slots=True)
class RubricScores:
    """A rubric's points for one text."""

    total: int | None
    """Sum of the points, higher is better; None if there are none."""
    share: float | None
    """The total from 0 (fewest points) to 1 (most)."""
    signature: str
    """Everything that another run needs to reproduce the figures."""
    given: tuple[Given, ...] = ()
    """One for each metric, in the rubric's order."""
    failure: Failure | None = None
    """Why there are no points; None if there are."""
    repaired: bool = False
    """Whether the first reply could not be used and the second could."""
    text: str = ""
    """The stripped text."""

    @property
    def points(self) -> dict[str, int]:
        """Metric -> points."""
        return {each.metric: each.points for each in self.given}
