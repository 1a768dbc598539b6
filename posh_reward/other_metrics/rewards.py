"""HarmonicEval and rubrics as reward functions of TRL's trainers."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.other_metrics.harmonic_eval import (
    ANSWER_TASKS,
    IMAGE_CRITERIA,
    HarmonicEval,
    HarmonicScores,
    check_task,
)
from posh_reward.other_metrics.rubric_judge import RubricJudge, RubricScores
from posh_reward.reward.columns import get_column, get_image_column
from posh_reward.reward.texts import is_blank
from posh_reward.reward.trl import MetricReward
from posh_reward.types import HIGHEST_GRADE, WORST_SCORE, Failure


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
        references = get_column(columns, self.reference_column, expected, "reference_column")
        if self.question_column is None:
            return references, None
        return references, get_column(columns, self.question_column, expected, "question_column")

    def _score(self, texts: list[Any], *columns: Any) -> list[RubricScores]:
        return self.metric.score(texts, *columns)

    def _failed(self, why: Failure) -> RubricScores:
        return RubricScores(None, None, "", failure=why)

    def _rewards(self, score: RubricScores) -> tuple[float | None, ...]:
        if score.share is not None and is_blank(score.generation):
            return (0.0,)
        return (score.share,)


TEST_IMAGE_PIXELS = 64  # width and height of the image in ``check``


class HarmonicReward(MetricReward[HarmonicScores]):
    """A callable for ``GRPOTrainer(reward_funcs=...)``: the overall score over 5; higher is better.

    It needs no reference, only the image that the policy saw. A text without any letter or digit
    gets the worst reward, whatever the judge answers. See ``MetricReward`` for failures and
    pickling.

    Args:
        harmonic: the metric.
        task: kind of the completions; see ``HarmonicEval.score``.
        image_column: column of images; by default ``images`` or ``image``, as in TRL.
        question_column: column of questions, for tasks that have them.
        grounded: cap the reward at the mean of the criteria that look at the image. The overall
            score follows the most certain criterion, so that a fluent falsehood (correctness and
            completeness 1.5, the rest 5 with certainty) gets 4.8 of 5.
        max_failed_calls: stop after this many calls in a row in which most completions failed.

    Raises:
        InputError: the task is unknown, or ``max_failed_calls`` is less than 1.
    """

    __name__ = "harmonic"

    def __init__(
        self,
        harmonic: HarmonicEval,
        *,
        task: str = "captioning",
        image_column: str | None = None,
        question_column: str = "question",
        grounded: bool = True,
        max_failed_calls: int = 10,
    ) -> None:
        self.metric: HarmonicEval = harmonic
        self.task = check_task(task)
        self.image_column = image_column
        self.question_column = question_column
        self.grounded = grounded
        super().__init__(max_failed_calls)

    @property
    def signature(self) -> str:
        """Everything that the scores depend on."""
        signature = self.metric.signature_for(self.task)
        return signature if self.grounded else f"{signature}|grounded:0"

    def check(self) -> None:
        """Score one text, so that a broken judge fails before the first step.

        Raises:
            JudgeError: there is no score; the message has the reason.
        """
        from PIL import Image

        image = Image.new("RGB", (TEST_IMAGE_PIXELS, TEST_IMAGE_PIXELS), "red")
        questions = [["What is this?"]] if self.task in ANSWER_TASKS else []
        [score] = self._score(["A red square."], [image], *questions)
        if score.failure is not None:
            raise JudgeError(f"the judge could not score a first text: {score.failure}")

    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any], ...]:
        images = get_image_column(columns, expected, self.image_column)
        if self.task not in ANSWER_TASKS:
            return (images,)
        return images, get_column(columns, self.question_column, expected, "question_column")

    def _score(self, texts: list[Any], *columns: Any) -> list[HarmonicScores]:
        images, *questions = columns
        own_questions = questions[0] if questions else None
        return self.metric.score(texts, images, self.task, questions=own_questions)

    def _failed(self, why: Failure) -> HarmonicScores:
        return HarmonicScores(None, "", failure=why)

    def _rewards(self, score: HarmonicScores) -> tuple[float | None, ...]:
        if score.overall is None:
            return (None,)
        if is_blank(score.generation):
            return (WORST_SCORE,)
        cap: float = HIGHEST_GRADE
        if self.grounded:
            seen = [each for each in score.criteria if each.criterion in IMAGE_CRITERIA]
            if means := [each.mean for each in seen if each.mean]:
                cap = fmean(means)
        return (min(score.overall, cap) / HIGHEST_GRADE,)
