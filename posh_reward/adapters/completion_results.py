"""Shared by adapters: rewards by name, results of completions, numbers for failed ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.metrics.metric import MetricResult
from posh_reward.reward.instance import make_reward, settings_reward
from posh_reward.reward.shaping import WORST
from posh_reward.reward.trl import MetricReward, figure_columns
from posh_reward.serve.window import BatchWindow
from posh_reward.settings import ENDINGS, check_settings, read_settings
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

AnyReward = MetricReward[Any]
PAUSE = 1.0
"""Seconds before each further call for completions on which an engine failed."""


@contextmanager
def framework(requirement: str) -> Iterator[None]:
    """Turn failed imports of a framework into an error with its install line.

    Args:
        requirement: version that the adapter is tested with, such as ``verl==0.9.1``.

    Raises:
        MissingDependencyError: an import failed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"this adapter could not import {requirement.partition('==')[0]} ({error}): "
            f"pip install '{requirement}'"
        ) from error


def reward_of(which: AnyReward | str | None = None) -> AnyReward:
    """Return the reward that a framework's settings name.

    Args:
        which: a reward; a settings file (``reward.instance``); ``module:name`` of a reward in your
            own module, such as a ``HarmonicReward``; None for the settings that the environment
            names, or else a ``PoshReward``.

    Raises:
        ConfigError: there is no such reward, or its settings cannot be used.
    """
    reward = _reward_named(which) if isinstance(which, str) else which or settings_reward()
    if not isinstance(reward, MetricReward):
        raise ConfigError(f"{which!r} is not a metric's reward, such as PoshReward()")
    return reward


def _reward_named(name: str) -> Any:
    if name.endswith(ENDINGS):
        settings = read_settings(Path(name), "the reward's settings")
        return make_reward(**check_settings(make_reward, settings, f"reward ({name})"))
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"unknown reward {name!r} ({error}): use module:name, or a .yaml or .json file"
        ) from error


def one_objective(reward: AnyReward) -> AnyReward:
    """Return a reward that gives one number per completion.

    Raises:
        ConfigError: the reward has several objectives.
    """
    if len(reward.objectives) > 1:
        raise ConfigError(
            f"this trainer takes one number, but the reward has {' and '.join(reward.objectives)}: "
            "choose objective f1 or weighted"
        )
    return reward


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """A completion's reward, and figures for a log."""

    rewards: Mapping[str, float | None]
    """By objective; higher is better, None if the completion could not be judged."""
    figures: Mapping[str, float | None]
    """Sub-scores by their names in TRL's table of completions, such as ``posh_precision``."""
    score: MetricResult
    """The metric's record, such as ``Scores``."""

    @property
    def failure(self) -> Failure | None:
        """Reason for a missing reward."""
        return self.score.failure

    @property
    def reward(self) -> float | None:
        """The reward; for several objectives their mean."""
        numbers = [value for value in self.rewards.values() if value is not None]
        return fmean(numbers) if len(numbers) == len(self.rewards) else None

    @property
    def elements(self) -> list[dict[str, Any]]:
        """POSH's graded elements of the text as plain data: start, end, kind, text, grade.

        Start and end are character offsets in the scored text, stripped and without thoughts.
        """
        return [
            {"start": start, "end": end, "kind": each.kind, "text": each.text, "grade": each.grade}
            for each in getattr(self.score, "elements", ())
            if each.direction == "precision"
            for start, end in each.spans
        ]

    @property
    def row(self) -> dict[str, float]:
        """The figures as floats, NaN for missing ones, and ``failed`` (0 or 1)."""
        numbers = {k: float("nan") if v is None else float(v) for k, v in self.figures.items()}
        return {**numbers, "failed": float(self.reward is None)}


def results(
    reward: AnyReward,
    completions: Sequence[object],
    columns: Mapping[str, Sequence[Any]],
    *,
    raw: bool = False,
    tries: int = 2,
) -> list[CompletionResult]:
    """Score a batch of completions, in order; retry those on which an engine failed.

    Args:
        reward: a metric's reward.
        completions: as for ``MetricReward``.
        columns: one value per completion.
        raw: score texts unchanged, by the published metric, for evaluators. A judge that is gone
            then gives results without scores, never an error.
        tries: most calls; later ones have only the completions without a score.

    Raises:
        InputError: a column is missing or of another length.
        JudgeError: most completions failed in ``max_failed_calls`` calls in a row.
    """
    scores = reward.scores(*reward.batch(completions, columns, raw=raw))
    for _ in range(tries - 1):
        again = [i for i, s in enumerate(scores) if s.failure and s.failure.passing]
        if not again:
            break
        time.sleep(PAUSE)
        part = {name: [values[i] for i in again] for name, values in columns.items()}
        batch = reward.batch([completions[i] for i in again], part, raw=raw)
        for place, score in zip(again, reward.scores(*batch), strict=True):
            scores[place] = score
    if not raw:
        reward.failures.note([score.failure for score in scores])
    rewards, figures = reward.rewards_of(scores), figure_columns(reward.metric, scores)
    return [
        CompletionResult(
            {name: values[at] for name, values in rewards.items()},
            {name: values[at] for name, values in figures.items()},
            score,
        )
        for at, score in enumerate(scores)
    ]


def with_group_means(
    rewards: Sequence[float | None], groups: Sequence[object], spare: float = WORST
) -> list[float]:
    """Replace each missing reward by its group's mean, which gives it an advantage of 0.

    Args:
        rewards: rewards of completions.
        groups: what completions of one prompt have in common, such as its id.
        spare: reward of all if nothing could be judged. A group without a valid member gets the
            mean of the others; its members are equal, so none has an advantage.
    """
    valid: dict[object, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            valid.setdefault(group, []).append(reward)
    means = {group: fmean(values) for group, values in valid.items()}
    rest = fmean(means.values()) if means else spare
    if missing := sum(reward is None for reward in rewards):
        logger.warning("%d of %d completions get the mean of their group", missing, len(rewards))
    return [
        means.get(group, rest) if reward is None else reward
        for reward, group in zip(rewards, groups, strict=True)
    ]


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
        self.reward = reward_of(reward) if raw else one_objective(reward_of(reward))
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
