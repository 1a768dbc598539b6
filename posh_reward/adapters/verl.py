"""verl: reward functions, an advantage estimator, a reward manager with token-level scores.

verl scores one completion at a time without naming its group. What could not be judged raises
unless there is a fallback: verl's trainer (``use_v1``) continues without that row, the legacy one
stops. docs/adapters.md has the settings.
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import (
    FAILED,
    SampleRewards,
    framework,
    separate_advantages,
    shared_rewards,
    with_group_means,
)
from posh_reward.training.dapo.credit import credits
from posh_reward.types import Scores

with framework("verl==0.9.1"):
    import torch
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
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
    axes = result.axes if result.reward is not None else dict.fromkeys(result.axes, score)
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
    rows = [None if lost else [*map(float, row)] for lost, row in zip(failed, columns, strict=True)]
    values = token_level_rewards.new_tensor(separate_advantages(rows, list(index), weights))
    table = values[:, None] * response_mask
    return table, table


ADV_ESTIMATOR_REGISTRY["gdpo"] = separate_advantage


class TokenScore(float):
    """A reward (NaN if missing) with the credit to add to each token of its completion."""

    credits: list[float]


class SpanRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Token-level scores: span credit on each token, plus the reward on the last.

    Use it only where verl scores after the rollout (a colocated reward model), in whole batches:
    there ``uid`` names the group, and a failed row gets the group's mean. During the rollout verl
    asks for single numbers, so credit would be lost and a failed row would be NaN.
    ``reward.reward_kwargs`` may have ``reward`` and ``span_credit``.
    """

    span_credit = 0.2

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        settings = config.reward.get("reward_kwargs") or {}
        self.rewards: SampleRewards = shared_rewards(settings.get("reward"))
        self.span_credit = float(settings.get("span_credit", self.span_credit))

    async def run_single(self, data: Any) -> dict[str, Any]:
        item = data[-1]
        ids = item.batch["responses"]
        ids = ids[: item.batch["attention_mask"][-len(ids) :].sum()].tolist()
        row = item.non_tensor_batch
        columns = dict(row.get("extra_info") or {})
        columns[self.rewards.reference_column] = row["reward_model"]["ground_truth"]
        result = await self.rewards.call_async(self._decode(ids), **columns)
        score = TokenScore("nan" if result.reward is None else result.reward)
        score.credits = []
        if isinstance(result.score, Scores):
            values = credits(ids, result.score, self._decode) or []
            score.credits = [self.span_credit * value for value in values]
        return {"reward_score": score, "reward_extra_info": result.row}

    def _decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    @classmethod
    def assemble_rm_scores(cls, data: Any, scores: list[TokenScore]) -> torch.Tensor:
        """Return token-level scores, shape (completions, tokens of the longest response)."""
        rewards = [None if score != score else float(score) for score in scores]
        groups = data.non_tensor_batch.get("uid", range(len(scores)))
        table: torch.Tensor = super().assemble_rm_scores(data, with_group_means(rewards, groups))
        for row, score in zip(table, scores, strict=True):
            row[: len(score.credits)] += row.new_tensor(score.credits)
        return table
