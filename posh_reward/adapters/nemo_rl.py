"""NeMo-RL: an environment that ends after one turn.

A row's ``extra_env_info`` has its columns (``reference``, ...). A completion that could not be
judged gets the mean of its group, those with the same prompt and reference: an advantage of 0.
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import framework, results, reward_of, with_group_means
from posh_reward.metrics.metric import mean

with framework("nemo-rl (from git, with ray)"):
    import ray
    import torch
    from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
    from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
    from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn
    from nemo_rl.environments.utils import ENV_REGISTRY


class DescriptionEnvironment(EnvironmentInterface):  # type: ignore[misc]
    """Environment that rewards the assistant's turns by ``cfg["reward"]`` (``reward_of``).

    A reward of several objectives is for the estimator ``gdpo``.
    """

    def __init__(self, cfg: dict[str, Any] | None = None) -> None:
        self.reward = reward_of((cfg or {}).get("reward"))

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> EnvironmentReturn:
        """Score a batch of conversations; add figures and elements to each row's metadata."""
        texts: list[str] = []
        groups: list[tuple[str, str]] = []
        for log, row in zip(message_log_batch, metadata, strict=True):
            turns = [str(turn["content"]) for turn in log if turn["role"] == "assistant"]
            texts.append("".join(turns))
            reference = row.get(self.reward.reference_column)
            groups.append((str(log[0]["content"]), str(reference)))
        shared_names = set.intersection(*map(set, metadata)) if metadata else set()
        columns = {}
        for name in shared_names:
            columns[name] = [row[name] for row in metadata]
        outcomes = results(self.reward, texts, columns)
        axes = {}
        for name in self.reward.objectives:
            rewards = [each.rewards[name] for each in outcomes]
            axes[f"{name}_reward"] = torch.tensor(with_group_means(rewards, groups))
        rows = []
        for row, outcome in zip(metadata, outcomes, strict=True):
            rows.append({**row, **outcome.row, "elements": outcome.elements})
        observation = {"role": "environment", "content": ""}
        return EnvironmentReturn(
            observations=[dict(observation) for _ in texts],
            metadata=rows,
            next_stop_strings=[None] * len(texts),
            rewards=axes if len(axes) > 1 else next(iter(axes.values())),
            terminateds=torch.ones(len(texts)),
            answers=None,
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Return the figures' means over a step, by TRL's names."""
        rows = [row for row in batch.get("extra_env_info", []) if row and "failed" in row]
        if not rows:
            return batch, {}
        means = {}
        for name, first in rows[0].items():
            if isinstance(first, float):
                valid = [row[name] for row in rows if row[name] == row[name]]  # no NaN
                means[name] = mean(valid)
        return batch, means


DescriptionActor = ray.remote(DescriptionEnvironment)


def register(name: str = "posh") -> None:
    """Register the environment with NeMo-RL by name; its actor runs in this Python installation."""
    actor = f"{__name__}.DescriptionActor"
    ENV_REGISTRY[name] = {"actor_class_fqn": actor}
    ACTOR_ENVIRONMENT_REGISTRY[actor] = PY_EXECUTABLES.SYSTEM
