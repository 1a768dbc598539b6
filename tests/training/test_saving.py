"""A run ends with the model that it says: its best checkpoint, tensor by tensor."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from posh_reward import load_images, load_processor
from posh_reward.errors import ConfigError
from posh_reward.models.hub import weights_fingerprint
from posh_reward.run_record import read_run, write_run
from posh_reward.training import launch
from posh_reward.training.launch import parse_settings
from posh_reward.training.recording import data_fingerprint
from posh_reward.training.resume import RefuseLostWeights
from posh_reward.training.saving import compare_with_best
from recipes import dapo_posh, sft
from tests.training.breach import Averages

ROOT = Path(__file__).resolve().parents[2]
LAST = (
    "--config", str(ROOT / "configs/smoke/sft.yaml"), "--dataset_name", "scenes:train=8:heldout=4",
    "--per_device_train_batch_size", "4", "--max_steps", "3", "--eval_steps", "1",
    "--save_strategy", "steps", "--save_steps", "1", "--logging_steps", "1",
    # The first step has a rate of 0; with the others the loss rises.
    "--learning_rate", "10", "--lr_scheduler_type", "constant_with_warmup", "--warmup_steps", "1",
    "--max_grad_norm", "0",
)  # fmt: skip
BEST = (*LAST, "--metric_for_best_model", "eval_right_loss", "--greater_is_better", "false")
RESUME = ("--resume_from_checkpoint", "latest")
LORA = ("--use_peft", "--lora_target_modules", "q_proj", "v_proj")


def train(tiny: Path, output: Path, *more: str, flags: tuple[str, ...] = BEST) -> Any:
    folders = ["--model_name_or_path", str(tiny), "--output_dir", str(output)]
    return sft.main([*flags, *folders, *more])


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    [file] = folder.glob("*model.safetensors")
    return load_file(file)


def unlike(one: Path, other: Path) -> list[str]:
    first, second = tensors(one), tensors(other)
    assert first.keys() == second.keys()
    return [name for name, value in first.items() if not torch.equal(value, second[name])]


@pytest.mark.parametrize("more", [(), LORA, ("--load_best_model_at_end", "true")], ids=str)
def test_the_folder_has_the_best_checkpoint_and_not_the_last(
    tiny: Path, tmp_path: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = train(tiny, tmp_path, *more)
    losses = [e["eval_right_loss"] for e in trainer.state.log_history if "eval_right_loss" in e]
    best = f"checkpoint-{1 + losses.index(min(losses))}"
    assert best != "checkpoint-3"
    assert unlike(tmp_path, tmp_path / best) == []
    assert unlike(tmp_path, tmp_path / "checkpoint-3") != []
    assert f"has the weights of {best}, with the lowest eval_right" in capsys.readouterr().out
    assert (tmp_path / "config.json").is_file() != ("--use_peft" in more)
    assert load_processor(str(tmp_path)) is not None
    assert compare_with_best(tmp_path) is None
    [last], [saved] = (
        folder.glob("*model.safetensors") for folder in (tmp_path / "checkpoint-3", tmp_path)
    )
    shutil.copyfile(last, saved)  # as version 0.1 did
    assert f"names {best} as its best checkpoint, but has" in str(compare_with_best(tmp_path))
    ended = read_run(tmp_path)
    assert ended is not None
    write_run(tmp_path, replace(ended, state="running"))  # as if resumed, and killed
    assert "has not ended (3 of 3 steps)" in str(compare_with_best(tmp_path))
    assert compare_with_best(tmp_path / best) is None


def test_a_resumed_run_ends_with_it_too(tiny: Path, tmp_path: Path) -> None:
    train(tiny, tmp_path)
    (tmp_path / "trainer_state.json").unlink()  # as if killed while it was saved
    stale = tmp_path / "model-00001-of-00002.safetensors"
    shutil.copyfile(tmp_path / "model.safetensors", stale)
    shutil.rmtree(tmp_path / "checkpoint-3")
    train(tiny, tmp_path, *RESUME, "--load_best_model_at_end", "true")
    assert not stale.exists()
    assert unlike(tmp_path, tmp_path / "checkpoint-1") == []


def test_transformers_own_loading_is_refused(tiny: Path, tmp_path: Path) -> None:
    """Without the loading, the saved model is the last one with the head of the best."""
    script, args, model = parse_settings(
        sft.SETTINGS,
        [*BEST, "--model_name_or_path", str(tiny), "--output_dir", str(tmp_path),
         "--load_best_model_at_end", "true"],
    )  # fmt: skip
    trainer = sft.make_trainer(script, args, model)
    with pytest.raises(ConfigError, match=r"said to be checkpoint-1 without .*load_best_by"):
        trainer.train()
    trainer.pop_callback(RefuseLostWeights)
    trainer.save_model(str(tmp_path))
    assert len(unlike(tmp_path, tmp_path / "checkpoint-1")) > 50


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), LORA], ids=["all parameters", "adapters"])
def test_a_run_that_was_killed_after_its_last_checkpoint_saves_that(
    tiny: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    train(tiny, tmp_path, *more, flags=LAST)
    (tmp_path / "trainer_state.json").unlink()
    for file in tmp_path.glob("*model.safetensors"):
        file.unlink()
    train(tiny, tmp_path, *more, *RESUME, flags=LAST)
    assert unlike(tmp_path, tmp_path / "checkpoint-3") == []
    record = read_run(tmp_path)
    assert record is not None
    assert (record.steps, record.checkpoint) == (3, "checkpoint-3")


def test_a_script_of_ones_own_saves_the_best_then_too(tiny: Path, tmp_path: Path) -> None:
    """``load_best_model_at_end`` also holds for a run with nothing left to train."""
    train(tiny, tmp_path)
    script, args, model = parse_settings(
        sft.SETTINGS,
        [*BEST, *RESUME, "--model_name_or_path", str(tiny), "--output_dir", str(tmp_path),
         "--load_best_model_at_end", "true"],
    )  # fmt: skip
    trainer = sft.make_trainer(script, args, model)
    launch.train(trainer)
    trainer.save_model(str(tmp_path / "own"))
    assert unlike(tmp_path / "own", tmp_path / "checkpoint-1") == []


@pytest.mark.slow
@pytest.mark.parametrize("moves", [True, False], ids=["moved", "continued elsewhere"])
def test_the_best_checkpoint_is_found_from_another_folder(
    tiny: Path, tmp_path: Path, moves: bool
) -> None:
    first, then = tmp_path / "first", tmp_path / "then"
    train(tiny, first)
    if moves:
        shutil.copytree(first, then, ignore=shutil.ignore_patterns(".lock"))
        shutil.rmtree(first)
    source = then if moves else first
    more = ("--resume_from_checkpoint", str(source / "checkpoint-3"), "--max_steps", "4")
    train(tiny, then, *more)
    assert unlike(then, source / "checkpoint-1") == []
    record = read_run(then)
    assert record is not None
    assert record.steps == 4


def test_a_model_that_is_not_its_last_checkpoint_is_an_error(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trainer = sft.make_trainer

    def averaging(*settings: Any) -> Any:
        made = make_trainer(*settings)
        made.add_callback(Averages())
        return made

    with monkeypatch.context() as patched:
        patched.setattr(sft, "make_trainer", averaging)
        with pytest.raises(
            ConfigError, match=r"the weights of checkpoint-3 \(\w+\), but has other"
        ):
            train(tiny, tmp_path, flags=LAST)
    record = read_run(tmp_path)
    assert record is not None
    assert (record.state, record.weights) == ("stopped", None)
    assert "but has others" in str(record.reason)
    assert not (tmp_path / "trainer_state.json").exists()
    with pytest.raises(ConfigError, match="has checkpoints of an earlier run, up to checkpoint-3"):
        train(tiny, tmp_path, "--save_strategy", "no", flags=LAST)


def test_a_lost_best_checkpoint_is_an_error(tiny: Path, tmp_path: Path) -> None:
    train(tiny, tmp_path)
    (tmp_path / "trainer_state.json").unlink()
    next((tmp_path / "checkpoint-1").glob("*.safetensors")).unlink()
    with pytest.raises(ConfigError, match="checkpoint-1, has no weights to copy"):
        train(tiny, tmp_path, *RESUME)
    assert not (tmp_path / "trainer_state.json").exists()


@pytest.mark.parametrize(
    "more",
    [("--save_strategy", "no"), ("--save_steps", "2"), ("--save_strategy", "epoch")],
    ids=str,
)
def test_a_best_checkpoint_that_might_not_be_saved_is_refused(
    tiny: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match="not every evaluated checkpoint is saved"):
        train(tiny, tmp_path, *more)


def test_the_state_names_it(tiny: Path, tmp_path: Path) -> None:
    train(tiny, tmp_path)
    state = json.loads((tmp_path / "trainer_state.json").read_text(encoding="utf-8"))
    assert Path(state["best_model_checkpoint"]).name == "checkpoint-1"


def test_the_record_says_what_the_run_did(tiny: Path, tmp_path: Path) -> None:
    train(tiny, tmp_path)
    then = read_run(tmp_path / "checkpoint-2")
    assert then is not None
    assert (then.state, then.steps, then.steps_asked) == ("running", 2, 3)
    assert then.figures["updates"] == 2
    record = read_run(tmp_path)
    assert record is not None
    assert (record.state, record.steps, record.steps_asked) == ("finished", 3, 3)
    assert record.model_weights == weights_fingerprint(tiny)
    assert record.weights == weights_fingerprint(tmp_path / "checkpoint-1")
    assert record.checkpoint == "checkpoint-1"
    assert (record.data["name"], record.data["rows"]) == ("scenes:train=8:heldout=4", 8)
    assert record.held_out is not None
    assert (record.held_out["split"], record.held_out["rows"]) == ("validation", 4)
    assert record.settings["learning_rate"] == 10
    assert record.figures["moved"] > 0.9


def test_a_resumed_run_says_what_was_different_before(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny, tmp_path, flags=LAST)
    for steps, seed in (("4", "0"), ("5", "6")):
        other = ("--max_steps", steps, "--seed", seed, "--dataset_name", "scenes:train=9:heldout=4")
        train(tiny, tmp_path, *RESUME, *other, flags=LAST)
    assert "continues" in (said := capsys.readouterr().out)
    assert (
        "checkpoint-3, with other values than before of data, held_out, dataset_name, max_steps"
        in said
    )
    record = read_run(tmp_path)
    assert record is not None
    first, second = record.earlier
    assert (first["until"], first["data"]["rows"]) == (3, 8)
    assert (second["until"], second["settings"]) == (4, {"max_steps": 4, "seed": 0})
    assert record.data["rows"] == 9


def test_the_record_of_a_copied_checkpoint_does_not_replace_the_runs(
    tiny: Path, tmp_path: Path
) -> None:
    train(tiny, tmp_path)
    train(tiny, tmp_path, *RESUME, "--max_steps", "4", "--seed", "6")
    record = read_run(tmp_path)
    assert record is not None
    assert (record.checkpoint, record.steps, record.settings["seed"]) == ("checkpoint-1", 4, 6)
    assert [each["settings"] for each in record.earlier] == [{"max_steps": 3, "seed": 0}]


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay", "adam_beta2"])
def test_a_setting_that_a_resumed_optimizer_does_not_take_is_refused(
    tiny: Path, tmp_path: Path, name: str
) -> None:
    train(tiny, tmp_path, flags=LAST)
    before = read_run(tmp_path)
    with pytest.raises(ConfigError, match=rf"resumes with its own {name} .* would have no effect"):
        train(tiny, tmp_path, *RESUME, "--max_steps", "4", f"--{name}", "0.5", flags=LAST)
    assert read_run(tmp_path) == before


@pytest.mark.parametrize("more", [(), ("--save_strategy", "no")], ids=["checkpoints", "none"])
def test_a_folder_holds_one_run(tiny: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    train(tiny, tmp_path, *more, flags=LAST)
    with pytest.raises(SystemExit) as ended:  # the same command
        train(tiny, tmp_path, *more, flags=LAST)
    assert ended.value.code == 0
    with pytest.raises(
        ConfigError, match=r"another run, finished at step 3, with seed 0: to train"
    ):
        train(tiny, tmp_path, *more, "--seed", "5", flags=LAST)
    kept = "checkpoints of an earlier run" if not more else "a model, and no checkpoint to go on"
    with pytest.raises(ConfigError, match=kept):
        train(tiny, tmp_path, *more, "--max_steps", "4", flags=LAST)
    (tmp_path / "trainer_state.json").unlink()  # as if killed while it was saved
    (tmp_path / "run.json").unlink()
    if more:
        train(tiny, tmp_path, *more, flags=LAST)
    else:
        with pytest.raises(ConfigError, match="latest goes on from there"):
            train(tiny, tmp_path, flags=LAST)


def test_going_back_to_a_checkpoint_needs_the_later_ones_gone(tiny: Path, tmp_path: Path) -> None:
    train(tiny, tmp_path, flags=LAST)
    back = ("--resume_from_checkpoint", str(tmp_path / "checkpoint-2"), "--max_steps", "4")
    with pytest.raises(ConfigError, match="has checkpoints of an earlier run, up to checkpoint-3"):
        train(tiny, tmp_path, *back, flags=LAST)
    shutil.rmtree(tmp_path / "checkpoint-3")
    train(tiny, tmp_path, *back, flags=LAST)
    assert unlike(tmp_path, tmp_path / "checkpoint-4") == []


def test_a_resumed_run_began_where_it_first_did(tiny: Path, tmp_path: Path) -> None:
    start, output = Path(shutil.copytree(tiny, tmp_path / "start")), tmp_path / "run"
    train(start, output, flags=LAST)
    file = start / "model.safetensors"
    began, weights = weights_fingerprint(start), load_file(file)
    save_file({name: value + 1 for name, value in weights.items()}, file, {"format": "pt"})
    train(start, output, *RESUME, "--max_steps", "4", flags=LAST)
    record = read_run(output)
    assert record is not None
    assert (record.steps, record.model_weights) == (4, began)


@pytest.mark.slow
def test_adapters_are_not_trained_further_on_another_model(tiny: Path, tmp_path: Path) -> None:
    start, output = Path(shutil.copytree(tiny, tmp_path / "start")), tmp_path / "run"
    train(start, output, *LORA, flags=LAST)
    file = start / "model.safetensors"
    weights = load_file(file)
    save_file({name: value + 1 for name, value in weights.items()}, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"checkpoint-3 has adapters of .*start, whose weights"):
        train(start, output, *LORA, *RESUME, "--max_steps", "4", flags=LAST)


def test_training_rows_are_not_held_out(tiny: Path, tmp_path: Path) -> None:
    rows = load_images("scenes:train=4", "train").select_columns(["image", "reference"])
    rows.to_parquet(tmp_path / "own.parquet")
    own = ("--dataset_name", str(tmp_path / "own.parquet"))
    with pytest.raises(ConfigError, match="'validation' has the rows of 'train', so nothing is"):
        train(tiny, tmp_path / "run", *own, flags=LAST)
    train(tiny, tmp_path / "run", *own, "--eval_strategy", "no", flags=LAST)


def test_the_datas_fingerprint_is_of_its_content(tmp_path: Path) -> None:
    rows = load_images("scenes:train=4", "train").select_columns(["image", "reference"])
    for name in ("here", "there", "other"):
        (tmp_path / name).mkdir()
        kept = rows if name != "other" else rows.select([0, 1, 3, 2])
        kept.to_parquet(tmp_path / name / "train.parquet")
    here, there, other = (
        data_fingerprint(sft.prepare(str(tmp_path / name), "train"))
        for name in ("here", "there", "other")
    )
    assert here == there
    assert len({here, other, data_fingerprint(rows.select([]))}) == 3


def test_a_run_without_enough_rows_for_a_step_does_not_start(tiny: Path, tmp_path: Path) -> None:
    config = str(ROOT / "configs/smoke/dapo.yaml")
    flags = ["--config", config, "--model_name_or_path", str(tiny), "--output_dir", str(tmp_path),
             "--per_device_train_batch_size", "32"]  # fmt: skip
    few = [*flags, "--dataset_name", "scenes:train=3:heldout=4"]
    for more in ([], ["--check"]):
        with pytest.raises(ConfigError, match=r"has 3 rows, but a step takes [48] different"):
            dapo_posh.main([*few, *more])
    with pytest.raises(ConfigError, match=r"has 3 rows, but a step takes 4 rows.*drop_last: false"):
        train(tiny, tmp_path, "--dataloader_drop_last", "true", "--dataset_name", few[-1])
    assert not (tmp_path / "model.safetensors").exists()


def test_only_a_run_that_got_where_it_should_is_finished(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny, tmp_path)
    with pytest.raises(SystemExit):
        train(tiny, tmp_path)
    assert "is finished, at step 3" in capsys.readouterr().out
    (tmp_path / "run.json").unlink()
    state = json.loads((tmp_path / "trainer_state.json").read_text())
    (tmp_path / "trainer_state.json").write_text(json.dumps(state | {"global_step": 0}))
    shutil.rmtree(tmp_path / "checkpoint-3")
    train(tiny, tmp_path, *RESUME)
    assert json.loads((tmp_path / "trainer_state.json").read_text())["global_step"] == 3


def test_an_early_end_by_a_callback_is_recorded_and_final(tiny: Path, tmp_path: Path) -> None:
    flags = ("--watch_grounding", "true", "--stop_at_gap", "-100", "--learning_rate", "1e-3")
    train(tiny, tmp_path, *flags)
    record = read_run(tmp_path)
    assert record is not None
    assert (record.state, record.steps, record.steps_asked) == ("finished", 1, 3)
    assert record.reason == "a callback ended the training"
    with pytest.raises(SystemExit):
        train(tiny, tmp_path, *flags)
