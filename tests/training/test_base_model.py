"""What one recipe writes, the next one reads: adapters, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForImageTextToText

from posh_reward.errors import ConfigError
from posh_reward.models.hub import identity
from posh_reward.run_record import read_run
from posh_reward.training.base_model import MERGED
from posh_reward.training.generation import GenerationSettings, generate
from recipes import dapo_posh, sft
from tests.recipes.test_smoke import SCENES, UNMASKED, flags

LORA = ("--use_peft", "--lora_target_modules", "q_proj", "v_proj", "--lora_r", "4")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def adapter(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sft_lora"
    sft.main(flags("sft", tiny, folder, *LORA, "--eval_strategy", "no", "--learning_rate", "0.1"))
    assert not (folder / "config.json").exists(), "an adapter alone"
    return folder


@pytest.mark.parametrize("more", [(), LORA], ids=["all parameters", "a new adapter"])
def test_dapo_starts_from_an_adapter(
    tiny: Path, adapter: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    run = flags("dapo", adapter, tmp_path / "dapo", *UNMASKED, *more)
    with pytest.raises(SystemExit) as checked:
        dapo_posh.main([*run, "--check"])
    assert checked.value.code == 0
    dapo_posh.main(run)
    merged = AutoModelForImageTextToText.from_pretrained(tmp_path / "dapo" / MERGED)
    base = AutoModelForImageTextToText.from_pretrained(tiny)
    plain = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    assert all(torch.equal(plain[name], value) for name, value in merged.state_dict().items())
    record = read_run(tmp_path / "dapo")
    assert record is not None
    assert record.model_weights == identity(str(adapter))
    how = GenerationSettings(
        {"dapo": str(tmp_path / "dapo")}, tmp_path / "said.jsonl", SCENES, max_new_tokens=4
    )
    assert generate(how) == {"dapo": 4}


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
