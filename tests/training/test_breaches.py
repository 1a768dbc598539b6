"""The shipped recipes on two ranks, with what would make their end a lie: what the user sees.

`pytest -rP` prints it. With `--run-deepspeed`, also under ZeRO-3 (test_zero3.py has how).
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from posh_reward.run_record import read_run
from recipes.demo import tiny_qwen
from tests.processes import ROOT
from tests.training.rank_environment import build_wide_model, rank_environment
from tests.training.test_saving import unlike

BATCH = {"sft": "4", "dapo": "8"}
SAVES = ("--save_strategy", "steps", "--save_steps", "1")
RISES = (
    # The first step has a rate of 0; with the others the loss rises.
    "--learning_rate", "10", "--lr_scheduler_type", "constant_with_warmup", "--warmup_steps", "1",
    "--max_grad_norm", "0", "--max_steps", "3", "--eval_strategy", "steps", "--eval_steps", "1",
)  # fmt: skip
LOWEST = ("--metric_for_best_model", "eval_right_loss", "--greater_is_better", "false")
CREDIT = ("--span_credit", "0.5")


@dataclass(frozen=True)
class Breach:
    """A run that must not end well, and what it says."""

    recipe: str
    says: str
    flags: tuple[str, ...] = ()
    fault: str = "none"  # of breach.py
    under: tuple[str, ...] = ("gloo", "zero3")


BREACHES = {
    "saves what never existed": Breach(
        "sft", r"the weights of checkpoint-2 \(\w+\), but has other", SAVES, "averaged"
    ),
    "loads its best by name": Breach(
        "sft", r"said to be checkpoint-1 without",
        (*SAVES, *RISES, *LOWEST, "--load_best_model_at_end", "true"), "loaded_by_name", ("gloo",),
    ),
    "has no masters, sft": Breach(
        "sft", "no float32 copies would be kept", ("--dtype", "bfloat16"), under=("gloo",)
    ),
    "has no masters, dapo": Breach(
        "dapo", "no float32 copies would be kept", ("--dtype", "bfloat16"), under=("gloo",)
    ),
    "loses its updates": Breach(
        "sft", "updates do not reach the weights", SAVES, "lost_updates", ("gloo",)
    ),
    "cuts all completions": Breach(
        "dapo", "all completions of the last 10 steps were cut",
        ("--max_completion_length", "1", "--max_steps", "12"),
    ),
    "has too few images": Breach(
        "dapo", "the training split has 1 rows", ("--dataset_name", "scenes:train=1:heldout=2"),
    ),
    "credit has no effect": Breach(
        "dapo", "importance_sampling_level", (*CREDIT, "--importance_sampling_level", "sequence")
    ),
    "credit has another mean": Breach(
        "dapo", "top_entropy_quantile", (*CREDIT, "--top_entropy_quantile", "0.5")
    ),
    "credit has another unit": Breach(
        "dapo", "scale_rewards", (*CREDIT, "--scale_rewards", "none")
    ),
    "refills what is not sampled": Breach(
        "dapo", "refill and min_spread have no effect with oversample 1", ("--refill", "true")
    ),
}  # fmt: skip


class Launcher:
    """Starts a recipe on two ranks, over gloo or under ZeRO-3."""

    def __init__(self, how: str, folder: Path, python: str = sys.executable) -> None:
        self.how, self.folder, self.python = how, folder, python
        self.environment = rank_environment(folder)
        if how == "zero3":
            build_wide_model(python, folder / "tiny", self.environment)
        else:
            tiny_qwen.build(folder / "tiny", warm_up_steps=0, pretrain_steps=0)

    def run(
        self, recipe: str, output: Path, *flags: str, fault: str = "none"
    ) -> subprocess.CompletedProcess[str]:
        config = {"gloo": "cpu_2", "zero3": "zero3_8gpu"}[self.how]
        of_zero3 = ["--use_cpu", "false", "--bf16", "true"] if self.how == "zero3" else []
        command = [
            self.python, "-m", "accelerate.commands.launch",
            "--config_file", f"configs/accelerate/{config}.yaml", "--num_processes", "2",
            "--main_process_port", "0", "tests/training/breach.py", fault, recipe,
            "--config", f"configs/smoke/{recipe}.yaml", "--output_dir", str(output),
            "--model_name_or_path", str(self.folder / "tiny"), "--eval_strategy", "no",
            "--dataset_name", "scenes:train=16:heldout=4", "--max_steps", "2",
            "--per_device_train_batch_size", BATCH[recipe], "--logging_steps", "1", *of_zero3,
            *(["--max_completion_length", "16"] if recipe == "dapo" else []), *flags,
        ]  # fmt: skip
        environment = self.environment | {"POSH_STATUS_FILE": str(output.with_suffix(".status"))}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=480,
            check=False,
        )  # fmt: skip

    def train(self, recipe: str, output: Path, *flags: str, fault: str = "none") -> Path:
        done = self.run(recipe, output, *flags, fault=fault)
        assert done.returncode == 0, done.stderr[-6000:]
        return output


HOW = [
    pytest.param("gloo", marks=pytest.mark.slow),
    pytest.param("zero3", marks=pytest.mark.deepspeed),
]


@pytest.fixture(scope="module", params=HOW)
def launcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    python = sys.executable
    if request.param == "zero3":
        python = request.getfixturevalue("deepspeed_python")
    return Launcher(request.param, tmp_path_factory.mktemp("ranks"), python)


@pytest.mark.parametrize("name", BREACHES)
def test_it_ends_with_the_reason(launcher: Launcher, tmp_path: Path, name: str) -> None:
    breach = BREACHES[name]
    if launcher.how not in breach.under:
        pytest.skip("cannot be, or cannot be injected, under ZeRO-3")
    output = tmp_path / "run"
    done = launcher.run(breach.recipe, output, *breach.flags, fault=breach.fault)
    said = [line for line in done.stderr.splitlines() if line.startswith("breach.py")]
    print(f"{launcher.how}, {name}: status {done.returncode}\n" + "\n".join(said))
    assert done.returncode != 0, done.stdout[-3000:]
    assert any(re.search(breach.says, line) for line in said), done.stderr[-6000:]
    record = read_run(output) if output.is_dir() else None
    assert record is None or record.state != "finished"
    assert not (output / "model.safetensors").exists() or breach.fault == "averaged"


# Runs that once broke a law, and end well.


@pytest.mark.parametrize("best", ["true", "false"], ids=["loaded", "not loaded"])
def test_the_folder_has_its_best_checkpoint(launcher: Launcher, tmp_path: Path, best: str) -> None:
    if (launcher.how, best) == ("zero3", "true"):
        pytest.skip("DeepSpeed loads its own")
    flags = (*SAVES, *RISES, *LOWEST, "--load_best_model_at_end", best)
    output = launcher.train("sft", tmp_path / "run", *flags)
    state = json.loads((output / "trainer_state.json").read_text(encoding="utf-8"))
    losses = {
        line["step"]: line["eval_right_loss"]
        for line in state["log_history"]
        if "eval_right_loss" in line
    }
    lowest = min(losses, key=lambda step: losses[step])
    assert lowest != 3
    assert unlike(output, output / f"checkpoint-{lowest}") == []
    assert unlike(output, output / "checkpoint-3") != []


def test_judged_completions_count_whatever_the_last_call_was(
    launcher: Launcher, tmp_path: Path
) -> None:
    output = launcher.train(
        "dapo", tmp_path / "run", "--steps_per_generation", "1", "--learning_rate", "1e-2",
        "--gradient_accumulation_steps", "4", "--mask_truncated_completions", "false",
        "--warmup_steps", "0", fault="unjudged_last_call",
    )  # fmt: skip
    record = read_run(output)
    assert record is not None
    figures = record.figures
    assert (figures["judged"], figures["failed"]) == (2 * 2 * 3 * 8, 2 * 2 * 8)
    assert (figures["updates"], figures["skipped"]) == (2, 0)
    assert figures["moved"] > 0.9
    assert unlike(output, launcher.folder / "tiny") != []


def test_dapo_starts_from_the_adapters_of_sft(launcher: Launcher, tmp_path: Path) -> None:
    lora = ("--use_peft", "--lora_target_modules", "q_proj", "v_proj", "--learning_rate", "1e-2")
    adapters = launcher.train("sft", tmp_path / "sft", *lora, *SAVES)
    merged = launcher.train(
        "dapo", tmp_path / "dapo", "--mask_truncated_completions", "false",
        "--model_name_or_path", str(adapters), "--learning_rate", "1e-2", "--warmup_steps", "0",
    )  # fmt: skip
    record = read_run(merged)
    assert record is not None
    assert record.model == str(adapters)
    assert record.figures["moved"] > 0.9
