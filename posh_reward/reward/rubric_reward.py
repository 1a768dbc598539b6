"""A rubric's points as a reward function of TRL's trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.metrics.rubric.rubric_judge import RubricJudge, RubricScores
from posh_reward.reward.texts import column_of, is_blank
from posh_reward.reward.trl import MetricReward
from posh_reward.types import Failure


class RubricReward(MetricReward[RubricScores]):
    """A callable for ``GRPOTrainer(reward_funcs=...)``: the share of the points, 0 to 1.

    Higher is better. A text without any letter or digit gets 0, whatever the judge answers.
    See ``MetricReward`` for failures and pickling.

    Args:
        judge: the metric.
        reference_column: column of references, the ground truth.
        question_column: column of questions; None for the rubric's own question.
        max_failed_calls: stop after this many calls in a row in which most completions failed.

    Raises:
        InputError: ``max_failed_calls`` is less than 1.
    """

    __name__ = "rubric"

    def __init__(
        self,
        judge: RubricJudge,
        *,
        reference_column: str = "reference",
        question_column: str | None = None,
        max_failed_calls: int = 10,
    ) -> None:
        self.metric: RubricJudge = judge
        self.reference_column = reference_column
        self.question_column = question_column
        super().__init__(max_failed_calls)

    def check(self) -> None:
        """Score one text, so that a broken judge fails before the first step.

        Raises:
            JudgeError: there are no points; the message has the reason.
        """
        [score] = self.metric.score(["A man in a red coat."], ["A tall man in a red coat."])
        if score.failure is not None:
            raise JudgeError(f"the judge could not score a first text: {score.failure}")

    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any] | None, ...]:
        references = column_of(columns, self.reference_column, expected, "reference_column")
        if self.question_column is None:
            return references, None
        return references, column_of(columns, self.question_column, expected, "question_column")

    def _score(self, texts: list[Any], *columns: Any) -> list[RubricScores]:
        return self.metric.score(texts, *columns)

    def _failed(self, why: Failure) -> RubricScores:
        return RubricScores(None, None, "", failure=why)

    def _rewards(self, score: RubricScores) -> tuple[float | None, ...]:
        if score.share is None:
            return (None,)
        return (0.0 if is_blank(score.generation) else score.share,)
