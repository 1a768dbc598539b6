"""The recipes, ``fetch`` and ``--check`` on a folder laid out as DOCENT is."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from posh_reward.cli import main
from posh_reward.datasets.load_dataset import PAPER_PROMPT, load_rows
from posh_reward.errors import ConfigError, InputError
from posh_reward.shipped import shipped_path
from posh_reward.training.generation import GenerationSettings
from posh_reward.training.processors import load_processor, training_images
from recipes import dapo_posh, generate, sft
from tests.datasets.hub_layout import FEATURES, write_docent

CAP = 12 * 56 * 56  # below the fixture's images
OWN_PROMPT = "Describe the image."


@pytest.fixture
def docent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, and an empty cache of datasets in ``tmp_path``."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return write_docent(tmp_path / "docent")


def config(tmp_path: Path, stage: str, model: Path, docent: Path, *more: str) -> str:
    """The paper's configuration, but for model, folders, and what a CPU needs; no split named."""
    lines = [
        f"like: {shipped_path(f'configs/{stage}/qwen2_5_vl_7b.yaml')}",
        f"model_name_or_path: {model}", f"dataset_name: {docent}", f"max_pixels: {CAP}",
        f"output_dir: {tmp_path / stage}", "max_steps: 1", "bf16: false", "use_cpu: true",
        "dtype: float32", "dataloader_num_workers: 0", "save_strategy: 'no'",
        "per_device_eval_batch_size: 2", *more,
    ]  # fmt: skip
    path = tmp_path / f"{stage}.yaml"
    path.write_text("\n".join(lines))
    return str(path)


SFT = (
    "eval_strategy: steps",
    "eval_steps: 1",
    "metric_for_best_model: null",
    "per_device_train_batch_size: 2",
)
DAPO = ("use_vllm: false", "metric: null", "max_completion_length: 8",
        "mask_truncated_completions: false", "per_device_train_batch_size: 8")  # fmt: skip


@pytest.mark.slow
def test_sft_starts_on_it_and_evaluates(tiny: Path, docent: Path, tmp_path: Path) -> None:
    trainer = sft.main(["--config", config(tmp_path, "sft", tiny, docent, *SFT)])
    assert "eval_right_loss" in {key for line in trainer.state.log_history for key in line}
    assert [len(part) for part in trainer.eval_dataset.values()] == [4, 4]
    assert (tmp_path / "sft" / "prompt.txt").read_text() == PAPER_PROMPT


@pytest.mark.slow
def test_dapo_and_generation_run_on_it_with_ones_own_prompt(
    tiny: Path, docent: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = config(tmp_path, "dapo", tiny, docent, *DAPO, f"prompt_text: {OWN_PROMPT}")
    trainer = dapo_posh.main(["--config", given])
    assert trainer.train_dataset[0]["prompt"] == [{"role": "user", "content": OWN_PROMPT}]
    output = tmp_path / "said.jsonl"
    asked = ["--models", str(tmp_path / "dapo"), "--dataset", str(docent),
             "--max-new-tokens", "2", "--output", str(output)]  # fmt: skip
    generate.main([*asked, "--split", "validation", "--prompt-text", OWN_PROMPT])
    assert "another prompt" not in caplog.text
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"val-uuid-{row}" for row in range(4)]
    assert {row["prompt"] for row in rows} == {OWN_PROMPT}
    assert all(row["truncated"] for row in rows)
    assert "4 of 4 descriptions by dapo were cut" in caplog.text
    caplog.clear()
    generate.main([*asked, "--split", "test"])  # with the prompt that the run recorded
    assert "another prompt" not in caplog.text
    with pytest.raises(InputError, match="prompt"):
        generate.main([*asked, "--split", "test", "--prompt-text", "Say what you see."])
    assert "was trained with another prompt, 'Describe the image.'" in caplog.text


@pytest.mark.parametrize(
    ("stage", "recipe", "more"), [("sft", sft, SFT), ("dapo", dapo_posh, DAPO)]
)
def test_a_check_looks_at_splits_and_columns(
    stage: str, recipe: Any, more: tuple[str, ...], tiny: Path, docent: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    given = ["--config", config(tmp_path, stage, tiny, docent, *more), "--check"]
    with pytest.raises(SystemExit) as ended:
        recipe.main(given)
    assert ended.value.code in (0, 3), "3 if DeepSpeed, which the launch line asks for, is missing"
    assert f"prompt: {PAPER_PROMPT}" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no split 'dev': use one of train, val, test"):
        recipe.main([*given, "--dataset_train_split", "dev"])
    with pytest.raises(ConfigError, match=r"'captions', but 'uuid', .*--reference_c"):
        recipe.main([*given, "--reference_column", "captions"])


def test_a_description_that_ends_is_not_cut(
    tiny: Path, docent: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ending = tmp_path / "ending"
    shutil.copytree(tiny, ending)
    file = ending / "generation_config.json"
    vocabulary = json.loads((ending / "config.json").read_text())["text_config"]["vocab_size"]
    every = {"eos_token_id": list(range(vocabulary))}
    file.write_text(json.dumps(json.loads(file.read_text()) | every))
    output = tmp_path / "said.jsonl"
    generate.main(["--models", str(ending), "--dataset", str(docent), "--output", str(output),
                   "--max-new-tokens", "1"])  # fmt: skip
    assert not any("truncated" in json.loads(line) for line in output.read_text().splitlines())
    assert "were cut" not in caplog.text
    assert GenerationSettings({"a": "a"}, output).max_new_tokens == 768


def test_fetch_resizes_once_for_all_ranks(
    tiny: Path, docent: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = config(tmp_path, "sft", tiny, docent, *SFT)
    assert main(["fetch", "--config", given]) == 0
    told = capfd.readouterr().err
    assert f"{docent}, train: 8 images, as {tiny} takes them" in told
    assert f"{docent}, validation: 4 images" in told
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.arrow")}
    processor = load_processor(str(tiny), max_pixels=CAP)
    for prepare in (sft.prepare, dapo_posh.prepare):
        images = prepare(str(docent), "train", processor=processor)
        assert images[0]["image"].size == (224, 168), "multiples of 56 of at most CAP pixels"
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.arrow")}
    assert after == before, "nothing is written after fetch"
    wrong = config(tmp_path, "sft", tiny, docent, "dataset_train_split: dev")
    assert main(["fetch", "--config", wrong]) == 2
    assert "no split 'dev': use one of train, val, test" in capfd.readouterr().err


def test_broken_images_are_named_before_the_first_step(
    tiny: Path, docent: Path, tmp_path: Path
) -> None:
    rows = load_rows(str(docent), "train", images=True)
    rows[1]["image"]["bytes"] = rows[1]["image"]["bytes"][:900]
    rows[5]["image"] = None
    Dataset.from_list(rows, features=FEATURES).to_parquet(tmp_path / "own.parquet")
    processor = load_processor(str(tiny), max_pixels=CAP)
    told = r"2 of 8 images .*train-uuid-1 \(.*train-uuid-5 \(there is none"
    with pytest.raises(InputError, match=told):
        training_images(str(tmp_path / "own.parquet"), "train", "reference", processor)
