"""Each recipe reads the output of the one before, adapters too."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

from posh_reward.errors import ConfigError
from posh_reward.models.hub import MERGED_MODEL_PREFIX, find_identity, weights_fingerprint
from posh_reward.run_record import read_run, write_run
from posh_reward.training.base_model import find_base_model, starting_model
from posh_reward.training.generation import GenerationSettings, generate
from recipes import dapo_posh, sft
from tests.recipes.test_smoke import SCENES, UNMASKED, flags

LORA = ("--use_peft", "--lora_target_modules", "q_proj", "v_proj", "--lora_r", "4")


@pytest.fixture(scope="module")
def adapter(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sft_lora"
    sft.main(flags("sft", tiny, folder, *LORA, "--eval_strategy", "no", "--learning_rate", "0.1"))
    assert not (folder / "config.json").exists(), "an adapter alone"
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), LORA], ids=["all parameters", "a new adapter"])
def test_dapo_starts_from_an_adapter(
    tiny: Path, adapter: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    run = flags("dapo", adapter, tmp_path / "dapo", *UNMASKED, *more)
    with pytest.raises(SystemExit) as checked:
        dapo_posh.main([*run, "--check"])
    assert checked.value.code == 0
    dapo_posh.main(run)
    [folder] = (tmp_path / "dapo").glob(f"{MERGED_MODEL_PREFIX}_*")
    merged = AutoModelForImageTextToText.from_pretrained(folder)
    base = AutoModelForImageTextToText.from_pretrained(tiny)
    plain = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    assert all(torch.equal(plain[name], value) for name, value in merged.state_dict().items())
    record = read_run(tmp_path / "dapo")
    assert record is not None
    assert record.model_weights == find_identity(str(adapter))
    how = GenerationSettings(
        {"dapo": str(tmp_path / "dapo")}, tmp_path / "said.jsonl", SCENES, max_new_tokens=4
    )
    assert generate(how) == {"dapo": 4}


@pytest.mark.slow
def test_an_adapter_that_was_trained_again_is_merged_again(adapter: Path, tmp_path: Path) -> None:
    """The folder of a run that was killed early has the former one's weights."""
    trained = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    first = starting_model(str(trained), tmp_path)
    assert starting_model(str(trained), tmp_path) == first
    file = trained / "adapter_model.safetensors"
    save_file({n: value * 2 for n, value in load_file(file).items()}, file, {"format": "pt"})
    second = starting_model(str(trained), tmp_path)
    assert weights_fingerprint(Path(first)) != weights_fingerprint(Path(second))


@pytest.mark.slow
def test_an_adapter_of_a_model_that_has_changed_is_refused(
    adapter: Path, tiny: Path, tmp_path: Path
) -> None:
    trained = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    assert find_base_model(str(trained)) == str(tiny)
    record = read_run(trained)
    assert record is not None
    write_run(trained, replace(record, model_weights="0123456789abcdef"))
    with pytest.raises(ConfigError, match=r"when its weights were 0123456789abcdef, and they are"):
        find_base_model(str(trained))
    how = GenerationSettings({"it": str(trained)}, tmp_path / "said.jsonl", SCENES)
    with pytest.raises(ConfigError, match="1 of 1 models could not be loaded"):
        generate(how)


def test_a_base_that_the_run_has_made_is_found_wherever_the_run_is(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    merged = shutil.copytree(tiny, run / f"{MERGED_MODEL_PREFIX}_0123456789abcdef")
    for folder in (run, run / "checkpoint-1"):
        folder.mkdir(exist_ok=True)
        config = {"base_model_name_or_path": f"runs/run/{Path(merged).name}"}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        assert find_base_model(str(folder)) == str(merged)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"base_model_name_or_path": null}'])
def test_an_adapter_that_names_no_model_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"adapter_config.json names no base_model_name_or_path"):
        starting_model(str(tmp_path), tmp_path / "run")


@pytest.mark.slow
def test_an_adapter_without_its_model_is_named(adapter: Path, tmp_path: Path) -> None:
    config = adapter / "adapter_config.json"
    before = config.read_text()
    config.write_text(json.dumps(json.loads(before) | {"base_model_name_or_path": "/gone/model"}))
    try:
        for more in ((), ("--check",)):
            with pytest.raises(ConfigError, match="is an adapter of '/gone/model', which is not"):
                dapo_posh.main(flags("dapo", adapter, tmp_path, *more))
    finally:
        config.write_text(before)
