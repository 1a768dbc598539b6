"""Trainers that call a function: ms-swift, slime, miles, EasyR1, OpenRLHF.

docs/adapters.md has the lines for each. A completion that could not be judged gets its group's mean
as reward, so its advantage is 0, unless the trainer leaves it out itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.adapters.completion_results import (
    FAILED,
    AnyReward,
    CompletionResult,
    SampleRewards,
    framework,
    one_objective,
    results,
    reward_of,
    separate_advantages,
    shared_rewards,
    with_group_means,
)
from posh_reward.errors import ConfigError
from posh_reward.reward.columns import get_column
from posh_reward.reward.objectives import Rewards, SharedCall
from posh_reward.reward.texts import cut_completion
from posh_reward.reward.trl import list_figure_names

GROUP_COLUMN = "prompt_id"
"""ms-swift's column that a group's completions share."""
REWARD_KEY = "reward"
"""slime's ``--reward-key``."""


def register_swift(reward: AnyReward | str | None = None) -> list[str]:
    """Register a reward and its sub-scores as ms-swift reward functions that share one scoring.

    Sub-scores are functions because ms-swift logs nothing else (``rewards/posh_recall/mean``).

    Args:
        reward: as for ``reward_of``. One with objective ``separate`` has a function per axis and
            needs ``--scale_rewards gdpo``, which leaves missing rewards out of groups.

    Returns:
        Names for ``--reward_funcs``.
    """
    with framework("ms-swift==4.6.0"):
        from swift.rewards import ORM, orms
    reward = reward_of(reward)
    several = len(reward.objectives) > 1
    ending = "_reward" if several else ""
    objectives = {f"{name}{ending}": name for name in reward.objectives}
    figures = list_figure_names(reward)

    def score(
        names: Sequence[str], completions: list[Any], *values: list[Any]
    ) -> dict[str, Rewards]:
        columns = dict(zip(names, values, strict=True))
        outcomes = results(reward, completions, columns)
        values_by_function: dict[str, Rewards] = {}
        for function, name in objectives.items():
            rewards = [each.rewards[name] for each in outcomes]
            if not several:  # ms-swift would count a missing reward as 0, below POSH's worst (0.2)
                groups = get_column(columns, GROUP_COLUMN, len(completions), GROUP_COLUMN)
                rewards = [*with_group_means(rewards, groups)]
            values_by_function[function] = rewards
        for name in figures:
            values_by_function[name] = [each.figures[name] for each in outcomes]
        return values_by_function

    shared = SharedCall(score)

    def call(self: Any, completions: list[Any], **columns: Any) -> Rewards:
        scale = getattr(self.args, "scale_rewards", "gdpo")
        if several and scale != "gdpo":
            raise ConfigError(
                f"objective is separate, but scale_rewards is {scale!r}: add --scale_rewards gdpo"
            )
        rows = {}
        for name, values in columns.items():
            if isinstance(values, list) and len(values) == len(completions):
                rows[name] = values
        return shared.take(type(self).__name__, [*rows], list(completions), *rows.values())

    functions = [*objectives, *figures]
    for function in functions:  # ms-swift logs the class's name
        orms[function] = type(function, (ORM,), {"__call__": call})
    return functions


async def custom_rm(args: Any, sample: Any, **_: Any) -> Any:
    """Return slime's or miles' rewards of a group of samples, or of one (in evaluations).

    A failed sample of a group also gets ``remove_sample``, so it has no loss.

    Args:
        args: the trainer's arguments; ``posh_reward`` may name a reward (``reward_of``).
        sample: a ``Sample``, or a list of them; ``label`` is the reference, metadata the columns.

    Raises:
        ConfigError: ``--reward-key`` does not name the reward.
        JudgeError: a single sample could not be judged.
    """
    if args.reward_key != REWARD_KEY:
        raise ConfigError(f"reward_key is {args.reward_key!r}: add --reward-key {REWARD_KEY}")
    rewards = _slime_rewards(args)

    async def score_sample(each: Any) -> CompletionResult:
        columns = {**(each.metadata or {}), rewards.reference_column: each.label}
        return await rewards.call_async(each.response, **columns)

    if not isinstance(sample, list):
        result = await score_sample(sample)
        return {REWARD_KEY: rewards.number(result), **result.axes, **result.row}
    outcomes = await asyncio.gather(*map(score_sample, sample))
    for each, result in zip(sample, outcomes, strict=True):
        each.remove_sample = each.remove_sample or result.reward is None
        each.metadata = {**(each.metadata or {}), "elements": result.elements}
    groups = [each.group_index for each in sample]
    numbers = with_group_means([result.reward for result in outcomes], groups)
    return [
        {REWARD_KEY: number, **result.axes, **result.row}
        for number, result in zip(numbers, outcomes, strict=True)
    ]


def separate_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Add a reward's objectives for slime or miles, in place of its own normalisation.

    Returns:
        Rewards for logs, and advantages as in TRL.
    """
    weights = _slime_rewards(args).reward.objectives
    rows: list[list[float] | None] = []
    for each in samples:
        if each.reward[FAILED]:
            rows.append(None)
        else:
            rows.append([each.reward[f"{name}_reward"] for name in weights])
    groups = [each.group_index for each in samples]
    advantages = separate_advantages(rows, groups, [by or 1.0 for by in weights.values()])
    return [each.reward[REWARD_KEY] for each in samples], advantages


def _slime_rewards(args: Any) -> SampleRewards:
    path = getattr(args, "custom_reward_post_process_path", None) or ""
    several = path.endswith(separate_rewards.__name__)
    return shared_rewards(getattr(args, "posh_reward", None), several=several)


Inputs = Sequence[Mapping[str, Any]]


def easyr1_reward(
    reward: AnyReward | str | None = None,
) -> Callable[[Inputs], list[dict[str, float]]]:
    """Make EasyR1's ``compute_score`` of a reward (``reward_of``) that needs only references.

    It returns ``overall`` and sub-scores. Equal references count as a group.
    """
    metric_reward = one_objective(reward_of(reward))

    def compute_score(reward_inputs: Inputs, **_: Any) -> list[dict[str, float]]:
        texts = [each["response"] for each in reward_inputs]
        references = [each["ground_truth"] for each in reward_inputs]
        column = metric_reward.reference_column
        outcomes = results(metric_reward, texts, {column: references})
        numbers = with_group_means([each.reward for each in outcomes], references)
        return [
            {"overall": number, **each.row} for number, each in zip(numbers, outcomes, strict=True)
        ]

    return compute_score


def openrlhf_reward(
    reward: AnyReward | str | None = None, *, fallback: float
) -> Callable[[Sequence[str], Sequence[str], Sequence[str]], dict[str, Any]]:
    """Make OpenRLHF's ``reward_func``; concurrent calls of a process are scored together.

    OpenRLHF passes one completion at a time without its group, and needs a number: it swallows
    exceptions, then its step fails.

    Args:
        reward: as for ``reward_of``.
        fallback: reward of a completion that could not be judged, which is logged and counted.
    """
    with framework("openrlhf==0.11.2"):
        import torch
    rewards = SampleRewards(reward, fallback=fallback)

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]
    ) -> dict[str, Any]:
        outcomes = []
        for query, prompt, label in zip(queries, prompts, labels, strict=True):
            completion = cut_completion(query, prompt)
            outcomes.append(rewards(completion, **{rewards.reference_column: label}))
        numbers = torch.tensor(list(map(rewards.number, outcomes)))
        logs = {}
        for name in outcomes[0].row if outcomes else ():
            logs[name] = torch.tensor([each.row[name] for each in outcomes])
        return {"rewards": numbers, "scores": numbers, "extra_logs": logs}

    return reward_func
