"""Two steps of each recipe on a random tiny model: no GPU, no hub."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from posh_reward.errors import ConfigError, MissingDependencyError
from posh_reward.training.generation import GenerationSettings, generate
from recipes import dapo_posh, sft
from recipes import generate as recipe
from recipes.demo import tiny_qwen

ROOT = Path(__file__).resolve().parents[2]
SCENES = "scenes:train=8:heldout=4"
UNMASKED = ("--max_completion_length", "16", "--mask_truncated_completions", "false")
"""For an untrained model, which never ends its text: masked, none would be trained on."""


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


def test_dapo_logs_posh_saves_and_resumes(tiny: Path, tmp_path: Path) -> None:
    more = (*UNMASKED, "--save_strategy", "steps", "--save_steps", "1")
    trainer = dapo_posh.main(flags("dapo", tiny, tmp_path, *more))
    assert trainer.state.global_step == 2
    logged = {key for line in trainer.state.log_history for key in line}
    assert {"reward", "posh/precision", "posh/recall", "posh/f1"} <= logged
    assert all(0 < line["judging_share"] < 1 for line in trainer.state.log_history[:2])
    again = ("--max_steps", "3", "--resume_from_checkpoint", "latest")
    resumed = dapo_posh.main(flags("dapo", tiny, tmp_path, *more, *again))
    assert resumed.state.global_step == 3
    steps = [line["step"] for line in resumed.state.log_history if "reward" in line]
    assert steps == [1, 2, 3]


def test_a_resumed_run_has_the_weights_of_its_checkpoint(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--save_strategy", "steps", "--save_steps", "2", "--resume_from_checkpoint", "latest")
    once = sft.main(flags("sft", tiny, tmp_path, *more))
    (tmp_path / "trainer_state.json").unlink()  # as if killed after its last checkpoint
    again = sft.main(flags("sft", tiny, tmp_path, *more))
    assert "nothing left to train" in capsys.readouterr().out
    trained = once.model.state_dict()
    assert all(torch.equal(trained[name], w) for name, w in again.model.state_dict().items())
    untrained = type(once.model).from_pretrained(tiny).state_dict()
    assert not any(torch.equal(trained[name], w) for name, w in untrained.items() if "proj" in name)


def described(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_generate_writes_rows_and_resumes(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # a bar, not a line every 30 s
    how = GenerationSettings(
        {"tiny": str(tiny)}, tmp_path / "rows.jsonl", SCENES, max_new_tokens=4, batch=2
    )
    assert generate(replace(how, limit=2)) == {"tiny": 2}
    assert generate(how) == {"tiny": 2}
    assert generate(how) == {"tiny": 0}
    assert generate(replace(how, shuffle_images=True)) == {"tiny (other images)": 4}
    assert generate(
        replace(how, models={"a\x1b[2J": str(tiny)}, limit=1, output=tmp_path / "b.jsonl")
    )
    assert "a\\x1b[2J:   0%" in capsys.readouterr().err
    rows = described(how.output)
    assert [row["image"] for row in rows] == [0, 1, 2, 3, 1, 2, 3, 0]
    assert [row["model"] for row in rows] == ["tiny"] * 4 + ["tiny (other images)"] * 4
    assert [row["reference"] for row in rows[:4]] == [row["reference"] for row in rows[4:]]


def test_models_are_compared_on_equal_images(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One would see 9408 pixels and the other 3136, of images of 168 x 56."""
    small = tmp_path / "small"
    shutil.copytree(tiny, small)
    file = small / "processor_config.json"
    settings = json.loads(file.read_text())
    settings["image_processor"]["size"] = {"shortest_edge": 3136, "longest_edge": 3136}
    file.write_text(json.dumps(settings))
    output = tmp_path / "rows.jsonl"
    flags = ["--output", str(output), "--dataset", SCENES, "--max-new-tokens", "2"]
    models = ["--models", f"base={tiny}", f"ours={small}"]
    recipe.main([*models, *flags])
    assert "all use 3,136 now" in caplog.text
    assert {row["max_pixels"] for row in described(output)} == {3136}
    recipe.main(["--models", f"more={tiny}", *flags, "--max-pixels", "9408"])
    assert "not described alike" in caplog.text
    assert "max pixels: base 3136, ours 3136, more 9408" in caplog.text


def test_one_command_describes_with_every_model_and_passes_over_a_broken_one(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    output = tmp_path / "rows.jsonl"
    given = [str(tiny), f"{tmp_path / 'broken'}", f"again={tiny}"]
    flags = ["--output", str(output), "--dataset", SCENES, "--max-new-tokens", "4"]
    with pytest.raises(ConfigError, match=r"1 of 3 models could not be loaded .*: broken; the oth"):
        recipe.main(["--models", *given, *flags])
    assert [row["model"] for row in described(output)] == [tiny.name] * 4 + ["again"] * 4
    texts = [row["generation"] for row in described(output)]
    assert texts[:4] == texts[4:]
    recipe.main(["--models", given[0], given[2], *flags])
    assert "0 new descriptions by 'again'" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it were not installed
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[vllm\]"):
        recipe.main(["--models", f"fast={tiny}", "--engine", "vllm", *flags])


def test_an_interrupted_recipe_keeps_what_was_written(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rows.jsonl"

    def interrupt_at_the_first_row() -> None:
        while not output.exists() or not output.stat().st_size:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    asked = ["--models", str(tiny), "--output", str(output), "--batch", "1"]
    asked += ["--max-new-tokens", "32"]
    threading.Thread(target=interrupt_at_the_first_row, daemon=True).start()
    with pytest.raises(SystemExit) as ended:
        recipe.main([*asked, "--dataset", "scenes:heldout=24"])
    assert ended.value.code == 130
    assert "keeps the rows so far" in capsys.readouterr().err
    count = len(described(output))
    assert 0 < count < 24
    recipe.main([*asked, "--dataset", f"scenes:heldout={count + 1}"])
    assert "1 new descriptions" in capsys.readouterr().out


@pytest.mark.slow
def test_the_warm_up_teaches_the_vision_tower_to_see() -> None:
    tokenizer = tiny_qwen.make_tokenizer()
    model = tiny_qwen.make_model(tokenizer)
    processor = tiny_qwen.make_processor(tokenizer)
    accuracy = tiny_qwen.warm_up(model, processor, steps=20, batch_size=32)
    assert accuracy["color"] > 0.4  # always the commonest, none in an empty slot: 0.25


@pytest.mark.slow
def test_accelerate_launches_two_processes(tiny: Path, tmp_path: Path) -> None:
    """torchrun: test_ranks.py."""
    launcher = ["accelerate.commands.launch", "--config_file", "configs/accelerate/cpu_2.yaml"]
    command = [sys.executable, "-m", *launcher, "recipes/dapo_posh.py"]
    done = subprocess.run(
        [*command, *flags("dapo", tiny, tmp_path, *UNMASKED)],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    state = json.loads((tmp_path / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["global_step"] == 2
    # Each process generated its own 16 completions: 4 images a step of the 8 there are.
    assert state["log_history"][0]["epoch"] == 0.5


@pytest.mark.slow
def test_the_recipe_trains_on_two_rewards_and_evaluates(tmp_path: Path) -> None:
    tiny, output = tmp_path / "tiny", tmp_path / "dapo"
    tiny_qwen.build(tiny, warm_up_steps=0, pretrain_steps=1)
    more = ("--objective", "separate", "--precision_weight", "2", "--max_completion_length", "16",
            "--eval_strategy", "steps", "--eval_steps", "1", "--mask_truncated_completions", "0",
            "--num_generations_eval", "2", "--per_device_eval_batch_size", "4")  # fmt: skip
    trainer = dapo_posh.main(flags("dapo", tiny, output, *more))
    assert trainer.multi_objective_aggregation == "normalize_then_sum"
    assert trainer.reward_weights.tolist() == [2.0, 1.0]
    steps = [line for line in trainer.state.log_history if "reward" in line]
    evaluations = [line for line in trainer.state.log_history if "eval_reward" in line]
    assert (len(steps), len(evaluations)) == (2, 2)
    for line in steps:
        precision, recall = (line[f"rewards/posh_{axis}_reward/mean"] for axis in
                             ("precision", "recall"))  # fmt: skip
        assert line["reward"] == pytest.approx(2 * precision + recall, abs=1e-4)
        assert {"posh/precision", "posh/words", "posh/repeated_share"} <= line.keys()
    assert "eval_posh/recall" in evaluations[0]
