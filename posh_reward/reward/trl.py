"""TRL's contract for a reward function, whatever the metric.

GRPOTrainer of TRL 1.16 passes the prompts, the completions, and every column of the dataset, with
one value for each completion (``grpo_trainer.py:1580-1630``). It wants a number for each completion
and leaves out those for which every function gave ``None`` (``grpo_trainer.py:2756``).
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from posh_reward.errors import ConfigError, InputError, JudgeError, PoshError
from posh_reward.metrics.metric import Figures, Scored
from posh_reward.reward.objectives import (
    Rewards,
    TextBatch,
    check_shared,
    functions_of,
    together,
    trainer_of,
)
from posh_reward.reward.reward_log import CallCost, extras, metrics
from posh_reward.reward.texts import (
    completion_text,
    labels_of,
    unjoined,
    unlabelled,
    without_thoughts,
)
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Scored)
LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[Any]], None]


class FailureLimit:
    """Gives up on a judge after many calls in a row in which most completions had no score.

    Most, not all: with a judge that answers one question in twenty, a run would train to its end
    on the few completions that it happened to get through.

    Args:
        max_failed_calls: the number of such calls.

    Raises:
        InputError: that is less than 1.
    """

    failure: Failure | None
    """Reason to stop the run; None as long as there is none."""
    last_call_failed: bool
    """True if the last call had completions and none of them has a score."""

    def __init__(self, max_failed_calls: int) -> None:
        if max_failed_calls < 1:
            raise InputError(f"max_failed_calls is {max_failed_calls}: give 1 or more")
        self.max_failed_calls = max_failed_calls
        self.begin()

    def begin(self, *, supervised: bool = False) -> None:
        """Forget earlier failures: a run begins.

        Args:
            supervised: something else stops the run once ``failure`` is set
                (``StopWithCheckpoint``); otherwise ``note_failures`` raises.
        """
        self.failure = None
        self.last_call_failed = False
        self._supervised = supervised
        self._failed_calls = 0

    @property
    def stopping(self) -> bool:
        """True if the run is about to be stopped, so that nothing more need be asked."""
        return self._supervised and self.failure is not None

    def note_failures(self, failures: Sequence[Failure | None]) -> None:
        """Count one call, and log why completions failed.

        Args:
            failures: of each completion; None for one that was scored.

        Raises:
            JudgeError: it was one failed call too many, and nothing else stops the run.
        """
        reasons = Counter(str(failure) for failure in failures if failure is not None)
        failed = sum(reasons.values())
        self.last_call_failed = 0 < failed == len(failures)
        if not reasons:
            self._failed_calls = 0
            return
        summary = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        logger.warning("%d of %d completions have no reward: %s", failed, len(failures), summary)
        self._failed_calls = self._failed_calls + 1 if 2 * failed > len(failures) else 0
        if self._failed_calls < self.max_failed_calls:
            return
        self.failure = self.failure or Failure(
            "engine",
            f"most completions could not be judged in {self._failed_calls} calls in a row; "
            f"the last reason: {reasons.most_common(1)[0][0]}. Fix that and resume from the last "
            "checkpoint, or raise max_failed_calls",
        )
        if not self._supervised:
            raise JudgeError(str(self.failure))


class MetricReward(FailureLimit, ABC, Generic[T]):
    """A reward function for ``GRPOTrainer(reward_funcs=...)`` on one metric; higher is better.

    A completion that cannot be judged gets ``None``, which TRL leaves out of its group. The object
    pickles, without what it has loaded or cached.

    A judge that is gone for good must end the run. On its own this object can only raise, on one
    rank: add ``training.stopping.StopWithCheckpoint`` to the trainer, and all ranks stop
    together, with a checkpoint.

    A subclass names its metric, reads the columns that it needs, and turns scores into rewards.
    """

    __name__: str
    """Name of the reward in TRL's logs; each subclass has its own."""

    def __new__(cls, *args: Any, **options: Any) -> MetricReward[T]:
        """Refuse to be taken for a function: TRL's command line calls the class that it is given.

        Raises:
            ConfigError: always, on a call with completions.
        """
        if "completions" in options:
            raise ConfigError(
                f"{cls.__name__} is a class, and TRL's command line wants a function: "
                "--reward_funcs posh_reward.reward.instance.posh"
            )
        return super().__new__(cls)

    @property
    @abstractmethod
    def metric(self) -> Figures[T]:
        """The metric that scores the texts."""

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Names of the rewards that a score makes, each with its weight: one, unless overridden.

        A weight of None leaves to the trainer how the reward is added to others.
        """
        return {self.__name__: None}

    @abstractmethod
    def _columns(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any] | None, ...]:
        """The columns that texts are scored against; None for an optional one that is missing.

        Raises:
            InputError: one is missing or of another length.
        """

    @abstractmethod
    def _score(self, texts: list[Any], *columns: Any) -> list[T]:
        """The metric's scores of texts against the columns."""

    @abstractmethod
    def _failed(self, why: Failure) -> T:
        """The score of a text that has none."""

    @abstractmethod
    def _rewards(self, score: T) -> tuple[float | None, ...]:
        """One for each of ``objectives``."""

    @property
    def templates(self) -> tuple[str, ...]:
        """The prompts in use, whose labels no completion may write into them."""
        return ()

    @property
    def signature(self) -> str:
        """All that the scores depend on: the metric's signature."""
        return self.metric.signature

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] = (),
        *,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> Rewards:
        """Rewards, at most 1, one per completion; None for those that could not be judged.

        Args:
            prompts: unused; part of TRL's contract.
            completions: strings, or conversations whose assistant turns are the text.
                Thoughts in ``<think>`` tags are not scored.
            log_metric: TRL's; gets the same names on every rank at every call
                (``reward_log.metrics``).
            log_extra: TRL's; likewise (``reward_log.extras``).
            columns: the dataset's columns, of which the metric's own are used.

        Raises:
            ConfigError: the reward has several objectives, or the trainer has other functions
                beside it: ``functions`` gives both.
            InputError: a column is missing or of another length.
            JudgeError: most completions failed in ``max_failed_calls`` calls in a row, and
                there is no ``StopWithCheckpoint`` to stop the run.
        """
        if len(self.objectives) > 1:
            raise ConfigError(
                f"this reward is {len(self.objectives)} rewards ({', '.join(self.objectives)}): "
                "give the trainer reward_funcs=reward.functions()"
            )
        check_shared(trainer_of(log_metric), lambda function: function is self)
        batch = self.batch(completions, columns)
        [rewards] = self.rewards(*batch, log_metric=log_metric, log_extra=log_extra).values()
        return rewards

    def functions(self, *others: Callable[..., Any]) -> list[Callable[..., Any]]:
        """The trainer's ``reward_funcs``: this object, or one function per objective, and others.

        The functions share one scoring call, and what the metric cannot judge has ``None`` from
        all of them.

        Args:
            others: reward functions of your own, such as one that pays for brevity.

        Raises:
            ConfigError: two have the same name, or one is a model or its name.
        """
        if others:
            return together(self, *others)
        return [self] if len(self.objectives) == 1 else functions_of(self)

    def batch(self, completions: Sequence[object], columns: Mapping[str, Any]) -> TextBatch:
        """The texts in completions, and the columns that they are scored against."""
        labels = labels_of(self.templates)
        texts = [_answer(each, labels) for each in completions]
        return (texts, *self._columns(columns, len(texts)))

    def rewards(
        self,
        *batch: Any,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
    ) -> dict[str, Rewards]:
        """The rewards of a ``batch`` by objective. Logs figures, counts failures."""
        texts, *columns = batch
        before, started = replace(self.metric.usage), time.perf_counter()
        scores = self._score_or_fail(texts, *columns)
        cost = CallCost.between(before, self.metric.usage, time.perf_counter() - started)
        self._observe(scores)
        if log_metric is not None:
            for name, value in metrics(self.metric, scores, texts, cost).items():
                log_metric(name, value)
        if log_extra is not None:
            for name, values in extras(self.metric, scores).items():
                log_extra(name, values)
        self.note_failures([score.failure for score in scores])
        rows = [self._rewards(score) for score in scores]  # completions x objectives
        return {name: [row[at] for row in rows] for at, name in enumerate(self.objectives)}

    def _observe(self, scores: Sequence[T]) -> None:
        """Hand the scores of a call to an observer; here there is none."""

    def _score_or_fail(self, texts: list[Any], *columns: Any) -> list[T]:
        """Scores; failures in their place if scoring raises, since the other ranks would wait."""
        if self.failure is not None and self.stopping:
            return [self._failed(self.failure) for _ in texts]
        try:
            return self._score(texts, *columns)
        except JudgeError as error:
            why = Failure("engine", f"the judge could not work: {error}")
        except PoshError:
            raise  # the caller's mistake, on all ranks alike
        except Exception as error:
            logger.exception("scoring raised; this call has no rewards")
            why = Failure("error", f"scoring raised {type(error).__name__}: {error}")
        return [self._failed(why) for _ in texts]


def _answer(completion: object, labels: re.Pattern[str] | None) -> Any:
    """The text of a completion, safe for prompts and without thoughts; a non-text as it is."""
    text = completion_text(completion)
    if not isinstance(text, str):
        return text
    return without_thoughts(unlabelled(unjoined(text), labels))


def column_of(columns: Mapping[str, Any], name: str, expected: int, setting: str) -> list[Any]:
    """A column that a reward cannot do without.

    Args:
        columns: all that reached the reward.
        name: of the column.
        expected: the number of completions.
        setting: the reward's argument that names the column, for messages.

    Raises:
        InputError: it is missing or of another length.
    """
    if name not in columns:
        there = ", ".join(sorted(columns)) or "none"
        raise InputError(
            f"no column {name!r} reached the reward (columns: {there}): name it with {setting}, "
            "and keep it in the dataset (remove_unused_columns=False)"
        )
    values = list(columns[name])
    if len(values) != expected:
        raise InputError(
            f"{expected} completions but {len(values)} values in column {name!r}: TRL passes one "
            "for each completion"
        )
    return values


def images_of(
    columns: Mapping[str, Any], expected: int, name: str | None = None
) -> list[Any] | None:
    """The image of each completion; None if the dataset has none.

    TRL takes images from a column ``images``, with a list in each row, or else from ``image``,
    with one (``grpo_trainer.py:2400``), and passes either on as it is.

    Args:
        columns: all that reached the reward.
        expected: the number of completions.
        name: another column, which then has to be there.

    Returns:
        One value a completion, for ``prompt_images.image_of`` to read. A list of one image is
        that image; one of several is left as it is, which ``image_of`` refuses.

    Raises:
        InputError: the column ``name`` is missing, or the column is of another length.
    """
    column = name or next((each for each in ("images", "image") if each in columns), None)
    if column is None:
        return None
    return [_only(each) for each in column_of(columns, column, expected, "image_column")]


def _only(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) < 2:
        return value[0] if value else None
    return value
