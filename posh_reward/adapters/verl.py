"""verl: a reward function and an advantage estimator.

verl scores one completion at a time without naming its group. What could not be judged raises
unless there is a fallback: verl's trainer (``use_v1``) continues without that row, the legacy one
stops. docs/adapters.md has the settings.
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import (
    FAILED,
    framework,
    separate_advantages,
    shared_rewards,
)

with framework("verl==0.9.1"):
    import torch
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    reward: str | None = None,
    fallback: float | None = None,
    separate: bool = False,
    **_: Any,
) -> dict[str, float]:
    """Return a completion's reward as ``score``, and its sub-scores, which verl logs.

    Concurrent completions of a worker are scored together.

    Args:
        data_source: unused; part of verl's contract, like the next three.
        solution_str: the completion.
        ground_truth: its reference.
        extra_info: further columns of the row, such as ``image``.
        reward: name for ``reward_of``, from ``reward_kwargs`` like those below.
        fallback: reward of a completion that could not be judged; otherwise ``JudgeError``.
        separate: the reward has several objectives, for estimator ``gdpo``; ``score`` is their
            mean, and ``posh_precision_reward`` one of its keys.
    """
    rewards = shared_rewards(reward, fallback, separate)
    columns = {**(extra_info or {}), rewards.reference_column: ground_truth}
    result = await rewards.call_async(solution_str, **columns)
    score = rewards.number(result)
    axes = result.axes
    if result.reward is None:
        axes = dict.fromkeys(axes, score)
    return {**axes, **result.row, "score": score}


def separate_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Any,
    config: Any = None,
    non_tensor_batch: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute ``gdpo`` as TRL does: verl's own weights rows by tokens, and counts failed ones.

    Returns:
        Advantages and returns, both (completions, tokens); 0 for failed rows.
    """
    keys = config.get("gdpo_reward_keys")
    weights = config.get("gdpo_reward_weights") or [1.0] * len(keys)
    columns = zip(*(non_tensor_batch[key] for key in keys), strict=True)
    failed = non_tensor_batch.get(FAILED, [0.0] * len(index))
    rows: list[list[float] | None] = []
    for lost, row in zip(failed, columns, strict=True):
        rows.append(None if lost else [*map(float, row)])
    values = token_level_rewards.new_tensor(separate_advantages(rows, list(index), weights))
    table = values[:, None] * response_mask
    return table, table


ADV_ESTIMATOR_REGISTRY["gdpo"] = separate_advantage
