"""A run resumes from its newest whole checkpoint."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from posh_reward.errors import ConfigError
from posh_reward.training.resume import last_checkpoint


def checkpoint(run: Path, step: int, *, optimizer: bool = True) -> Path:
    """What the trainer writes, in its order."""
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
