"""Shards, and names of models; recipes/test_smoke.py has descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from posh_reward.errors import ConfigError, InputError
from posh_reward.training.generation import (
    GenerationSettings,
    Greedy,
    check_generation,
    load_describer,
    models_by_name,
)


def describing(shard: int, shards: int) -> GenerationSettings:
    return GenerationSettings({"a": "a model"}, Path("said.jsonl"), shard=shard, shards=shards)


@pytest.mark.parametrize(("rows", "shards"), [(10, 1), (10, 3), (2, 3), (0, 2)])
def test_shards_one_after_the_other_are_all_rows(rows: int, shards: int) -> None:
    parts = [describing(shard, shards).part(rows) for shard in range(shards)]
    assert [row for part in parts for row in part] == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("shard", "shards", "message"),
    [(3, 3, "shard is 3 of 3 shards: use 0 to 2"), (-1, 3, "use 0 to 2"), (0, 0, "1 or more")],
)
def test_a_shard_that_is_not_there_is_refused(shard: int, shards: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        describing(shard, shards)


def test_a_missing_folder_of_a_model_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ConfigError, match="no file or folder 'runs/nothere'"):
        load_describer("transformers", "runs/nothere", Greedy())


def test_a_check_names_every_model_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/empty", "runs/lora"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "runs/lora/adapter_config.json").write_text("{}")
    models = ["runs/nothere", "someone/no-such-model", "runs/empty", "runs/lora"]
    lines, status = check_generation(
        GenerationSettings(
            models_by_name(models), Path("said.jsonl"), dataset_name="scenes:train=1:heldout=1"
        )
    )
    assert status == 3
    assert "images as the models take them, going by the models that are here" in lines
    assert [line.partition(" ")[2] for line in lines[-3:]] == [
        "here: there is no file or folder 'runs/nothere', though there is a folder 'runs': check "
        "the path, or first run what writes it",
        "here: someone/no-such-model: hf download someone/no-such-model, or run it where the hub "
        "can be reached",
        "here: runs/empty is not a model, it has no config.json: name another folder",
    ]
