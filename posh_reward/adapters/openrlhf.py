"""OpenRLHF: a reward function for ``--reward.remote_url reward.py``.

::

    # reward.py
    from posh_reward.adapters.openrlhf import remote_reward

    reward_func = remote_reward(fallback=0.5)

OpenRLHF scores one completion at a time without naming its group, and needs a number: it swallows
an exception, then the step fails. So a fallback is required. Labels are references; images and
other columns do not reach a reward here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posh_reward.adapters.completion_results import AnyReward, SampleRewards, framework
from posh_reward.reward.texts import completion_of

with framework("openrlhf==0.11.2"):
    import openrlhf  # noqa: F401
    import torch


def remote_reward(
    reward: AnyReward | str | None = None, *, fallback: float
) -> Callable[[Sequence[str], Sequence[str], Sequence[str]], dict[str, Any]]:
    """Make a ``reward_func``; concurrent calls of a process are scored together.

    Args:
        reward: as for ``reward_of``.
        fallback: reward of a completion that could not be judged, which is logged and counted.
    """
    rewards = SampleRewards(reward, fallback=fallback)

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]
    ) -> dict[str, Any]:
        rows = []
        for query, prompt, label in zip(queries, prompts, labels, strict=True):
            completion = completion_of(query, prompt)
            rows.append(rewards(completion, **{rewards.reference_column: label}))
        numbers = torch.tensor([rewards.number(row) for row in rows])
        names = rows[0].row if rows else ()
        logs = {name: torch.tensor([row.row[name] for row in rows]) for name in names}
        return {"rewards": numbers, "scores": numbers, "extra_logs": logs}

    return reward_func
