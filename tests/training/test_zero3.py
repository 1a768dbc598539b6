"""Real DeepSpeed ZeRO-3 runs, two ranks on the CPU: 10 to 20 minutes.

Runs are stopped and go on; their models equal plain ones; and faults of one rank end both.

DeepSpeed lives in an environment of its own, which ``$POSH_DEEPSPEED_PYTHON`` names::

    python3 -m tools.deepspeed_env .venv-deepspeed
    POSH_DEEPSPEED_PYTHON=.venv-deepspeed/bin/python \
        pytest --run-deepspeed tests/training/test_zero3.py
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posh_reward.training.stopping import TRY_AGAIN
from tests.processes import soon, start
from tests.training.rank_environment import build_wide_model, rank_environment

pytestmark = pytest.mark.deepspeed

SCRIPT = "tests/training/launch_zero3.py"
STEPS = 8
"""Of a run; it is told to stop after the second."""
FLAGS = [
    "--max_steps", str(STEPS), "--logging_steps", "1", "--warmup_steps", "0",
    "--dataset_name", "scenes:train=16:heldout=4", "--eval_strategy", "no",
    "--use_cpu", "false", "--bf16", "true", "--resume_from_checkpoint", "latest",
    "--learning_rate", "1e-6",  # too small for bfloat16 alone
]  # fmt: skip
RUNS = {
    "sft": ["sft", "--per_device_train_batch_size", "4"],
    "dapo": [
        "dapo", "--per_device_train_batch_size", "8", "--max_completion_length", "8",
        "--mask_truncated_completions", "false",
    ],
    "lora": [
        "sft", "--per_device_train_batch_size", "4",
        "--use_peft", "--lora_target_modules", "q_proj", "v_proj",
    ],
    "begin-rounded": ["begin-rounded", "--per_device_train_batch_size", "4"],
    "dying": [
        "dying", "--per_device_train_batch_size", "8", "--max_completion_length", "8",
        "--mask_truncated_completions", "false", "--learning_rate", "1e-2",
        "--max_failed_calls", "3", "--save_strategy", "steps", "--save_steps", "1",
    ],
}  # fmt: skip
FAULTS = ["reward", "judge", "data", "generation", "prompts"]
KINDS = ["sft", "dapo", "lora"]
RUNS |= {fault: [fault, *RUNS["dapo"][1:]] for fault in FAULTS}
RUNS |= {f"begin-{kind}": [f"begin-{RUNS[kind][0]}", *RUNS[kind][1:]] for kind in KINDS}


class Launcher:
    """Starts runs on one model, which write to folders next to it."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.environment = rank_environment(folder)
        build_wide_model(python, folder / "tiny", self.environment)

    def log(self, output: Path) -> str:
        return output.with_suffix(".log").read_text()

    def status(self, output: Path) -> str:
        return output.with_suffix(".status").read_text()

    def start(self, kind: str, output: Path) -> subprocess.Popen[str]:
        recipe, *flags = RUNS[kind]
        config = "sft" if recipe.endswith(("sft", "rounded")) else "dapo"
        command = [
            self.python, "-m", "accelerate.commands.launch",
            "--config_file", "configs/accelerate/zero3_8gpu.yaml", "--num_processes", "2",
            "--main_process_port", "0", SCRIPT, recipe, "--config", f"configs/smoke/{config}.yaml",
            "--model_name_or_path", str(self.folder / "tiny"), "--output_dir", str(output),
            *FLAGS, *flags,
        ]  # fmt: skip
        environment = self.environment | {"POSH_STATUS_FILE": str(output.with_suffix(".status"))}
        with output.with_suffix(".log").open("wb") as log:
            return start(*command, env=environment, stdout=log, stderr=log)

    def end(self, process: subprocess.Popen[str]) -> int:
        try:
            return process.wait(480)
        except subprocess.TimeoutExpired:
            process.terminate()  # its ranks end within 30 seconds
            process.wait(60)
            raise

    def finish(self, kind: str, output: Path) -> None:
        assert self.end(self.start(kind, output)) == 0, self.log(output)[-6000:]


@pytest.fixture(scope="module")
def launcher(deepspeed_python: str, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return Launcher(deepspeed_python, tmp_path_factory.mktemp("zero3"))


def stop(launcher: Launcher, kind: str) -> Path:
    """The output of a run that SIGTERM has stopped; made once for each kind."""
    output = launcher.folder / f"{kind}-stopped"
    if output.exists():
        return output
    process = launcher.start(kind, output)
    assert soon(lambda: "step 2:" in launcher.log(output), 120), launcher.log(output)[-6000:]
    process.terminate()
    assert launcher.end(process) == 1, "whatever the ranks' own status is"
    assert launcher.status(output) == str(TRY_AGAIN)
    return output


def checkpoint_in(output: Path) -> Path:
    [checkpoint] = output.glob("checkpoint-*")
    return checkpoint


def weights(folder: Path) -> bytes:
    [file] = folder.glob("*model.safetensors")
    return file.read_bytes()


def losses(output: Path) -> dict[int, float]:
    state = json.loads((output / "trainer_state.json").read_text())
    return {line["step"]: line["loss"] for line in state["log_history"] if "loss" in line}


def moved(output: Path) -> list[float]:
    state = json.loads((output / "trainer_state.json").read_text())
    return [line["weights_moved"] for line in state["log_history"] if "loss" in line]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(launcher: Launcher, kind: str) -> None:
    expected = launcher.folder / f"{kind}-whole"
    launcher.finish(kind, expected)

    stopped = stop(launcher, kind)
    checkpoint = checkpoint_in(stopped)
    step = int(checkpoint.name.removeprefix("checkpoint-"))
    assert launcher.log(stopped).count(f"stopped after step {step} of {STEPS}") == 2, "both ranks"
    assert len(list(checkpoint.glob("global_step*/*_states.pt"))) == 4, "two files of each rank"

    after = launcher.folder / f"{kind}-resumed"
    shutil.copytree(stopped, after)
    launcher.finish(kind, after)
    assert f"step {step + 1}: loss" in launcher.log(after)
    assert f"step {step}: loss" not in launcher.log(after), "it began after the checkpoint"
    assert losses(after) == losses(expected)
    assert list(losses(expected)) == list(range(1, STEPS + 1))
    assert weights(after) == weights(expected)
    assert weights(after) != weights(checkpoint), "it has learned since"
    assert all(share > 0.9 for share in moved(expected)), "of DeepSpeed's float32 copies"


def difference(output: Path) -> dict[str, Any]:
    """Differences of a run's model from the plain one, on 1,000 tokens with an image."""
    said: dict[str, Any] = json.loads(Path(f"{output}.plain.json").read_text())
    print(output.name, said)
    assert said["tokens"] > 1000
    assert said["tensors"] > 60
    assert said["spread"] > 0.5, "the logits differ from each other"
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_bit_for_bit_the_plain_one(launcher: Launcher, kind: str) -> None:
    saved = stop(launcher, kind)
    begun, again = (launcher.folder / f"{kind}-{name}" for name in ("begun", "begun-again"))
    shutil.copytree(saved, again)
    for output in (begun, again):
        launcher.finish(f"begin-{kind}", output)
    for output in (begun, saved, again):
        said = difference(output)
        assert (said["max"], said["other"]) == (0, [])


def test_without_exact_frequencies_it_is_not(launcher: Launcher) -> None:
    output = launcher.folder / "rounded"
    launcher.finish("begin-rounded", output)
    said = difference(output)
    assert said["max"] > 0.1, "transformers does this itself now: training/rotary.py can go"
    assert len(said["other"]) == 4
    assert all(name.endswith("inv_freq") for name in said["other"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_rank_ends_both_with_its_reason(launcher: Launcher, fault: str) -> None:
    output = launcher.folder / fault
    process = launcher.start(fault, output)
    reason = "vLLM generates from other prompts" if fault == "prompts" else f"broken {fault}"
    assert soon(lambda: reason in launcher.log(output), 240), launcher.log(output)[-6000:]
    begun = time.monotonic()
    assert launcher.end(process) == 1
    seconds = time.monotonic() - begun
    print(f"{fault}: both ranks ended {seconds:.1f} s after the reason was printed")
    assert seconds < 45


def test_a_dead_judge_leaves_the_weights_as_they_were(launcher: Launcher) -> None:
    """DeepSpeed steps in its backward pass; Adam's momentum must not go on meanwhile."""
    output = launcher.folder / "dying"
    assert launcher.end(launcher.start("dying", output)) == 1
    assert "3 calls in a row; the last reason: gone" in launcher.log(output)
    first, second, last = (weights(output / f"checkpoint-{step}") for step in (1, 2, 5))
    assert first != second, "it learns as long as there is a judge"
    assert last == second


def without_states(checkpoint: Path) -> None:
    [states] = checkpoint.glob("global_step*")
    shutil.rmtree(states)


def without_a_rank(checkpoint: Path) -> None:
    [states] = checkpoint.glob("global_step*/zero_pp_rank_1_*_model_states.pt")
    states.unlink()


def without_tensors(checkpoint: Path) -> None:
    [file] = checkpoint.glob("*model.safetensors")
    file.unlink()


@pytest.mark.parametrize("kind", ["sft", "lora"])
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (without_states, "has no optimizer"),
        (without_a_rank, "lacks zero_pp_rank_1_mp_rank_00_model_states.pt"),
        (without_tensors, "has no weights: neither model.safetensors nor an adapter's"),
    ],
)
def test_a_checkpoint_that_lacks_weights_is_refused_on_both_ranks(
    launcher: Launcher, kind: str, damage: Callable[[Path], None], complaint: str
) -> None:
    output = launcher.folder / f"{kind}-{damage.__name__}"
    shutil.copytree(stop(launcher, kind), output)
    damage(checkpoint_in(output))
    assert launcher.end(launcher.start(kind, output)) == 1
    assert launcher.status(output) == "1", "not to be tried again"
    assert launcher.log(output).count(complaint) >= 2, launcher.log(output)[-6000:]
