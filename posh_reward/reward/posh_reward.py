"""POSH as a reward function of TRL's trainers (GRPO and its kin)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from posh_reward.errors import InputError
from posh_reward.lexicon.wordnet import is_english
from posh_reward.metrics.metric import Figures
from posh_reward.metrics.posh.aggregate import Weights
from posh_reward.metrics.posh.fitness import check_judge
from posh_reward.metrics.posh.posh import PoSh
from posh_reward.reward.objectives import AXES
from posh_reward.reward.shaping import REWARD_VERSION, Shaping, shape, shape_axes
from posh_reward.reward.texts import column_of, images_of
from posh_reward.reward.trl import MetricReward
from posh_reward.settings import brief
from posh_reward.types import Failure, Scores

logger = logging.getLogger(__name__)


class PoshMetric(Figures[Scores], Protocol):
    """The part of POSH that a reward needs: ``PoSh``, or a server's ``serve.client.RemotePosh``."""

    @property
    def preset(self) -> str:
        """Name of the prompts' wording."""

    @property
    def weights(self) -> Weights:
        """Weights of entities, attributes and relations."""

    @property
    def witness(self) -> object:
        """The witness, if it is in this process."""

    @property
    def wants_images(self) -> bool:
        """True with a witness."""

    def score(self, *columns: Any, **by_field: Any) -> list[Scores]:
        """Score generations against references and, with a witness, images."""


class PoshReward(MetricReward[Scores]):
    """A callable for ``GRPOTrainer(reward_funcs=...)``; higher rewards are better.

    The dataset has a column of references, each parsed once for all its generations, and for a
    metric with a witness a column of images. See ``MetricReward`` for failures and pickling.

    Args:
        posh: the metric; by default ``PoSh()`` with the embedded judge.
        shaping: turns scores into rewards; by default f1, as in the paper. Objective ``separate``
            makes two, precision and recall: pass the trainer ``reward_funcs=reward.functions()``,
            and call ``objectives.settle_aggregation`` so that it adds them correctly.
        reference_column: column of references.
        image_column: column of images, for a witness; by default ``images`` or ``image``.
        max_failed_calls: stop after this many calls in a row in which most completions failed.

    Raises:
        InputError: ``posh`` is a name, or ``max_failed_calls`` is less than 1.

    Example:
        ``GRPOTrainer(model, reward_funcs=PoshReward(), args=..., train_dataset=...)``
    """

    __name__ = "posh"

    def __init__(
        self,
        posh: PoshMetric | None = None,
        shaping: Shaping | None = None,
        *,
        reference_column: str = "reference",
        image_column: str | None = None,
        max_failed_calls: int = 10,
    ) -> None:
        if isinstance(posh, str):
            raise InputError(f"posh is {posh!r}: pass PoSh({posh!r}) or load_metric({posh!r})")
        self.metric: PoshMetric = posh if posh is not None else PoSh()
        self.shaping = shaping if shaping is not None else Shaping()
        self.reference_column = reference_column
        self.image_column = image_column
        self._warned = False
        super().__init__(max_failed_calls)

    @property
    def signature(self) -> str:
        """Everything that rewards depend on: the metric, these rules, and non-default shaping.

        Ranks compare it, so that all train on the same balance of precision and recall.
        """
        changed = [
            f"{each.name}={value}"
            for each in fields(Shaping)
            if (value := getattr(self.shaping, each.name)) != each.default
        ]
        rules = f"{self.metric.signature}|reward:{REWARD_VERSION}"
        return rules + (f"|shaping:{','.join(changed)}" if changed else "")

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """``posh``, or one reward per axis with its weight."""
        if self.shaping.objective != "separate":
            return super().objectives
        names = (f"{self.__name__}_{axis}" for axis in AXES)
        return dict(zip(names, self.shaping.weights, strict=True))

    def check(self) -> None:
        """Score two texts, so that an unfit judge or a broken witness fails before the first step.

        Raises:
            JudgeError: as ``check_judge``.
        """
        check_judge(self.metric)

    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any], ...]:
        references = column_of(columns, self.reference_column, expected, "reference_column")
        self._note_language(references)
        if not self.metric.wants_images:
            return (references,)
        images = images_of(columns, expected, self.image_column)
        if images is None:
            raise InputError(
                "the metric has a witness, but no column of images reached the reward (columns: "
                f"{', '.join(sorted(columns))}): name it with image_column, and keep it in the "
                "dataset (remove_unused_columns=False)"
            )
        return references, images

    def _note_language(self, references: Sequence[object]) -> None:
        # Scores of texts that are not English mean nothing.
        if self._warned:
            return
        texts = {text for text in references if isinstance(text, str)}
        foreign = next((text for text in texts if not is_english(text)), None)
        if foreign is not None:
            self._warned = True
            logger.warning(
                "a reference does not read like English, the only language of POSH's parser and "
                "questions: %s",
                brief(foreign),
            )

    def _score(self, texts: list[Any], *columns: Any) -> list[Scores]:
        return self.metric.score(texts, *columns)

    def _failed(self, why: Failure) -> Scores:
        return Scores.failed(why, signature="")

    def _rewards(self, score: Scores) -> tuple[float | None, ...]:
        if self.shaping.objective != "separate":
            return (shape(score, self.shaping, self.metric.weights),)
        return shape_axes(score, self.shaping, self.metric.weights) or (None, None)
