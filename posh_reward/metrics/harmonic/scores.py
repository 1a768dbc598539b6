"""What HarmonicEval gives one text."""

from __future__ import annotations

from dataclasses import dataclass

from posh_reward.types import Failure


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """One criterion of one text."""

    criterion: str
    mean: float | None
    """1-5, higher is better: the expected score; None if the judgment failed."""
    sigma: float | None
    """Standard deviation of the score, 0 (sure) to 2."""
    weight: float | None = None
    """Its share of the overall score; None if any criterion of the text failed."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class HarmonicScores:
    """HarmonicEval of one text. All scores are 1-5, higher is better."""

    overall: float | None
    """The weighted mean of the criteria; None if one of them failed."""
    signature: str
    """Everything that another run needs to reproduce the figures."""
    criteria: tuple[CriterionScore, ...] = ()
    """In the order in which they were asked for; empty if the text could not be asked about."""
    failure: Failure | None = None
    """Why there is no overall score; None if there is."""
    text: str = ""
    """The stripped text."""

    @property
    def means(self) -> dict[str, float | None]:
        """Criterion -> score."""
        return {each.criterion: each.mean for each in self.criteria}

    @property
    def sigmas(self) -> dict[str, float | None]:
        """Criterion -> standard deviation of its score."""
        return {each.criterion: each.sigma for each in self.criteria}
