"""The reward in ms-swift's own scoring and advantages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posh_reward import ConfigError, PoshReward, Shaping
from posh_reward.adapters.reward_functions import register_swift
from tests.adapters.groups import FAILED, METRIC, REFERENCE, TEXTS, rewards, scores
from tests.adapters.tiny_model import PROMPT, write_describer
from tests.adapters.two_objectives import CASES, WEIGHTS

pytestmark = pytest.mark.adapters

PLUGIN = """
from posh_reward.adapters.reward_functions import register_swift
from tests.adapters.groups import REWARD

register_swift(REWARD)
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Made as ``--external_plugins`` and ``GRPOTrainer._prepare_rewards`` do."""
    from swift.rewards import orms
    from swift.utils.utils import import_external_file

    plugin = tmp_path_factory.mktemp("plugin") / "plugin.py"
    plugin.write_text(PLUGIN)
    import_external_file(str(plugin))
    names = ("posh", "posh_precision", "posh_recall")
    return {name: orms[name](args=None) for name in names}


def rewards_per_func(functions: dict[str, Any]) -> Any:
    import torch
    from swift.rl_core.data import GRPOSample
    from swift.rl_core.grpo_algorithm import score_completions

    samples = [
        GRPOSample(
            messages=[
                {"role": "user", "content": "Describe."},
                {"role": "assistant", "content": t},
            ],
            prompt_id=prompt,
            request_id=f"{prompt}-{at}",
            extra={"reference": REFERENCE},
        )
        for prompt in "ab"
        for at, t in enumerate(TEXTS)
    ]
    return score_completions(
        samples, list(functions.values()), [None] * len(functions), False, torch.device("cpu")
    )


def test_scores_are_those_of_a_direct_call(functions: dict[str, Any]) -> None:
    import torch

    columns = rewards_per_func(functions)
    for row, expected, score in zip(columns, rewards() * 2, scores() * 2, strict=True):
        if expected is not None:
            assert row.tolist() == pytest.approx([expected, score.precision, score.recall])
    assert torch.isnan(columns[FAILED, 1:]).all()
    assert not torch.isnan(columns[:, 0]).any()


def test_a_failed_row_has_no_advantage(functions: dict[str, Any]) -> None:
    import torch
    from swift.rl_core.advantage import compute_advantages, compute_reward_metrics

    columns = rewards_per_func(functions)
    weights = torch.tensor([1.0, 0.0, 0.0])
    advantages, total = compute_advantages(columns, weights, len(TEXTS))
    assert advantages[FAILED] == pytest.approx(0, abs=1e-6)
    alone, _ = compute_advantages(_with_zero(columns), weights, len(TEXTS))
    assert alone[FAILED] < -1  # as ms-swift counts a missing reward
    logged = compute_reward_metrics(
        total, columns, [type(f).__name__ for f in functions.values()], 4, "group"
    )
    known = [score.precision for score in scores() if score.precision is not None]
    assert logged.per_func_mean["posh_precision"] == pytest.approx(sum(known) / 3)
    print(f"advantages {advantages[:4].tolist()}, of a missing reward {alone[FAILED]:.2f}")


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_its_advantages_of_two_objectives_are_trls(
    rows: list[list[float] | None], expected: list[float]
) -> None:
    import torch
    from swift.rl_core.advantage import compute_advantages

    table = torch.tensor([row or [torch.nan] * 2 for row in rows])
    advantages, _ = compute_advantages(table, torch.tensor(WEIGHTS), 4, scale_rewards="gdpo")
    valid = sum(row is not None for row in rows)
    # It counts failed rows as zeros in the batch's spread, which scales all advantages alike, and
    # adds 1e-8 to spreads, not 1e-4.
    factor = ((len(rows) - 1) / (valid - 1)) ** 0.5
    assert (advantages / factor).tolist() == pytest.approx(expected, abs=2e-3)
    print(f"ms-swift {[round(each, 4) for each in advantages.tolist()]}")


def test_two_objectives_leave_a_failed_row_without_an_update() -> None:
    import torch
    from swift.rewards import orms
    from swift.rl_core.advantage import compute_advantages

    names = register_swift(PoshReward(METRIC, Shaping("separate")))[:2]
    assert names == ["posh_precision_reward", "posh_recall_reward"]
    settings = SimpleNamespace(scale_rewards="gdpo")
    table = rewards_per_func({name: orms[name](args=settings) for name in names})
    assert torch.isnan(table[FAILED]).all()
    advantages, _ = compute_advantages(table, torch.ones(2), len(TEXTS), scale_rewards="gdpo")
    assert advantages[FAILED] == pytest.approx(0, abs=1e-6)
    assert advantages.isfinite().all()
    wrong = orms[names[0]](args=SimpleNamespace(scale_rewards="group"))
    with pytest.raises(ConfigError, match="add --scale_rewards gdpo"):
        wrong(completions=TEXTS, reference=[REFERENCE] * 4, prompt_id=["a"] * 4)


FLAGS = """
--rlhf_type grpo --model model --model_type qwen2 --template qwen --external_plugins plugin.py
--reward_funcs posh posh_precision posh_recall --reward_weights 1 0 0 --dataset rows.jsonl
--tuner_type full --torch_dtype float32 --max_steps 10 --num_generations 8
--per_device_train_batch_size 16 --gradient_accumulation_steps 1 --max_completion_length 30
--learning_rate 5e-3 --lr_scheduler_type constant --warmup_ratio 0 --gradient_checkpointing false
--logging_steps 1 --output_dir out --save_strategy no --eval_strategy no --report_to none
--use_hf true --dataset_num_proc 1 --split_dataset_ratio 0
"""


def test_training_raises_the_reward(tmp_path: Path) -> None:
    write_describer(tmp_path / "model")
    (tmp_path / "plugin.py").write_text(PLUGIN)
    row = json.dumps({"messages": PROMPT, "reference": REFERENCE})
    (tmp_path / "rows.jsonl").write_text(f"{row}\n" * 64)
    swift = Path(sys.executable).with_name("swift")
    run = subprocess.run(
        [swift, "rlhf", *FLAGS.split()], cwd=tmp_path, text=True, capture_output=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert "completions get the mean of their group" in run.stdout + run.stderr, "robots"
    [log] = tmp_path.glob("out/*/logging.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [each for each in lines if "reward_std" in each]
    print([round(float(each["reward"]), 3) for each in steps], steps[0])
    assert len(steps) == 10
    assert float(steps[0]["grad_norm"]) > 0
    assert float(steps[-1]["reward"]) > float(steps[0]["reward"]) + 0.1


def _with_zero(columns: Any) -> Any:
    import torch

    columns = columns.clone()
    columns[FAILED, 0] = torch.nan
    return columns
