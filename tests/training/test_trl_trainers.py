"""PoshReward in TRL's other trainers, and named on TRL's own command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from posh_reward import JudgeError, PoSh, PoshReward
from posh_reward.pages.run_page import read_run, run_page
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.texts import completion_text
from posh_reward.tables.completions import find_completions
from posh_reward.training.processors import load_processor
from posh_reward.training.stopping import StopWithCheckpoint
from posh_reward.types import Verdict
from recipes import dapo_posh
from recipes.demo import tiny_qwen

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_rloo_with_images(tiny: Path, tmp_path: Path) -> None:
    from trl import RLOOConfig, RLOOTrainer

    trainer = RLOOTrainer(
        model=str(tiny),
        reward_funcs=PoshReward(),
        args=RLOOConfig(
            output_dir=str(tmp_path / "rloo"), num_generations=4, per_device_train_batch_size=8,
            max_completion_length=12, max_steps=2, report_to="none", use_cpu=True, bf16=False,
            save_strategy="no", logging_steps=1, gradient_checkpointing=False,
        ),
        train_dataset=dapo_posh.prepare("scenes:train=8:heldout=4", "train"),
        processing_class=load_processor(str(tiny)),
    )  # fmt: skip
    trainer.train()
    steps = [line for line in trainer.state.log_history if "reward" in line]
    assert [line["step"] for line in steps] == [1, 2]
    assert all(0.2 <= line["rewards/posh/mean"] <= 1 for line in steps)


def test_what_trl_logs_of_completions_becomes_a_page(tiny: Path, tmp_path: Path) -> None:
    """TRL's own trainer; each generation serves two steps, and an evaluation stands between."""
    from trl import GRPOConfig, GRPOTrainer

    scenes = dapo_posh.prepare("scenes:train=8:heldout=4", "train")
    trainer = GRPOTrainer(
        model=str(tiny),
        reward_funcs=PoshReward().functions(brevity),
        args=GRPOConfig(
            output_dir=str(tmp_path / "run"), num_generations=4, per_device_train_batch_size=8,
            max_completion_length=12, max_steps=4, steps_per_generation=2, report_to="none",
            use_cpu=True, bf16=False, save_strategy="no", logging_steps=1, log_completions=True,
            num_completions_to_print=1, gradient_checkpointing=False,
            eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8,
        ),
        train_dataset=scenes, eval_dataset=scenes.select([0, 1]),
        processing_class=load_processor(str(tiny)),
    )  # fmt: skip
    trainer.train()
    contents = read_run(find_completions(tmp_path / "run"), None, 400)
    # Two generations of 16 completions, for steps 1 and 2, 3 and 4.
    assert (contents.steps, contents.completions) == ([1, 3], 32)
    assert contents.evaluated > 0
    assert {line.name for line in contents.shown.lines} <= set(scenes["uuid"])
    lines = {
        line["step"]: line for line in trainer.state.log_history if "rewards/posh/mean" in line
    }
    assert contents.figures["posh"][0] == pytest.approx(lines[1]["rewards/posh/mean"], abs=1e-4)
    assert contents.figures["cut"][0] == lines[1]["completions/clipped_ratio"]
    assert contents.figures["brevity"][0] == pytest.approx(lines[1]["rewards/brevity/mean"], 1e-4)
    assert contents.details.texts[0] == 16
    assert "brevity" in run_page(contents)


class MortalJudge(FakeJudge):
    """Answers a number of calls, then is gone for good."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def grade(self, requests: Any) -> list[Verdict]:
        self.calls -= 1
        if self.calls < 0:
            raise JudgeError("the engine is gone")
        return super().grade(requests)


def brevity(completions: list[Any], **_: Any) -> list[float]:
    """A reward function of a user's own, which needs no judge."""
    return [-float(len(completion_text(each))) for each in completions]


def test_a_dead_judge_leaves_the_weights_as_they_were(tiny: Path, tmp_path: Path) -> None:
    """Neither the other function nor Adam's momentum trains on; what is saved is unspoilt."""
    from safetensors.torch import load_file
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    judge = MortalJudge(10_000)
    reward = PoshReward(PoSh(judge), max_failed_calls=3)
    weights: dict[int, dict[str, torch.Tensor]] = {}

    class Killer(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            weights[state.global_step] = {
                name: value.detach().clone() for name, value in kwargs["model"].named_parameters()
            }
            if state.global_step == 2:
                judge.calls = 0

    trainer = GRPOTrainer(
        model=str(tiny),
        reward_funcs=reward.functions(brevity),
        callbacks=[StopWithCheckpoint(reward), Killer()],
        args=GRPOConfig(
            output_dir=str(tmp_path / "grpo"), num_generations=4, per_device_train_batch_size=8,
            max_completion_length=12, max_steps=20, report_to="none", use_cpu=True, bf16=False,
            logging_steps=1, gradient_checkpointing=False, learning_rate=1e-3, weight_decay=0.1,
        ),
        train_dataset=dapo_posh.prepare("scenes:train=8:heldout=4", "train"),
        processing_class=load_processor(str(tiny)),
    )  # fmt: skip
    with pytest.raises(JudgeError, match="3 calls in a row"):
        trainer.train()
    assert list(weights) == [1, 2, 3, 4, 5]

    def same(some: int, other: int) -> bool:
        return all(torch.equal(weights[some][name], weights[other][name]) for name in weights[some])

    assert not same(1, 2), "it learns as long as there is a judge"
    assert same(2, 3)
    assert same(2, 5)
    saved = load_file(tmp_path / "grpo" / "checkpoint-5" / "model.safetensors")
    names = {name: value for name, value in saved.items() if name in weights[2]}
    assert names
    assert all(torch.equal(value, weights[2][name]) for name, value in names.items())


def text_model(folder: Path) -> None:
    """A language model without images: TRL's command line loads the stock processor of a VLM,
    which needs torchvision."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = tiny_qwen.make_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_the_command_line_of_trl(tmp_path: Path, method: str) -> None:
    text_model(tmp_path / "model")
    (tmp_path / "data").mkdir()
    row = {"prompt": [{"role": "user", "content": "Describe it."}], "caption": "A red hat."}
    (tmp_path / "data" / "train.jsonl").write_text((json.dumps(row) + "\n") * 8)
    (tmp_path / "reward.yaml").write_text("reference_column: caption\n")
    command = [
        str(Path(sys.executable).with_name("trl")), method, "--reward_funcs",
        "posh_reward.reward.instance.posh", "--model_name_or_path", str(tmp_path / "model"),
        "--dataset_name", str(tmp_path / "data"), "--output_dir", str(tmp_path / "out"),
        "--max_steps", "1", "--num_generations", "4", "--per_device_train_batch_size", "8",
        "--max_completion_length", "8", "--use_cpu", "--bf16", "false", "--report_to", "none",
        "--logging_steps", "1", "--gradient_checkpointing", "false",
    ]  # fmt: skip
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true",
        "PYTHONPATH": str(ROOT), "POSH_REWARD_SETTINGS": str(tmp_path / "reward.yaml"),
    }  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rewards/posh/mean" in done.stdout + done.stderr
