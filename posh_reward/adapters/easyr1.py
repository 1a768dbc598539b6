"""EasyR1: a reward function for ``worker.reward.reward_function=reward.py:compute_score``.

::

    # reward.py
    from posh_reward.adapters.easyr1 import batch_reward

    REWARD_TYPE = "batch"
    compute_score = batch_reward()

EasyR1 passes all completions of a step at once, each with only its ``ground_truth``, the reference.
Equal references count as a group, so a completion that could not be judged gets its group's mean:
an advantage of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.adapters.completion_results import (
    AnyReward,
    one_objective,
    results,
    reward_of,
    with_group_means,
)

Inputs = Sequence[Mapping[str, Any]]


def batch_reward(
    reward: AnyReward | str | None = None,
) -> Callable[[Inputs], list[dict[str, float]]]:
    """Make a ``compute_score`` of a reward (``reward_of``) that needs only references.

    It returns ``overall`` and sub-scores, which EasyR1 logs by name.
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
