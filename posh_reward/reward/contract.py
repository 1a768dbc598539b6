"""What TRL's trainers pass to a reward function and want back, whatever the metric.

GRPOTrainer of TRL 1.16 passes the prompts, the completions, and every column of the dataset, with
one value for each completion (``grpo_trainer.py:1580-1630``). It wants a number for each completion
and leaves out those for which every function gave ``None`` (``grpo_trainer.py:2756``).
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.metrics.base import Figures, Scored
from posh_reward.reward.columns import answer_in
from posh_reward.reward.giving_up import GivesUp
from posh_reward.reward.logged import Work, extras, metrics, usage_now
from posh_reward.reward.objectives import Asked, Rewards, functions_of
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Scored)
LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[Any]], None]


class MetricReward(GivesUp, ABC, Generic[T]):
    """A reward function for ``GRPOTrainer(reward_funcs=...)`` on one metric; higher is better.

    A completion that cannot be judged gets ``None``, which TRL leaves out of its group. The object
    pickles; what it has loaded or cached is left out.

    A judge that is gone for good must end the run. On its own this object can only raise, on one
    rank: add ``training.stopping.StopWithCheckpoint`` to the trainer, and all ranks stop
    together, with a checkpoint.

    A subclass names its metric, reads the columns that it needs, and turns scores into rewards.
    """

    @property
    @abstractmethod
    def metric(self) -> Figures[T]:
        """What scores the texts."""

    @property
    @abstractmethod
    def objectives(self) -> Mapping[str, float | None]:
        """Names of the rewards that a score makes, each with its weight.

        A weight of None leaves to the trainer how the reward is added to others.
        """

    @abstractmethod
    def _given(self, columns: Mapping[str, Any], expected: int) -> tuple[list[Any] | None, ...]:
        """The columns that texts are scored against; None for one that may be missing and is.

        Raises:
            InputError: one is missing or of another length.
        """

    @abstractmethod
    def _score(self, texts: list[Any], *given: Any) -> list[T]:
        """The metric's scores of texts against the columns."""

    @abstractmethod
    def _failed(self, why: Failure) -> T:
        """The score of a text that has none."""

    @abstractmethod
    def _rewards(self, score: T) -> tuple[float | None, ...]:
        """One for each of ``objectives``."""

    @property
    def signature(self) -> str:
        """What the scores depend on: the metric's signature."""
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
        """Rewards in [0.2, 1], one per completion; None for those that could not be judged.

        Args:
            prompts: unused; part of TRL's contract.
            completions: strings, or conversations whose assistant turns are the text.
                Thoughts in ``<think>`` tags are not scored.
            log_metric: TRL's; gets the same names on every rank at every call
                (``reward.logged.metrics``).
            log_extra: TRL's; likewise (``reward.logged.extras``).
            columns: the dataset's columns, of which the metric's own are used.

        Raises:
            ConfigError: the reward has several objectives, which ``functions`` gives.
            InputError: a column is missing or of another length.
            JudgeError: most completions failed in ``max_failed_calls`` calls in a row, and
                there is no ``StopWithCheckpoint`` to stop the run.
        """
        if len(self.objectives) > 1:
            raise ConfigError(
                f"this reward is {len(self.objectives)} rewards ({', '.join(self.objectives)}): "
                "give the trainer reward_funcs=reward.functions()"
            )
        asked = self.asked(completions, columns)
        [rewards] = self.scored(*asked, log_metric=log_metric, log_extra=log_extra).values()
        return rewards

    def functions(self) -> list[Callable[..., Rewards]]:
        """What the trainer gets as ``reward_funcs``: this object, or one function per objective.

        The functions share one scoring call.
        """
        return [self] if len(self.objectives) == 1 else functions_of(self)

    def asked(self, completions: Sequence[object], columns: Mapping[str, Any]) -> Asked:
        """The texts in completions, and the columns that they are scored against."""
        texts = [answer_in(each) for each in completions]
        return (texts, *self._given(columns, len(texts)))

    def scored(
        self,
        *asked: Any,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
    ) -> dict[str, Rewards]:
        """The rewards of each objective for what ``asked`` found, logged; failures are counted."""
        texts, *given = asked
        before, started = usage_now(self.metric.usage), time.perf_counter()
        scores = self._patiently(texts, *given)
        work = Work.between(before, self.metric.usage, time.perf_counter() - started)
        self._tell(scores)
        if log_metric is not None:
            for name, value in metrics(self.metric, scores, texts, work).items():
                log_metric(name, value)
        if log_extra is not None:
            for name, values in extras(self.metric, scores).items():
                log_extra(name, values)
        self.note_failures([score.failure for score in scores])
        each = [self._rewards(score) for score in scores]
        return {name: [one[at] for one in each] for at, name in enumerate(self.objectives)}

    def _tell(self, scores: Sequence[T]) -> None:
        """Hands the scores of a call to whoever wants them; here to nobody."""

    def _patiently(self, texts: list[Any], *given: Any) -> list[T]:
        """Scores; failures in their place if scoring raises, since the other ranks would wait."""
        if self.failure is not None and self.stopping:
            return [self._failed(self.failure) for _ in texts]
        try:
            return self._score(texts, *given)
        except JudgeError as error:
            why = Failure("engine", f"the judge could not work: {error}")
        except PoshError:
            raise  # the caller's mistake, on all ranks alike
        except Exception as error:
            logger.exception("scoring raised; this call has no rewards")
            why = Failure("error", f"scoring raised {type(error).__name__}: {error}")
        return [self._failed(why) for _ in texts]
