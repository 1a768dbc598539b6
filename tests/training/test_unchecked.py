"""A run whose judge is not checked says so wherever its model or its scores could be believed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.cli import main
from posh_reward.errors import ConfigError, JudgeError
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.posh.load_metric import load_metric
from posh_reward.provenance import Origin, Origins, read_origin
from posh_reward.run_record import UNCHECKED_WARNING, read_run, write_run
from posh_reward.training.launch import parse_settings
from recipes import dapo_posh, generate, sft
from tests.recipes.test_smoke import UNMASKED, flags

SAVES = (
    *UNMASKED, "--save_strategy", "steps", "--save_steps", "1", "--logging_steps", "1",
    "--num_generations", "2", "--per_device_train_batch_size", "4",
)  # fmt: skip
UNFIT = ("--check_judge", "false")
EMBEDDED = ("--judge", "embedded")
MORE = ("--resume_from_checkpoint", "latest", "--max_steps", "3")
IMAGES = "scenes:heldout=3:plain=1"


@pytest.fixture(scope="module")
def trained(tiny: Path, unfit_judge: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps that this judge rewarded."""
    folder = tmp_path_factory.mktemp("unchecked") / "dapo"
    dapo_posh.main(flags("dapo", tiny, folder, *SAVES, "--judge", str(unfit_judge), *UNFIT))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "dapo"))


def silent(run: Path) -> list[str]:
    """Names of what a run wrote that one could take for a real run's."""
    weights = {file.parent for file in run.rglob("*model*.safetensors")}
    assert run in weights
    records = [(folder, read_run(folder)) for folder in sorted(weights)]
    found = [str(folder) for folder, record in records if record is None or not record.unchecked]
    found += [
        str(file) for file in run.rglob("README.md") if UNCHECKED_WARNING not in file.read_text()
    ]
    for file in run.rglob("trainer_state.json"):
        lines = json.loads(file.read_text())["log_history"]
        found += [f"{file}: {line}" for line in lines if line.get("unchecked") != 1.0]
    return found


def test_a_judge_that_cannot_judge_is_admitted_by_the_setting_alone(
    tiny: Path, unfit_judge: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(JudgeError, match="does not answer with a grade"):
        dapo_posh.main(flags("dapo", tiny, tmp_path / "run", "--judge", str(unfit_judge)))
    assert NOT_CHECKED not in caplog.messages
    settings = parse_settings(
        dapo_posh.SETTINGS,
        flags("dapo", tiny, tmp_path / "run", "--judge", str(unfit_judge), *UNFIT),
    )
    dapo_posh.make_trainer(*settings)
    assert caplog.messages.count(NOT_CHECKED) == 1


def test_the_dry_run_notes_it(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, noted in ((UNFIT, True), ((), False)):
        with pytest.raises(SystemExit):
            dapo_posh.main(flags("dapo", tiny, tmp_path / "run", *more, "--check"))
        assert (f"note: {NOT_CHECKED} (check_judge)" in capsys.readouterr().out) == noted


def test_no_record_of_the_run_is_silent(run: Path) -> None:
    names = {file.name for file in run.rglob("*")}
    assert {"checkpoint-1", "checkpoint-2", "README.md", "trainer_state.json"} <= names
    assert silent(run) == []


def test_a_run_that_is_resumed_with_a_checked_judge_is_not_cleared(
    tiny: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two of its three steps had rewards that mean nothing."""
    with pytest.raises(ConfigError, match=r"finished at step 2, with check_judge False"):
        dapo_posh.main(flags("dapo", tiny, run, *SAVES, *EMBEDDED))
    dapo_posh.main(flags("dapo", tiny, run, *SAVES, *EMBEDDED, *MORE))
    assert f"what this run goes on from {UNCHECKED_WARNING}" in caplog.messages
    assert silent(run) == []
    record = read_run(run)
    assert record is not None
    assert "check_judge" not in record.settings
    [before] = record.earlier
    assert (before["until"], before["settings"]["check_judge"]) == (2, False)


def test_a_checked_run_is_resumed_without_the_check(
    tiny: Path, unfit_judge: Path, tmp_path: Path
) -> None:
    dapo_posh.main(flags("dapo", tiny, tmp_path, *SAVES, *EMBEDDED))
    first = read_run(tmp_path)
    assert first is not None
    assert not first.unchecked
    assert UNCHECKED_WARNING not in (tmp_path / "README.md").read_text()
    dapo_posh.main(
        flags("dapo", tiny, tmp_path, *SAVES, "--judge", str(unfit_judge), *UNFIT, *MORE)
    )
    marks = [getattr(read_run(tmp_path / name), "unchecked", None)
             for name in ("checkpoint-2", "checkpoint-3", "")]  # fmt: skip
    assert marks == [False, True, True], "the checkpoint of step 2 is a real one"


def test_a_run_that_starts_from_its_model_says_so_too(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sft.main(flags("sft", run / "checkpoint-1", tmp_path / "sft", "--eval_strategy", "no"))
    assert f"what this run goes on from {UNCHECKED_WARNING}" in caplog.messages
    assert silent(tmp_path / "sft") == []


def test_descriptions_and_their_scores_say_so_without_its_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    describe = ["-o", "said.jsonl", "--dataset", IMAGES, "--max-new-tokens", "4"]
    generate.main(["--models", "dapo", *describe])
    assert f"dapo {UNCHECKED_WARNING}" in caplog.messages
    rows = [json.loads(line) for line in Path("said.jsonl").read_text().splitlines()]
    origins = [read_origin(row["origin"]) for row in rows]
    assert [origin is not None and origin.unchecked for origin in origins] == [True] * 3
    assert main(["trace", "dapo"]) == 0
    assert f"note: {UNCHECKED_WARNING}" in capsys.readouterr().out
    shutil.rmtree(run)
    for command in (
        ["score", "said.jsonl", "-o", "scores.jsonl", "--id", "id", "--quiet"],
        ["report", "scores.jsonl", "-o", "page.html"],
    ):
        assert main(command) in (0, 3)
        assert f"warning: dapo {UNCHECKED_WARNING}" in capsys.readouterr().err
    assert "judge:unchecked|weights:" in Path("page.html").read_text()
    assert main(["trace", "scores.jsonl"]) == 0
    assert f"note: {UNCHECKED_WARNING}" in capsys.readouterr().out


def test_its_metric_is_used_with_a_warning(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_metric(str(run))
    assert caplog.messages == [f"{run} {UNCHECKED_WARNING}"]
    record = read_run(run)
    assert record is not None
    write_run(run, replace(record, unchecked=False))
    caplog.clear()
    load_metric(str(run))
    assert caplog.messages == []


REAL = Origin("1c0f", "c", "vllm 0.31.0", "bfloat16", "768", "1", "None", "p", "runs/a|b")


@pytest.mark.parametrize("unchecked", [False, True])
def test_an_origin_is_read_as_it_was_written(unchecked: bool) -> None:
    origin = replace(REAL, unchecked=unchecked)
    assert read_origin(str(origin)) == origin
    assert str(origin).startswith("judge:unchecked|weights:") == unchecked


def test_a_model_that_is_not_real_may_be_compared_but_is_named() -> None:
    origins = Origins({"real": REAL, "stand-in": replace(REAL, weights="9", unchecked=True)})
    assert list(origins.unlike()) == [], "both described alike"
    assert list(origins.unchecked()) == [f"stand-in {UNCHECKED_WARNING}"]


def test_a_record_of_an_earlier_version_is_of_a_checked_judge(run: Path) -> None:
    file = run / "run.json"
    values: dict[str, Any] = json.loads(file.read_text())
    del values["unchecked"]
    file.write_text(json.dumps(values))
    record = read_run(run)
    assert record is not None
    assert not record.unchecked
