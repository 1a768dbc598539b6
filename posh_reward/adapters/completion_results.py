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
from statistics import fmean, stdev
from typing import Any

from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.metrics.metric import MetricResult, number_or_nan
from posh_reward.reward.instance import make_reward, settings_reward
from posh_reward.reward.trl import MetricReward, build_figure_columns
from posh_reward.serve.window import BatchWindow
from posh_reward.settings import SETTINGS_SUFFIXES, check_settings, read_settings
from posh_reward.types import WORST_SCORE, Failure

logger = logging.getLogger(__name__)

AnyReward = MetricReward[Any]
FAILED = "failed"
RETRY_PAUSE_SECONDS = 1.0
"""Time before each further call for completions on which an engine failed."""
ADVANTAGE_EPSILON = 1e-4
"""Added to the standard deviation that advantages are divided by, which can be 0; TRL's value."""


@contextmanager
def framework(requirement: str) -> Iterator[None]:
    """Turn failed imports into a ``MissingDependencyError`` with the tested version to install."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"this adapter could not import {requirement.partition('==')[0]} ({error}): "
            f"pip install '{requirement}'"
        ) from error


def reward_of(which: AnyReward | str | None = None) -> AnyReward:
    """Return the reward that a framework's settings name; ``ConfigError`` if there is none.

    Args:
        which: a reward; a settings file (``reward.instance``); ``module:name`` of one in your own
            module; None for the settings that the environment names, or else a ``PoshReward``.
    """
    reward = _load_named_reward(which) if isinstance(which, str) else which or settings_reward()
    if not isinstance(reward, MetricReward):
        raise ConfigError(f"{which!r} is not a metric's reward, such as PoshReward()")
    return reward


def _load_named_reward(name: str) -> Any:
    if name.endswith(SETTINGS_SUFFIXES):
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
    """Return a reward that gives one number per completion; ``ConfigError`` for several."""
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
    """By objective; None if the completion could not be judged."""
    figures: Mapping[str, float | None]
    """Sub-scores by their names in TRL's table of completions, such as ``posh_precision``."""
    score: MetricResult

    @property
    def failure(self) -> Failure | None:
        return self.score.failure

    @property
    def reward(self) -> float | None:
        """The reward, or the mean of several objectives."""
        numbers = [value for value in self.rewards.values() if value is not None]
        if len(numbers) < len(self.rewards):
            return None
        return fmean(numbers)

    @property
    def axes(self) -> dict[str, float]:
        """The rewards by names that differ from those of figures; NaN for missing ones."""
        return {f"{name}_reward": number_or_nan(value) for name, value in self.rewards.items()}

    @property
    def elements(self) -> list[dict[str, Any]]:
        """POSH's graded elements of the text, with character offsets in it as it was scored."""
        rows = []
        for each in getattr(self.score, "elements", ()):
            if each.direction != "precision":
                continue
            graded = {"kind": each.kind, "text": each.text, "grade": each.grade}
            for start, end in each.spans:
                rows.append({"start": start, "end": end, **graded})
        return rows

    @property
    def row(self) -> dict[str, float]:
        """The figures as floats, NaN for missing ones, and ``failed`` (0 or 1)."""
        numbers = {name: number_or_nan(value) for name, value in self.figures.items()}
        return {**numbers, FAILED: float(self.reward is None)}


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
        reward: a metric's reward; raises what its call raises.
        completions: as for ``MetricReward``.
        columns: one value per completion.
        raw: score texts unchanged, for evaluators; then a judge that is gone raises nothing.
        tries: most calls; later ones have only the completions without a score.
    """
    scores = reward.scores(*reward.batch(completions, columns, raw=raw))
    for _ in range(tries - 1):
        again = [
            at for at, score in enumerate(scores) if score.failure and score.failure.is_transient
        ]
        if not again:
            break
        time.sleep(RETRY_PAUSE_SECONDS)
        part = {}
        for name, values in columns.items():
            part[name] = [values[place] for place in again]
        texts = [completions[place] for place in again]
        batch = reward.batch(texts, part, raw=raw)
        for place, score in zip(again, reward.scores(*batch), strict=True):
            scores[place] = score
    if not raw:
        reward.failures.note([score.failure for score in scores])
    rewards, figures = reward.rewards_of(scores), build_figure_columns(reward.metric, scores)
    outcomes = []
    for place, score in enumerate(scores):
        own_rewards = {name: values[place] for name, values in rewards.items()}
        own_figures = {name: values[place] for name, values in figures.items()}
        outcomes.append(CompletionResult(own_rewards, own_figures, score))
    return outcomes


def with_group_means(
    rewards: Sequence[float | None], groups: Sequence[object], spare: float = WORST_SCORE
) -> list[float]:
    """Replace each missing reward by its group's mean, which gives it an advantage of 0.

    A group without a valid member gets the mean of the others, or ``spare`` if there are none.
    """
    valid: dict[object, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            valid.setdefault(group, []).append(reward)
    means = {group: fmean(values) for group, values in valid.items()}
    if means:
        spare = fmean(means.values())
    filled = []
    for reward, group in zip(rewards, groups, strict=True):
        filled.append(means.get(group, spare) if reward is None else reward)
    if missing := sum(reward is None for reward in rewards):
        logger.warning("%d of %d completions get the mean of their group", missing, len(rewards))
    return filled


def separate_advantages(
    rewards: Sequence[Sequence[float] | None], groups: Sequence[object], weights: Sequence[float]
) -> list[float]:
    """Normalise each objective within its group, add, and normalise over the batch, as TRL does.

    TRL 1.16 calls this ``normalize_then_sum``, others GDPO. Two groups with precision 0.2, 0.4 and
    0.6, 0.6, equal recall, weights 1: within groups -0.71, 0.71, 0, 0; over the batch (standard
    deviation 0.58) -1.22, 1.22, 0, 0.

    Args:
        rewards: by completion, one number per objective; None for one that could not be judged,
            which counts in no mean and gets 0.
        groups: what completions of one prompt have in common.
        weights: of the objectives.
    """
    members: dict[object, list[int]] = {}
    for place, group in enumerate(groups):
        if rewards[place] is not None:
            members.setdefault(group, []).append(place)
    sums: dict[int, float] = {}
    for places in members.values():
        rows = [row for place in places if (row := rewards[place]) is not None]
        columns = map(_normalise, zip(*rows, strict=True))
        for place, row in zip(places, zip(*columns, strict=True), strict=True):
            sums[place] = sum(w * value for w, value in zip(weights, row, strict=True))
    advantages = dict(zip(sums, _normalise([*sums.values()]), strict=True))
    return [advantages.get(place, 0.0) for place in range(len(rewards))]


def _normalise(values: Sequence[float]) -> list[float]:
    centre = fmean(values or [0.0])
    spread = stdev(values) if len(values) > 1 else 0.0
    return [(value - centre) / (spread + ADVANTAGE_EPSILON) for value in values]


Sample = tuple[object, Mapping[str, Any]]
"""A completion and the values of its columns."""


class SampleRewards:
    """Results of single completions; those within some milliseconds are scored together.

    Args:
        reward: as for ``reward_of``.
        fallback: reward of a completion that could not be judged; None raises instead.
        raw: as for ``results``.
        several: the caller adds the rewards of several objectives; otherwise there must be one.
        milliseconds: time that a completion waits for others.
    """

    failures = 0

    def __init__(
        self,
        reward: AnyReward | str | None = None,
        *,
        fallback: float | None = None,
        raw: bool = False,
        several: bool = False,
        milliseconds: float = 5.0,
    ) -> None:
        self.reward = reward_of(reward)
        if not raw and not several:
            self.reward = one_objective(self.reward)
        self.fallback, self.raw = fallback, raw
        self._window: BatchWindow[Sample, CompletionResult] = BatchWindow(
            self._score_samples, milliseconds
        )

    @property
    def reference_column(self) -> str:
        return self.reward.reference_column

    def __call__(self, completion: object, **columns: Any) -> CompletionResult:
        """Return the result of one completion; blocks this thread."""
        return self._window((completion, columns))

    async def call_async(self, completion: object, **columns: Any) -> CompletionResult:
        """Return the result of one completion, without blocking the event loop."""
        return await self._window.call_async((completion, columns))

    def number(self, result: CompletionResult) -> float:
        """Return the reward, or else the fallback, counted and logged, or raise ``JudgeError``."""
        if result.reward is not None:
            return result.reward
        self.failures += 1
        if self.fallback is None:
            raise JudgeError(f"a completion could not be judged: {result.failure}")
        message = "completion %d without a score gets %g: %s"
        logger.warning(message, self.failures, self.fallback, result.failure)
        return self.fallback

    def _score_samples(self, samples: Sequence[Sample]) -> list[CompletionResult]:
        places: dict[tuple[str, ...], list[int]] = {}  # a batch for each set of columns
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
def shared_rewards(
    reward: AnyReward | str | None = None, fallback: float | None = None, several: bool = False
) -> SampleRewards:
    """Return a process's rewards, for frameworks that name a function and its settings."""
    return SampleRewards(reward, fallback=fallback, several=several)
