"""A fingerprint names the weights in a folder, not the files that hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from posh_reward.models.hub import UNKNOWN_IDENTITY, find_identity, weights_fingerprint

Tensors = dict[str, np.ndarray]


def saved(folder: Path, *shards: Tensors) -> Path:
    folder.mkdir()
    for number, tensors in enumerate(shards):
        save_file(tensors, folder / f"model-{number}.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture
def tensors() -> Tensors:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(300, 20)).astype("float32") for name in "abc"}


def test_shards_and_other_files_do_not_matter(tmp_path: Path, tensors: Tensors) -> None:
    whole = saved(tmp_path / "whole", tensors)
    parts = saved(tmp_path / "parts", {"b": tensors["b"]}, {n: tensors[n] for n in "ca"})
    (parts / "trainer_state.json").write_text("{}")
    assert weights_fingerprint(whole) == weights_fingerprint(parts)


@pytest.mark.parametrize("row", [0, 150, 299])
@pytest.mark.parametrize("name", list("abc"))
def test_an_update_of_any_tensor_shows(
    tmp_path: Path, tensors: Tensors, name: str, row: int
) -> None:
    before = weights_fingerprint(saved(tmp_path / "before", tensors))
    tensors[name][row] += 1e-3
    assert weights_fingerprint(saved(tmp_path / "after", tensors)) != before


def test_a_folder_without_tensors_has_none(tmp_path: Path) -> None:
    assert weights_fingerprint(tmp_path) is None
    assert find_identity(str(tmp_path)) == UNKNOWN_IDENTITY


def test_an_adapter_is_identified_with_its_model(tmp_path: Path, tensors: Tensors) -> None:
    base = saved(tmp_path / "base", tensors)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    save_file({"lora": tensors["a"]}, adapter / "adapter_model.safetensors")
    config = {"base_model_name_or_path": str(base)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    before = find_identity(str(adapter))
    assert before == f"{weights_fingerprint(adapter)}+{weights_fingerprint(base)}"
    save_file({"a": tensors["b"]}, base / "model-0.safetensors")
    assert find_identity(str(adapter)) != before


def test_weights_of_before_safetensors_are_identified(tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pytorch_model.bin").write_bytes(content)
    one, other = find_identity(str(tmp_path / "a")), find_identity(str(tmp_path / "b"))
    assert UNKNOWN_IDENTITY != one != other
