"""verl: a reward function, and a reward manager with token-level scores.

::

    python3 -m verl.trainer.main_ppo ... \
        reward.custom_reward_function.path=pkg://posh_reward.adapters.verl \
        reward.custom_reward_function.name=compute_score_async

verl scores one completion at a time without naming its group. A completion that could not be judged
raises unless there is a fallback; verl's trainer (``use_v1``, the default) then continues without
that row. The legacy trainer would stop: use
``+reward.custom_reward_function.reward_kwargs.fallback=0.5`` with it.
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import (
    SampleRewards,
    framework,
    shared_rewards,
    with_group_means,
)
from posh_reward.training.dapo.credit import credits
from posh_reward.types import Scores

with framework("verl==0.9.1"):
    import torch
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    reward: str | None = None,
    fallback: float | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return a completion's reward as ``score``, and its sub-scores, which verl logs.

    Args:
        data_source: unused; part of verl's contract.
        solution_str: the completion.
        ground_truth: its reference.
        extra_info: further columns of the row, such as ``image``.
        reward: name for ``reward_of``, from ``reward_kwargs``.
        fallback: reward of a completion that could not be judged, from ``reward_kwargs``.

    Raises:
        JudgeError: the completion could not be judged, and there is no fallback.
    """
    rewards = shared_rewards(reward, fallback)
    columns = {**(extra_info or {}), rewards.reference_column: ground_truth}
    result = rewards(solution_str, **columns)
    return {"score": rewards.number(result), **result.row}


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    reward: str | None = None,
    fallback: float | None = None,
    **_: Any,
) -> dict[str, float]:
    """Do the same as a coroutine: a worker's concurrent completions are scored together."""
    rewards = shared_rewards(reward, fallback)
    columns = {**(extra_info or {}), rewards.reference_column: ground_truth}
    result = await rewards.call_async(solution_str, **columns)
    return {"score": rewards.number(result), **result.row}


class TokenScore(float):
    """A reward (NaN if missing) with the credit to add to each token of its completion."""

    credits: list[float]


class SpanRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Token-level scores: span credit on each token, plus the reward on the last.

    Use it only where verl scores after the rollout (a colocated reward model), in whole batches:
    there ``uid`` names the group, and a failed row gets the group's mean. During the rollout verl
    asks for single numbers, so credit would be lost and a failed row would be NaN.

    Args:
        config: verl's; ``reward.reward_kwargs`` may have ``reward`` and ``span_credit``.
        tokenizer: the policy's.
        **_: further arguments of verl's managers.
    """

    span_credit = 0.2
    """Strength of credit unless the settings name another."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        settings = config.reward.get("reward_kwargs") or {}
        self.rewards: SampleRewards = shared_rewards(settings.get("reward"))
        self.span_credit = float(settings.get("span_credit", self.span_credit))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Return the reward of one completion, and its sub-scores."""
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
