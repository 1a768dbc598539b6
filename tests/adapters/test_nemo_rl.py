"""The reward as an environment of NeMo-RL, and in its baseline (from its repository)."""

from __future__ import annotations

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores
from tests.adapters.stand_ins import stand_in

pytestmark = pytest.mark.adapters


def test_a_failed_row_has_no_advantage() -> None:
    pytest.importorskip("nemo_rl", reason="NeMo-RL is not on PyPI: name a checkout by --source")
    stand_in("matplotlib", "mlflow", "prometheus_client", "rich", "swanlab", "wandb")  # its loggers
    import torch
    from nemo_rl.algorithms import utils

    from posh_reward.adapters.nemo_rl import DescriptionEnvironment

    environment = DescriptionEnvironment({"reward": "tests.adapters.groups:REWARD"})
    logs = [
        [{"role": "user", "content": "Describe."}, {"role": "assistant", "content": text}]
        for text in TEXTS
    ]
    output = environment.step(logs, [{"reference": REFERENCE} for _ in TEXTS])
    for reward, expected, row, score in zip(
        output.rewards.tolist(), rewards(), output.metadata, scores(), strict=True
    ):
        if expected is not None:
            assert reward == pytest.approx(expected)
            assert row["posh_precision"] == score.precision
            assert row["elements"]
    for leave_one_out in (True, False):
        baseline, std = utils.calculate_baseline_and_std_per_prompt(
            torch.ones((4, 1)), output.rewards, torch.ones(4), leave_one_out_baseline=leave_one_out
        )
        advantages = (output.rewards - baseline) / (std + 1e-6)
        assert advantages[FAILED].item() == pytest.approx(0, abs=1e-4)
    print(f"advantages {advantages.tolist()}")
    rows = {"extra_env_info": output.metadata}
    _, figures = environment.global_post_process_and_metrics(rows)
    assert figures["failed"] == 0.25
    known = [score.f1 for score in scores() if score.f1 is not None]
    assert figures["posh_f1"] == pytest.approx(sum(known) / 3)


def test_nemo_rl_finds_it_by_its_name() -> None:
    """The names that its ``create_env`` looks up before it starts an actor."""
    pytest.importorskip("nemo_rl", reason="NeMo-RL is not on PyPI: name a checkout by --source")
    stand_in("mlflow", "swanlab", "wandb")
    import sys

    from hydra.utils import get_object
    from nemo_rl.distributed.ray_actor_environment_registry import get_actor_python_env
    from nemo_rl.environments.utils import ENV_REGISTRY

    from posh_reward.adapters.nemo_rl import DescriptionActor, register

    register("vlm")
    actor = ENV_REGISTRY["vlm"]["actor_class_fqn"]
    assert get_object(actor) is DescriptionActor
    assert get_actor_python_env(actor) == sys.executable
