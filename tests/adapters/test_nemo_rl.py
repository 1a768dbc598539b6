"""The reward as an environment of NeMo-RL, and in its baseline (from its repository)."""

from types import SimpleNamespace

import pytest

from posh_reward import PoshReward, Shaping
from posh_reward.adapters.completion_results import with_group_means
from tests.adapters.groups import FAILED, METRIC, REFERENCE, TEXTS, rewards, scores
from tests.adapters.stand_ins import stand_in
from tests.adapters.two_objectives import CASES, GROUPS, WEIGHTS
from tests.adapters.two_objectives import FAILED as LOST

pytestmark = pytest.mark.adapters
SEPARATE = PoshReward(METRIC, Shaping("separate"))


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


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_its_advantages_of_two_objectives_are_near_trls(
    rows: list[list[float] | None], expected: list[float]
) -> None:
    pytest.importorskip("nemo_rl", reason="NeMo-RL is not on PyPI: name a checkout by --source")
    stand_in("matplotlib", "mlflow", "prometheus_client", "rich", "swanlab", "wandb")
    import torch
    from nemo_rl.algorithms.advantage_estimator import GDPOAdvantageEstimator

    batch = {
        f"reward/{axis}": torch.tensor(
            with_group_means([None if row is None else row[at] for row in rows], GROUPS)
        )
        for at, axis in enumerate(("posh_precision_reward", "posh_recall_reward"))
    }
    settings = SimpleNamespace(
        use_leave_one_out_baseline=False, normalize_rewards=True, reward_weights=WEIGHTS
    )
    prompts = torch.tensor([[ord(group)] for group in GROUPS])
    estimator = GDPOAdvantageEstimator(settings, None)
    table = estimator.compute_advantage(prompts, None, torch.ones(len(rows), 1), batch)
    found = table[:, 0].tolist()
    print(f"NeMo-RL: {[round(each, 4) for each in found]}")
    if None not in rows:
        assert found == pytest.approx(expected, abs=2e-3)
        return
    # A mean among four narrows its group's spread by (2 / 3) ** 0.5, so its siblings gain a fifth.
    assert found.pop(LOST) == pytest.approx(0, abs=1e-4)
    trls = [each for at, each in enumerate(expected) if at != LOST]
    assert all(0.99 < a / b < 1.26 for a, b in zip(found, trls, strict=True))


def test_two_objectives_are_named_rewards() -> None:
    pytest.importorskip("nemo_rl", reason="NeMo-RL is not on PyPI: name a checkout by --source")
    stand_in("mlflow", "swanlab", "wandb")
    from posh_reward.adapters.nemo_rl import DescriptionEnvironment

    environment = DescriptionEnvironment({"reward": f"{__name__}:SEPARATE"})
    logs = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": t}] for t in TEXTS]
    rewards = environment.step(logs, [{"reference": REFERENCE} for _ in TEXTS]).rewards
    assert isinstance(rewards, dict)
    direct = SEPARATE.rewards_of(scores())
    for name in ("posh_precision", "posh_recall"):
        assert rewards[f"{name}_reward"][0].item() == pytest.approx(direct[name][0])
        assert rewards[f"{name}_reward"].isfinite().all()


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
