"""POSH as a reward function of TRL's trainers (GRPO and its kin)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from posh_reward.errors import ConfigError, InputError, JudgeError, PoshError
from posh_reward.metrics.posh.metric import PoSh
from posh_reward.reward.giving_up import GivesUp
from posh_reward.reward.logged import Work, extras, metrics, usage_now
from posh_reward.reward.objectives import AXES, Asked, AxisReward, Rewards, SharedScoring
from posh_reward.reward.shaping import Shaping, shape, shape_axes
from posh_reward.reward.texts import without_thoughts
from posh_reward.types import Failure, Scores

logger = logging.getLogger(__name__)

LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[Any]], None]
Observer = Callable[[Sequence[Scores]], None]


class PoshReward(GivesUp):
    """A callable for ``GRPOTrainer(reward_funcs=...)``; higher rewards are better.

    The dataset has a column with each image's reference. A completion that cannot be judged
    gets ``None``, which TRL leaves out of its group. A reference is parsed once for all its
    generations. The object pickles; what it has loaded or cached is left out.

    A judge that is gone for good must end the run. On its own this object can only raise, on one
    rank: add ``training.stopping.StopWithCheckpoint`` to the trainer, and all ranks stop
    together, with a checkpoint.

    Args:
        posh: the metric; by default ``PoSh()`` with the embedded judge.
        shaping: how scores make a reward; by default their f1, as in the paper.
        reference_column: the dataset's column of references.
        max_failed_calls: after this many calls in a row in which most completions failed, stop.

    Raises:
        InputError: ``max_failed_calls`` is less than 1.

    Example:
        ``GRPOTrainer(model, reward_funcs=PoshReward(), args=..., train_dataset=...)``
    """

    __name__ = "posh"

    observer: Observer | None = None
    """Is given the scores behind each call's rewards, in the order of the completions. To be set
    around a call, as ``training.dapo`` does: nothing is kept, so nothing can be stale."""

    def __init__(
        self,
        posh: PoSh | None = None,
        shaping: Shaping | None = None,
        *,
        reference_column: str = "reference",
        max_failed_calls: int = 10,
    ) -> None:
        self.posh = posh if posh is not None else PoSh()
        self.shaping = shaping if shaping is not None else Shaping()
        self.reference_column = reference_column
        super().__init__(max_failed_calls)

    @property
    def signature(self) -> str:
        """What the rewards depend on: the metric's signature, and shaping that is not the default.

        Ranks compare it, so that none trains on another balance of precision and recall.
        """
        changed = [
            f"{each.name}={value}"
            for each in fields(Shaping)
            if (value := getattr(self.shaping, each.name)) != each.default
        ]
        return self.posh.signature + (f"|shaping:{','.join(changed)}" if changed else "")

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] = (),
        *,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards in [0.2, 1], one per completion; None for those that could not be judged.

        Args:
            prompts: unused; part of TRL's contract.
            completions: strings, or conversations whose assistant turns are the description.
                Thoughts in ``<think>`` tags are not scored.
            log_metric: TRL's; gets the same names on every rank at every call
                (``reward.logged.metrics``).
            log_extra: TRL's; likewise (``reward.logged.extras``).
            columns: the dataset's columns. Only the references are used.

        Raises:
            ConfigError: the objective is two rewards, which ``functions`` gives.
            InputError: the column of references is missing or of another length.
            JudgeError: most completions failed in ``max_failed_calls`` calls in a row, and
                there is no ``StopWithCheckpoint`` to stop the run.
        """
        if self.shaping.objective == "separate":
            raise ConfigError(
                "objective separate is two rewards: give the trainer "
                "reward_funcs=reward.functions()"
            )
        scores = self._scored(*self._asked(completions, columns), log_metric, log_extra)
        return [shape(score, self.shaping) for score in scores]

    def functions(self) -> list[Callable[..., Rewards]]:
        """What the trainer gets as ``reward_funcs``: this object, or one function for each axis.

        With objective ``separate`` there are two, on precision and on recall, which share one
        scoring call; ``objectives.settle_aggregation`` makes the trainer add them as it should.
        """
        if self.shaping.objective != "separate":
            return [self]
        scoring = SharedScoring(self._axes)
        return [
            AxisReward(axis, self._asked, scoring, weight)
            for axis, weight in zip(AXES, self.shaping.weights, strict=True)
        ]

    def _axes(
        self,
        texts: list[Any],
        references: list[Any],
        log_metric: LogMetric | None,
        log_extra: LogExtra | None,
    ) -> dict[str, Rewards]:
        scores = self._scored(texts, references, log_metric, log_extra)
        shaped = [shape_axes(score, self.shaping) for score in scores]
        return {
            axis: [None if each is None else each[place] for each in shaped]
            for place, axis in enumerate(AXES)
        }

    def _asked(self, completions: Sequence[object], columns: Mapping[str, Any]) -> Asked:
        references = self._references(columns, len(completions))
        return [_answer(completion_text(each)) for each in completions], references

    def _scored(
        self,
        texts: list[Any],
        references: list[Any],
        log_metric: LogMetric | None,
        log_extra: LogExtra | None,
    ) -> list[Scores]:
        """Scores of one call, logged; what failed is counted."""
        before, started = usage_now(self.posh.usage), time.perf_counter()
        scores = self._score(texts, references)
        work = Work.between(before, self.posh.usage, time.perf_counter() - started)
        if self.observer is not None:
            self.observer(scores)
        if log_metric is not None:
            for name, value in metrics(self.posh, scores, texts, work).items():
                log_metric(name, value)
        if log_extra is not None:
            for name, values in extras(self.posh, scores).items():
                log_extra(name, values)
        self.note_failures([score.failure for score in scores])
        return scores

    def check(self) -> None:
        """Scores one pair, so that a judge that cannot work fails before the first step.

        Raises:
            JudgeError: it gave no score; the message has the reason.
        """
        [score] = self.posh.score(["A man in a red coat."], ["A tall man in a red coat."])
        if score.failure is not None:
            raise JudgeError(f"the judge could not score a first pair: {score.failure}")

    def _references(self, columns: Mapping[str, Any], expected: int) -> list[Any]:
        if self.reference_column not in columns:
            there = ", ".join(sorted(columns)) or "none"
            raise InputError(
                f"no column {self.reference_column!r} of references reached the reward (columns: "
                f"{there}): name it with reference_column, and keep it in the dataset "
                "(remove_unused_columns=False)"
            )
        references = list(columns[self.reference_column])
        if len(references) != expected:
            raise InputError(
                f"{expected} completions but {len(references)} values in column "
                f"{self.reference_column!r}: TRL passes one for each completion"
            )
        return references

    def _score(self, texts: list[Any], references: list[Any]) -> list[Scores]:
        if self.failure is not None and self.stopping:
            return _unscored(texts, self.failure)
        try:
            return self.posh.score(texts, references)
        except JudgeError as error:
            return _unscored(texts, Failure("engine", f"the judge could not work: {error}"))
        except PoshError:
            raise  # the caller's mistake, on all ranks alike
        except Exception as error:  # a rank that raised alone would leave the others waiting
            logger.exception("scoring raised; this call has no rewards")
            return _unscored(
                texts, Failure("error", f"scoring raised {type(error).__name__}: {error}")
            )


def _unscored(texts: Sequence[object], why: Failure) -> list[Scores]:
    return [Scores.failed(why, signature="") for _ in texts]


def _answer(text: Any) -> Any:
    """A text without its thoughts; what is not a text as it is."""
    return without_thoughts(text) if isinstance(text, str) else text


def completion_text(completion: object) -> Any:
    """The description in a completion: a string, or the assistant's turns of a conversation.

    Turns without text, such as calls of tools, are skipped.

    Returns:
        The text; None if the assistant wrote none; anything that is not a conversation as it is,
        for the metric to fail with its reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [turn for turn in completion if isinstance(turn, dict)]
    written = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
    texts = [text for content in written if (text := _content_text(content)) is not None]
    if not texts:
        return None if written else completion
    return "\n".join(texts)


def _content_text(content: object) -> str | None:
    """Text of a message's content, which is a string or a list of typed parts; None without."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None
