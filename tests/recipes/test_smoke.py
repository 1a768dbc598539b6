"""Two steps of each recipe on a random tiny model: no GPU, no hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posh_reward.training.generation import Describing, generate
from recipes import dapo_posh, sft, tiny_qwen

ROOT = Path(__file__).resolve().parents[2]
SCENES = "scenes:train=8:heldout=4"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_qwen.build(folder, warm_up_steps=0, pretrain_steps=1)
    return folder


def flags(stage: str, model: Path, output: Path, *more: str) -> list[str]:
    config = str(ROOT / "configs" / "smoke" / f"{stage}.yaml")
    batch = "16" if stage == "dapo" else "4"
    return [
        "--config", config, "--model_name_or_path", str(model), "--output_dir", str(output),
        "--dataset_name", SCENES, "--per_device_train_batch_size", batch, "--max_steps", "2", *more,
    ]  # fmt: skip


def test_sft_watches_grounding_and_saves_a_model(tiny: Path, tmp_path: Path) -> None:
    trainer = sft.main(flags("sft", tiny, tmp_path, "--eval_steps", "2", "--logging_steps", "1"))
    logged = {key for line in trainer.state.log_history for key in line}
    assert {"loss", "eval_right_loss", "eval_shuffled_loss", "eval_grounding_gap"} <= logged
    assert (tmp_path / "model.safetensors").is_file()
    assert (tmp_path / "tokenizer.json").is_file()


def test_sft_stops_at_the_gap(tiny: Path, tmp_path: Path) -> None:
    more = ("--eval_steps", "1", "--stop_at_gap", "-1")
    assert sft.main(flags("sft", tiny, tmp_path, *more)).state.global_step == 1


def test_dapo_logs_posh_saves_and_resumes(tiny: Path, tmp_path: Path) -> None:
    more = ("--max_completion_length", "16", "--save_strategy", "steps", "--save_steps", "1")
    trainer = dapo_posh.main(flags("dapo", tiny, tmp_path, *more))
    assert trainer.state.global_step == 2
    logged = {key for line in trainer.state.log_history for key in line}
    assert {"reward", "posh/precision", "posh/recall", "posh/f1"} <= logged
    assert all(0 < line["judging_share"] < 1 for line in trainer.state.log_history[:2])
    pages = {path.name for path in (tmp_path / "pages").iterdir()}
    assert pages == {"step-000000.html", "run.html"}
    again = ("--max_steps", "3", "--resume_from_checkpoint", "latest")
    resumed = dapo_posh.main(flags("dapo", tiny, tmp_path, *more, *again))
    assert resumed.state.global_step == 3
    steps = [line["step"] for line in resumed.state.log_history if "reward" in line]
    assert steps == [1, 2, 3]


def test_a_finished_run_says_so_and_is_not_trained_again(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = flags("sft", tiny, tmp_path, "--eval_strategy", "no")
    sft.main(given)
    saved = (tmp_path / "model.safetensors").stat().st_mtime_ns
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        sft.main(given)
    assert ended.value.code == 0
    assert "is finished, at step 2" in capsys.readouterr().out
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == saved


def test_a_resumed_run_has_the_weights_of_its_checkpoint(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--save_strategy", "steps", "--save_steps", "2", "--resume_from_checkpoint", "latest")
    once = sft.main(flags("sft", tiny, tmp_path, *more))
    (tmp_path / "trainer_state.json").unlink()  # as if killed after its last checkpoint
    again = sft.main(flags("sft", tiny, tmp_path, *more))
    assert "nothing was left to train" in capsys.readouterr().out
    trained = once.model.state_dict()
    assert all(torch.equal(trained[name], w) for name, w in again.model.state_dict().items())
    untrained = type(once.model).from_pretrained(tiny).state_dict()
    assert not any(torch.equal(trained[name], w) for name, w in untrained.items() if "proj" in name)


def test_generate_writes_rows_and_resumes(tiny: Path, tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    asked = {"dataset_name": SCENES, "name": "tiny", "max_new_tokens": 4, "batch_size": 2}
    assert generate(Describing(str(tiny), output, limit=2, **asked)) == 2  # type: ignore[arg-type]
    assert generate(Describing(str(tiny), output, **asked)) == 2  # type: ignore[arg-type]
    assert generate(Describing(str(tiny), output, **asked)) == 0  # type: ignore[arg-type]
    other = Describing(str(tiny), output, shuffle_images=True, **asked)  # type: ignore[arg-type]
    assert generate(other) == 4
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["image"] for row in rows] == [0, 1, 2, 3, 1, 2, 3, 0]
    assert [row["model"] for row in rows] == ["tiny"] * 4 + ["tiny (other pictures)"] * 4
    assert [row["reference"] for row in rows[:4]] == [row["reference"] for row in rows[4:]]


@pytest.mark.slow
def test_the_warm_up_teaches_the_vision_tower_to_see() -> None:
    tokenizer = tiny_qwen.make_tokenizer()
    model = tiny_qwen.make_model(tokenizer)
    processor = tiny_qwen.make_processor(tokenizer)
    accuracy = tiny_qwen.warm_up(model, processor, steps=20, batch_size=32)
    assert accuracy["color"] > 0.4  # always the commonest, none in an empty slot: 0.25


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_two_processes_over_gloo(tiny: Path, tmp_path: Path, launcher: str) -> None:
    start = {
        "torchrun": ["torch.distributed.run", "--nproc_per_node", "2"],
        "accelerate": [
            "accelerate.commands.launch", "--config_file", "configs/accelerate/cpu_2.yaml",
        ],
    }[launcher]  # fmt: skip
    command = [sys.executable, "-m", *start, "recipes/dapo_posh.py"]
    done = subprocess.run(
        [*command, *flags("dapo", tiny, tmp_path, "--max_completion_length", "16")],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    state = json.loads((tmp_path / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["global_step"] == 2
    # Each process generated its own 16 completions: 4 pictures a step of the 8 there are.
    assert state["log_history"][0]["epoch"] == 0.5
