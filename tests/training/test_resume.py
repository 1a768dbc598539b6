"""Checkpoints: the newest that is whole, for as many processes, with all of a model's weights."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainingArguments
from trl import ModelConfig, SFTConfig, TrlParser

from posh_reward.errors import ConfigError
from posh_reward.training.resume import (
    RefuseLostWeights,
    find_deepspeed_mismatch,
    find_lost_weights,
    last_checkpoint,
    load_weights,
)
from posh_reward.training.run_settings import Processes
from recipes import sft


def checkpoint(run: Path, step: int, *, optimizer: bool = True) -> Path:
    """Files that the trainer writes, in its order."""
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    save_file({"weight": torch.ones(100)}, folder / "model.safetensors")
    if optimizer:
        torch.save({"step": step}, folder / "optimizer.pt")
        torch.save({"last_epoch": step}, folder / "scheduler.pt")
        torch.save({"cpu": torch.random.get_rng_state()}, folder / "rng_state_0.pth")
    (folder / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
    return folder


def arguments(run: Path, resume: str = "latest") -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(run), use_cpu=True, report_to="none", resume_from_checkpoint=resume
    )


def test_the_newest_is_by_number_not_by_name(tmp_path: Path) -> None:
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    (tmp_path / "checkpoint-best").mkdir()
    assert last_checkpoint(arguments(tmp_path)) == str(newest)


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.pt", "rng_state_0.pth", "trainer_state.json"]
)
def test_one_that_was_cut_short_is_passed_over(
    tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    older, torn = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    whole = (torn / file).read_bytes()
    (torn / file).write_bytes(whole[: len(whole) // 2])
    assert last_checkpoint(arguments(tmp_path)) == str(older)
    assert f"checkpoint-2 was cut short ({file})" in caplog.text


@pytest.mark.parametrize("file", ["model.safetensors", "scheduler.pt"])
def test_one_that_lacks_a_file_is_passed_over(
    tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the scheduler transformers would begin with a new optimizer, and not say so."""
    older, partial = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    (partial / file).unlink()
    assert last_checkpoint(arguments(tmp_path)) == str(older)
    assert f"checkpoint-2 has no {file}: not resumed from" in caplog.text


def test_one_without_an_optimizer_is_refused(tmp_path: Path) -> None:
    bare = checkpoint(tmp_path, 1, optimizer=False)
    for resume in ("latest", str(bare)):
        with pytest.raises(ConfigError, match=r"checkpoint-1 has no optimizer.*_model: false"):
            last_checkpoint(arguments(tmp_path, resume))


def test_one_that_is_named_has_to_be_whole(tmp_path: Path) -> None:
    whole, torn = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    (torn / "optimizer.pt").write_bytes(b"PK")
    assert last_checkpoint(arguments(tmp_path, str(whole))) == str(whole)
    for resume, problem in (
        ("true", "is 'true', but no folder"),
        (str(tmp_path), r"was cut short \(trainer_state.json\)"),
        (str(torn), r"checkpoint-2 was cut short \(optimizer.pt\)"),
    ):
        with pytest.raises(ConfigError, match=f"{problem}.*, or latest"):
            last_checkpoint(arguments(tmp_path, resume))


def test_an_older_one_with_an_optimizer_is_resumed_from(tmp_path: Path) -> None:
    older = checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2, optimizer=False)
    assert last_checkpoint(arguments(tmp_path)) == str(older)


STAGE_3 = [
    f"{name}_mp_rank_00_{kind}_states.pt"
    for rank in (0, 1)
    for name, kind in ((f"zero_pp_rank_{rank}", "model"), (f"bf16_zero_pp_rank_{rank}", "optim"))
]
STAGE_2 = ["mp_rank_00_model_states.pt", *(name for name in STAGE_3 if "optim" in name)]


def saved_by_two(folder: Path, files: list[str]) -> Path:
    (folder / "global_step3").mkdir()
    (folder / "latest").write_text("global_step3")
    for name in files:
        (folder / "global_step3" / name).touch()
    return folder


@pytest.mark.parametrize(("stage", "files"), [(2, STAGE_2), (3, STAGE_3)])
def test_a_checkpoint_fits_the_processes_that_saved_it(
    tmp_path: Path, stage: int, files: list[str]
) -> None:
    folder = saved_by_two(tmp_path, files)
    assert find_deepspeed_mismatch(folder, Processes(2, zero_stage=stage)) is None
    fewer = find_deepspeed_mismatch(folder, Processes(1, zero_stage=stage))
    more = find_deepspeed_mismatch(folder, Processes(3, zero_stage=stage))
    assert fewer is not None
    assert more is not None
    assert "also has zero_pp_rank_1_" in fewer
    assert "lacks zero_pp_rank_2_" in more
    (folder / "latest_universal").write_text("global_step3_universal")
    assert find_deepspeed_mismatch(folder, Processes(3, zero_stage=stage)) is None


@pytest.mark.parametrize("name", STAGE_3)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = saved_by_two(tmp_path, [each for each in STAGE_3 if each != name])
    complaint = find_deepspeed_mismatch(folder, Processes(2, zero_stage=3))
    assert complaint is not None
    assert f"lacks {name.removeprefix('bf16_')}" in complaint


ROOT = Path(__file__).resolve().parents[2]


class Begun(TrainerCallback):  # type: ignore[misc]
    """Notes which of a checkpoint's tensors the model lacked when training began."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.lost: list[str] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.lost = find_lost_weights(kwargs["model"], self.checkpoint)


def trainer(tiny: Path, output: Path, *flags: str) -> Any:
    """An SFT trainer as a user would make one, with a checkpoint after every step."""
    given = [
        "--config", str(ROOT / "configs/smoke/sft.yaml"), "--model_name_or_path", str(tiny),
        "--output_dir", str(output), "--dataset_name", "scenes:train=8:heldout=4",
        "--per_device_train_batch_size", "4", "--eval_strategy", "no", "--warmup_steps", "0",
        "--save_strategy", "steps", "--save_steps", "1", "--max_steps", "1", *flags,
    ]  # fmt: skip
    parser = TrlParser((sft.SFTScriptArguments, SFTConfig, ModelConfig))
    made = sft.make_trainer(*parser.parse_args_and_config(given))
    assert made.pop_callback(RefuseLostWeights) is not None, "the recipe has it"
    return made


@pytest.fixture(scope="module")
def output(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoint-1."""
    folder = tmp_path_factory.mktemp("run")
    trainer(tiny, folder).train()
    return folder


def test_a_run_without_its_checkpoints_weights_is_refused(tiny: Path, output: Path) -> None:
    checkpoint = output / "checkpoint-1"
    again = trainer(tiny, output, "--max_steps", "2")
    again.add_callback(RefuseLostWeights())
    with pytest.raises(ConfigError, match=r"checkpoint-1 without its weights.*load_weights"):
        again.train(resume_from_checkpoint=str(checkpoint))


def test_load_weights_is_the_remedy(tiny: Path, output: Path) -> None:
    checkpoint = output / "checkpoint-1"
    again, begun = trainer(tiny, output, "--max_steps", "2"), Begun(checkpoint)
    again.add_callback(RefuseLostWeights())
    again.add_callback(begun)
    load_weights(again, str(checkpoint))
    again.train(resume_from_checkpoint=str(checkpoint))
    assert (again.state.global_step, begun.lost) == (2, [])


def drop_a_tensor(file: Path) -> str:
    """Save a file again without one of its tensors; return its name."""
    tensors = load_file(file)
    name = next(name for name in tensors if "q_proj" in name)
    del tensors[name]
    save_file(tensors, file, metadata={"format": "pt"})
    return name.removeprefix("model.")


def test_a_checkpoint_without_one_tensor_is_refused(
    tiny: Path, output: Path, tmp_path: Path
) -> None:
    """transformers would fill the gap with random values."""
    checkpoint = tmp_path / "checkpoint-1"
    shutil.copytree(output / "checkpoint-1", checkpoint)
    name = drop_a_tensor(checkpoint / "model.safetensors").rpartition("layers.")[2]
    with pytest.raises(ConfigError, match=f"lacks 1 of the model's tensors.*{name}.*another"):
        load_weights(trainer(tiny, output, "--max_steps", "2"), str(checkpoint))
