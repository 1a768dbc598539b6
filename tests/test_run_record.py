"""A run's record: read as it was written, also from a checkpoint, and no other file for it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from posh_reward.errors import InputError
from posh_reward.run_record import RUN_FILE, RunRecord, StartModel, TrainingData, read_run

RECORD = RunRecord(
    recipe="sft",
    model=StartModel("Qwen/Qwen2.5-VL-7B-Instruct", commit="cc59"),
    data=TrainingData("amitha/docent", "train", 1000, "41ab"),
    settings={"learning_rate": 1e-5, "lora_target_modules": ["all-linear"]},
    versions={"trl": "1.16.0"},
    steps_asked=80,
    prompt="Beschreibe das Gemälde.",
    status="finished",
    steps_made=80,
    figures={"posh/failed": 3, "posh/recall": 0.5},
    weights="5f3c",
    checkpoint="checkpoint-64",
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_run(tmp_path) is None
    RECORD.write(tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == [RUN_FILE]
    again = read_run(tmp_path / "run")
    assert again == RECORD
    assert again.fingerprint == RECORD.fingerprint
    assert replace(RECORD, steps_made=79).fingerprint != RECORD.fingerprint


def test_a_checkpoint_has_its_runs_record(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    for name in ("checkpoint-64", "other"):
        (tmp_path / name).mkdir()
    assert read_run(tmp_path / "checkpoint-64") == RECORD
    assert read_run(tmp_path / "other") is None


def test_a_mean_of_nothing_is_left_out(tmp_path: Path) -> None:
    replace(RECORD, figures={"posh/recall": math.nan, "posh/failed": 4}).write(tmp_path)
    read = read_run(tmp_path)
    assert read is not None
    assert read.figures == {"posh/failed": 4}


def test_a_later_versions_key_is_passed_over(tmp_path: Path) -> None:
    fields = json.loads(RECORD.to_json()) | {"energy": 3}
    (tmp_path / RUN_FILE).write_text(json.dumps(fields))
    assert read_run(tmp_path) == RECORD


@pytest.mark.parametrize(
    ("text", "where"),
    [("{", "Invalid JSON"), ("[]", "an? (dictionary|object)"), ('{"recipe": "sft"}', "model, data"),
     (RECORD.to_json().replace("1000", '"many"'), "data.rows")],
)  # fmt: skip
def test_another_file_of_that_name_is_refused(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(InputError, match=rf"not the record of a run \(.*{where}.*\): delete it"):
        read_run(tmp_path)
