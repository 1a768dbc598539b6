"""Shards, and names of models; recipes/test_smoke.py has descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posh_reward.errors import ConfigError, InputError
from posh_reward.models.vllm.vllm_environment import VLLM_DEFAULTS
from posh_reward.training.describers import Greedy, load_describer
from posh_reward.training.generation import GenerationSettings, check_generation, models_by_name


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


@pytest.mark.parametrize("setting", ["batch_size", "limit", "max_new_tokens"])
def test_a_number_that_would_describe_nothing_is_refused(setting: str) -> None:
    settings: dict[str, Any] = {setting: -4}
    with pytest.raises(InputError, match=f"{setting} is -4: use 1 or more"):
        GenerationSettings({"a": "a model"}, Path("said.jsonl"), **settings)


def test_models_are_called_after_their_folders_or_as_they_are_named() -> None:
    given = [
        "runs/sft/",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "runs/dapo/checkpoint-20",
        "paper=runs/a=b",
    ]
    assert list(models_by_name(given)) == [
        "sft", "Qwen2.5-VL-7B-Instruct", "dapo/checkpoint-20", "paper"
    ]  # fmt: skip
    assert models_by_name(given)["paper"] == "runs/a=b"


def test_a_folder_with_an_equals_sign_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lr=1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert models_by_name(["lr=1", "x=lr=1"]) == {"lr=1": "lr=1", "x": "lr=1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a/dapo", "b/dapo"], "'a/dapo' and 'b/dapo' are both called 'dapo': .* other=b/dapo"),
        (["=runs/a"], "write NAME=MODEL"),
        (["name="], "write NAME=MODEL"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models_by_name(given)


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


def test_vllm_is_imported_with_its_compiled_sampler_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VLLM_DEFAULTS:
        monkeypatch.delenv(name, raising=False)
    stand_in = tmp_path / "vllm.py"
    stand_in.write_text(
        "import os\nraise ImportError({k: v for k, v in os.environ.items() if 'VLLM' in k})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        load_describer("vllm", "x/y", Greedy())
    assert isinstance(raised.value.__cause__, ImportError)
    assert VLLM_DEFAULTS.items() <= raised.value.__cause__.args[0].items()
    for name in VLLM_DEFAULTS:
        monkeypatch.delenv(name)
