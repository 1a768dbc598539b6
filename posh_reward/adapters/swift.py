"""ms-swift: a plugin for ``--external_plugins``.

::

    # plugin.py
    from posh_reward import PoshReward
    from posh_reward.adapters.swift import register

    register(PoshReward())

    swift rlhf --rlhf_type grpo --external_plugins plugin.py --reward_funcs posh ...

ms-swift counts a missing reward as 0, below POSH's worst (0.2). So a completion that could not be
judged gets its group's mean instead, for an advantage of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posh_reward.adapters.completion_results import (
    AnyReward,
    framework,
    results,
    reward_of,
    with_group_means,
)
from posh_reward.reward.objectives import Rewards, SharedCall
from posh_reward.reward.texts import column_of
from posh_reward.reward.trl import figure_names

with framework("ms-swift==4.6.0"):
    from swift.rewards import ORM, orms

GROUP = "prompt_id"
"""ms-swift's column that a group's completions share."""


def register(reward: AnyReward | str | None = None) -> list[str]:
    """Register a reward and its sub-scores as ms-swift reward functions that share one scoring.

    Sub-scores are functions because ms-swift logs nothing else (``rewards/posh_recall/mean``):
    ``--reward_funcs posh posh_precision posh_recall --reward_weights 1 0 0``.

    Args:
        reward: as for ``reward_of``. One with objective ``separate`` has a function per axis:
            ``--reward_funcs posh_precision_reward posh_recall_reward --scale_rewards gdpo``.

    Returns:
        Names for ``--reward_funcs``.
    """
    reward = reward_of(reward)
    several = len(reward.objectives) > 1
    objectives = {f"{name}_reward" if several else name: name for name in reward.objectives}
    figures = figure_names(reward)

    def score(
        names: Sequence[str], completions: list[Any], *values: list[Any]
    ) -> dict[str, Rewards]:
        columns = dict(zip(names, values, strict=True))
        outcomes = results(reward, completions, columns)
        groups = column_of(columns, GROUP, len(completions), GROUP)
        rewards: dict[str, Rewards] = {
            function: [*with_group_means([each.rewards[name] for each in outcomes], groups)]
            for function, name in objectives.items()
        }
        return {**rewards, **{name: [each.figures[name] for each in outcomes] for name in figures}}

    call = SharedCall(score)
    for function in (*objectives, *figures):
        orms[function] = _orm(function, call)
    return [*objectives, *figures]


def _orm(function: str, shared: SharedCall) -> type:
    def call(self: object, completions: list[Any], **columns: Any) -> Rewards:
        rows = {
            k: v for k, v in columns.items() if isinstance(v, list) and len(v) == len(completions)
        }
        return shared.take(function, [*rows], list(completions), *rows.values())

    return type(function, (ORM,), {"__call__": call})  # ms-swift logs the class's name
