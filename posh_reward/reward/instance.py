"""Ready-made rewards for command lines that take a dotted name instead of an object.

::

    POSH_REWARD_SETTINGS=reward.yaml trl grpo --reward_funcs posh_reward.reward.instance.posh ...

``posh`` is a ``PoshReward``, built on first use from the settings file in the environment variable,
if any::

    metric: published         # or a mapping of arguments of PoSh, such as {judge: judge.yaml}
    shaping: {precision_weight: 4}
    reference_column: caption
    image_column: image     # for a metric with a witness
    max_failed_calls: 10

With ``shaping: {objective: separate}`` it is two functions that share one scoring call::

    --reward_funcs posh_reward.reward.instance.precision posh_reward.reward.instance.recall
    --multi_objective_aggregation normalize_then_sum --reward_weights 1 1

There is no ``StopWithCheckpoint`` here: a rank whose judge is gone raises alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.posh.load_metric import load_reward_metric
from posh_reward.reward.objectives import Rewards
from posh_reward.reward.shaping import SCORE_AXES, read_shaping
from posh_reward.reward.trl import PoshReward
from posh_reward.settings import check_settings, read_settings

if TYPE_CHECKING:
    posh: PoshReward
    precision: Callable[..., Rewards]
    recall: Callable[..., Rewards]

SETTINGS_VARIABLE = "POSH_REWARD_SETTINGS"  # environment variable: path of the settings file


def make_reward(
    metric: str | Mapping[str, Any] | None = None,
    shaping: Mapping[str, Any] | None = None,
    reference_column: str = "reference",
    image_column: str | None = None,
    max_failed_calls: int = 10,
) -> PoshReward:
    """Make a ``PoshReward`` from settings: those of ``load_metric``, ``read_shaping``, and its own.

    Raises:
        ConfigError, InputError: a setting is unknown or cannot be used.
    """
    return PoshReward(
        load_reward_metric(metric),
        read_shaping(shaping or {}),
        reference_column=reference_column,
        image_column=image_column,
        max_failed_calls=max_failed_calls,
    )


@cache
def settings_reward() -> PoshReward:
    """Make the reward of the settings file, once; errors as for ``make_reward``."""
    path = os.environ.get(SETTINGS_VARIABLE)
    settings = read_settings(Path(path)) if path else {}
    return make_reward(**check_settings(make_reward, settings, f"reward ({SETTINGS_VARIABLE})"))


@cache
def _make_functions() -> dict[str, Callable[..., Rewards]]:
    functions = settings_reward().functions()
    if len(functions) == 1:
        return {"posh": functions[0]}
    return dict(zip(SCORE_AXES, functions, strict=True))


def __getattr__(name: str) -> Callable[..., Rewards]:
    if name not in ("posh", *SCORE_AXES):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    functions = _make_functions()
    if name not in functions:
        raise ConfigError(
            f"with objective {settings_reward().shaping.objective}, name as reward_funcs "
            f"{' and '.join(f'{__name__}.{each}' for each in functions)}, not {__name__}.{name}"
        )
    return functions[name]
