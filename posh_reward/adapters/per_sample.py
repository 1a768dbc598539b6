"""Rewards for frameworks that score single completions, from many threads or coroutines."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from posh_reward.adapters.completion_results import (
    AnyReward,
    CompletionResult,
    results,
    reward_of,
    sole,
)
from posh_reward.errors import JudgeError
from posh_reward.serve.window import BatchWindow

logger = logging.getLogger(__name__)

Sample = tuple[object, Mapping[str, Any]]
"""A completion and the values of its columns."""


class SampleRewards:
    """Results of single completions; concurrent ones are scored together.

    Args:
        reward: as for ``reward_of``, with one objective.
        fallback: reward of a completion that could not be judged, for frameworks that do not name
            its group; None raises instead.
        raw: as for ``results``.
        milliseconds: time that a completion waits for others.
    """

    failures = 0
    """Number of completions without a score so far."""

    def __init__(
        self,
        reward: AnyReward | str | None = None,
        *,
        fallback: float | None = None,
        raw: bool = False,
        milliseconds: float = 5.0,
    ) -> None:
        self.reward = reward_of(reward) if raw else sole(reward_of(reward))
        self.fallback, self.raw = fallback, raw
        self._window: BatchWindow[Sample, CompletionResult] = BatchWindow(
            self._results, milliseconds
        )

    @property
    def reference_column(self) -> str:
        """Column of the value that most frameworks call answer, label or target."""
        return self.reward.reference_column

    def __call__(self, completion: object, **columns: Any) -> CompletionResult:
        """Return the result of one completion; blocks this thread."""
        return self._window((completion, columns))

    async def call_async(self, completion: object, **columns: Any) -> CompletionResult:
        """Return the result of one completion, without blocking the event loop."""
        return await self._window.call_async((completion, columns))

    def number(self, result: CompletionResult) -> float:
        """Return the reward, or else the fallback, which is counted and logged.

        Raises:
            JudgeError: there is neither.
        """
        if result.reward is not None:
            return result.reward
        self.failures += 1
        if self.fallback is None:
            raise JudgeError(f"a completion could not be judged: {result.failure}")
        what = "completion %d without a score gets %g: %s"
        logger.warning(what, self.failures, self.fallback, result.failure)
        return self.fallback

    def _results(self, samples: Sequence[Sample]) -> list[CompletionResult]:
        """Score samples, one batch for each set of columns."""
        places: dict[tuple[str, ...], list[int]] = {}
        for place, (_, columns) in enumerate(samples):
            places.setdefault(tuple(sorted(columns)), []).append(place)
        outcomes: dict[int, CompletionResult] = {}
        for names, here in places.items():
            completions = [samples[place][0] for place in here]
            batch = {name: [samples[place][1][name] for place in here] for name in names}
            scored = results(self.reward, completions, batch, raw=self.raw)
            outcomes |= zip(here, scored, strict=True)
        return [outcomes[place] for place in range(len(samples))]


@cache
def shared_rewards(reward: str | None = None, fallback: float | None = None) -> SampleRewards:
    """Return a process's rewards, for frameworks that name a function and its settings."""
    return SampleRewards(reward, fallback=fallback)
