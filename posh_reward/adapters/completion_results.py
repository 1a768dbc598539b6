"""Parts that adapters share: a reward by name, results of completions, numbers for failed ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward.errors import ConfigError, MissingDependencyError
from posh_reward.metrics.metric import MetricResult
from posh_reward.reward.instance import make_reward, settings_reward
from posh_reward.reward.shaping import WORST
from posh_reward.reward.trl import MetricReward, extras, figure_names
from posh_reward.settings import ENDINGS, check_settings, read_settings
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

AnyReward = MetricReward[Any]


@contextmanager
def framework(requirement: str) -> Iterator[None]:
    """Around the imports of a framework: a missing one is an error with its install line.

    Args:
        requirement: of the version that the adapter is tested with, such as ``verl==0.9.1``.

    Raises:
        MissingDependencyError: an import failed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"this adapter needs {requirement.partition('==')[0]}, and importing it failed "
            f"({error}): pip install '{requirement}'"
        ) from error


def reward_of(which: AnyReward | str | None = None) -> AnyReward:
    """The reward that a framework's settings name.

    Args:
        which: a reward; a settings file (``reward.instance``); ``module:name`` of a reward in a
            module of yours, such as a ``HarmonicReward``; None for the settings that the
            environment names, or without any a ``PoshReward``.

    Raises:
        ConfigError: there is no such reward, or it is several, and one number is wanted.
    """
    reward = _reward_named(which) if isinstance(which, str) else which or settings_reward()
    if not isinstance(reward, MetricReward):
        raise ConfigError(f"{which!r} is no reward of a metric, such as PoshReward()")
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
            f"there is no reward {name!r} ({error}): give module:name, or a .yaml or .json file"
        ) from error


def sole(reward: AnyReward) -> AnyReward:
    """The reward, for a trainer that takes one number a completion.

    Raises:
        ConfigError: it has several objectives.
    """
    if len(reward.objectives) > 1:
        raise ConfigError(
            f"this trainer takes one number, and the reward has {' and '.join(reward.objectives)}: "
            "choose objective f1 or weighted"
        )
    return reward


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """A completion's reward, and what a log may hold beside it."""

    rewards: Mapping[str, float | None]
    """By objective; higher is better, None if it could not be judged."""
    figures: Mapping[str, float | None]
    """Sub-scores by the names that TRL's table of completions has: ``posh_precision``."""
    score: MetricResult
    """The metric's own record, such as ``Scores``."""

    @property
    def failure(self) -> Failure | None:
        """Reason for a missing reward."""
        return self.score.failure

    @property
    def reward(self) -> float | None:
        """The reward; of several objectives their mean."""
        numbers = [value for value in self.rewards.values() if value is not None]
        return fmean(numbers) if len(numbers) == len(self.rewards) else None

    @property
    def elements(self) -> list[dict[str, Any]]:
        """Graded details as plain data: start, end, kind, text, grade; of POSH.

        Start and end are characters of the text as it was scored, stripped and without thoughts.
        """
        return [
            {"start": start, "end": end, "kind": each.kind, "text": each.text, "grade": each.grade}
            for each in getattr(self.score, "elements", ())
            if each.direction == "precision"
            for start, end in each.spans
        ]

    @property
    def row(self) -> dict[str, float]:
        """The figures as numbers only, NaN where there is none, and ``failed`` (0 or 1)."""
        numbers = {k: float("nan") if v is None else float(v) for k, v in self.figures.items()}
        return {**numbers, "failed": float(self.reward is None)}


def results(
    reward: AnyReward,
    completions: Sequence[object],
    columns: Mapping[str, Sequence[Any]],
    *,
    raw: bool = False,
    tries: int = 2,
    pause: float = 1.0,
) -> list[CompletionResult]:
    """The results of a batch of completions, in order; what an engine failed on is tried again.

    Args:
        reward: of a metric.
        completions: as for ``MetricReward``.
        columns: one value for each completion.
        raw: score texts as they are, with the metric as published: for evaluators. A judge that
            is gone then makes results without scores, and never an error.
        tries: most calls; only completions without a score are in the second and later ones.
        pause: seconds before each further call.

    Raises:
        InputError: a column is missing or of another length.
        JudgeError: most completions failed in ``max_failed_calls`` calls in a row.
    """
    scores = reward.scores(*reward.batch(completions, columns, raw=raw))
    for _ in range(tries - 1):
        again = [i for i, s in enumerate(scores) if s.failure and s.failure.passing]
        if not again:
            break
        time.sleep(pause)
        part = {name: [values[i] for i in again] for name, values in columns.items()}
        batch = reward.batch([completions[i] for i in again], part, raw=raw)
        for place, score in zip(again, reward.scores(*batch), strict=True):
            scores[place] = score
    if not raw:
        reward.note_failures([score.failure for score in scores])
    rewards, figures = reward.rewards_of(scores), extras(reward.metric, scores)
    names = figure_names(reward)
    return [
        CompletionResult(
            {name: values[at] for name, values in rewards.items()},
            {name: figures[name][at] for name in names},
            score,
        )
        for at, score in enumerate(scores)
    ]


def neutral(
    rewards: Sequence[float | None], groups: Sequence[object], spare: float = WORST
) -> list[float]:
    """The rewards, with the mean of its group's valid members where one is missing: advantage 0.

    Args:
        rewards: of completions.
        groups: what completions of one prompt have in common, such as its id.
        spare: for a batch of which nothing could be judged. A group without a valid member gets
            the mean of the others: its members are alike, so that none has an advantage.
    """
    valid: dict[object, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            valid.setdefault(group, []).append(reward)
    means = {group: fmean(values) for group, values in valid.items()}
    rest = fmean(means.values()) if means else spare
    if missing := sum(reward is None for reward in rewards):
        logger.warning("%d of %d completions have the mean of their group", missing, len(rewards))
    return [
        means.get(group, rest) if reward is None else reward
        for reward, group in zip(rewards, groups, strict=True)
    ]
