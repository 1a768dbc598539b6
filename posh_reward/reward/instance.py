"""A ready-made reward for command lines that take a dotted name instead of an object.

::

    POSH_REWARD_SETTINGS=reward.yaml trl grpo --reward_funcs posh_reward.reward.instance.posh ...

``posh`` is a ``PoshReward`` that is built when it is first asked for, from the settings file that
the environment names, if any::

    metric: published         # or a mapping of arguments of PoSh, such as {judge: judge.yaml}
    shaping: {precision_weight: 4}
    reference_column: caption
    image_column: image     # for a metric with a witness
    max_failed_calls: 10

With ``shaping: {objective: separate}`` there are two functions, which share one scoring call::

    --reward_funcs posh_reward.reward.instance.precision posh_reward.reward.instance.recall
    --multi_objective_aggregation normalize_then_sum --reward_weights 1 1

There is no ``StopWithCheckpoint`` here: a rank whose judge is gone raises on its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.metrics.load_metric import load_metric
from posh_reward.reward.objectives import AXES, Rewards
from posh_reward.reward.posh_reward import PoshReward
from posh_reward.reward.shaping import Shaping
from posh_reward.settings import check_settings, read_settings

if TYPE_CHECKING:
    posh: PoshReward
    precision: Callable[..., Rewards]
    recall: Callable[..., Rewards]

VARIABLE = "POSH_REWARD_SETTINGS"  # of the environment; names the settings file


def make_reward(
    metric: str | Mapping[str, Any] | None = None,
    shaping: Mapping[str, Any] | None = None,
    reference_column: str = "reference",
    image_column: str | None = None,
    max_failed_calls: int = 10,
) -> PoshReward:
    """The reward that settings describe.

    Args:
        metric: what ``metrics.load_metric.load_metric`` takes; None for the embedded judge.
        shaping: fields of ``Shaping``.
        reference_column: as in ``PoshReward``.
        image_column: as in ``PoshReward``.
        max_failed_calls: as in ``PoshReward``.

    Raises:
        ConfigError: a setting is unknown or cannot be used.
        InputError: likewise.
    """
    return PoshReward(
        load_metric(metric),
        Shaping(**check_settings(Shaping, shaping or {}, "shaping")),
        reference_column=reference_column,
        image_column=image_column,
        max_failed_calls=max_failed_calls,
    )


@cache
def settings_reward() -> PoshReward:
    """The reward of the settings file that the environment names; it is made once.

    Raises:
        ConfigError: as for ``make_reward``.
        InputError: likewise.
    """
    path = os.environ.get(VARIABLE)
    settings = read_settings(Path(path)) if path else {}
    return make_reward(**check_settings(make_reward, settings, f"reward ({VARIABLE})"))


@cache
def _functions() -> dict[str, Callable[..., Rewards]]:
    """By the name under which the command line finds them.

    Raises:
        ConfigError: as for ``make_reward``.
    """
    functions = settings_reward().functions()
    return dict(zip(("posh",) if len(functions) == 1 else AXES, functions, strict=True))


def __getattr__(name: str) -> Callable[..., Rewards]:
    if name not in ("posh", *AXES):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    there = _functions()
    if name not in there:
        raise ConfigError(
            f"with objective {settings_reward().shaping.objective}, name as reward_funcs "
            f"{' and '.join(f'{__name__}.{each}' for each in there)}, not {__name__}.{name}"
        )
    return there[name]
