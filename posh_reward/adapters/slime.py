"""slime: a reward model for ``--custom-rm-path posh_reward.adapters.slime.custom_rm --group-rm``.

With ``--group-rm`` a completion that could not be judged gets its group's mean (advantage 0), and
slime leaves it out of the loss (``remove_sample``). ``label`` is the reference; a reward's other
columns come from the samples' metadata. Rewards include sub-scores, so add ``--reward-key reward``.
"""

from __future__ import annotations

import asyncio
from typing import Any

from posh_reward.adapters.completion_results import (
    CompletionResult,
    shared_rewards,
    with_group_means,
)
from posh_reward.errors import ConfigError

REWARD_KEY = "reward"


async def custom_rm(args: Any, sample: Any, **_: Any) -> Any:
    """Return the rewards of a group of samples, or of one (in evaluations).

    Args:
        args: slime's arguments; ``posh_reward`` may name a reward (``reward_of``).
        sample: a ``Sample``, or a list of them.

    Returns:
        A mapping per sample: ``reward`` and sub-scores by TRL's names.

    Raises:
        ConfigError: ``--reward-key`` does not name the reward.
        JudgeError: a single sample could not be judged.
    """
    if args.reward_key != REWARD_KEY:
        raise ConfigError(f"reward_key is {args.reward_key!r}: add --reward-key {REWARD_KEY}")
    rewards = shared_rewards(getattr(args, "posh_reward", None))

    async def result_of(each: Any) -> CompletionResult:
        columns = {**(each.metadata or {}), rewards.reference_column: each.label}
        return await rewards.call_async(each.response, **columns)

    if not isinstance(sample, list):
        result = await result_of(sample)
        return {REWARD_KEY: rewards.number(result), **result.row}
    results = await asyncio.gather(*map(result_of, sample))
    for each, result in zip(sample, results, strict=True):
        each.remove_sample = each.remove_sample or result.reward is None
        each.metadata = {**(each.metadata or {}), "elements": result.elements}
    numbers = with_group_means(
        [result.reward for result in results], [each.group_index for each in sample]
    )
    return [
        {REWARD_KEY: number, **result.row} for number, result in zip(numbers, results, strict=True)
    ]
