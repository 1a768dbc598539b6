"""The recipe on real pixels and real text: paintings, and descriptions by a museum's experts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes import dapo_posh, sft, tiny_qwen

ROOT = Path(__file__).resolve().parents[2]
OWN = {"perugino_left_panel.jpg": "The Crucifixion with the Virgin, Saint John, Saint Jerome"}
"""Images whose own description is at hand, by the beginning of its title; the other two
borrow one, which is all the same to the path that is run here."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]


@pytest.fixture(scope="module")
def paintings(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local dataset whose references are in a column of another name."""
    from datasets import Dataset, DatasetDict, Features, Image, Value

    described = json.loads((shared_data / "data/nga/nga_descriptions.json").read_text("utf-8"))
    texts = {row["title"]: row["description"] for row in described}
    images = sorted((shared_data / "data/paintings").glob("*.jpg"))
    assert len(images) == 3
    spare = iter(text for title, text in texts.items() if not title.startswith(tuple(OWN.values())))
    references = [
        next((t for title, t in texts.items() if title.startswith(OWN.get(p.name, "\0"))), None)
        or next(spare)
        for p in images
    ]
    columns = {
        "image": [{"bytes": image.read_bytes(), "path": None} for image in images],
        "by_an_expert": references,
        "reference": ["A catalogue number."] * len(images),
    }
    features = Features(
        {"image": Image(), "by_an_expert": Value("string"), "reference": Value("string")}
    )
    rows = Dataset.from_dict(columns, features=features)
    folder = tmp_path_factory.mktemp("paintings")
    DatasetDict({"train": rows, "validation": rows, "test": rows}).save_to_disk(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_qwen.build(folder, warm_up_steps=0, pretrain_steps=0)
    return folder


def flags(stage: str, model: Path, output: Path, data: Path) -> list[str]:
    return [
        "--config", str(ROOT / "configs" / "smoke" / f"{stage}.yaml"),
        "--model_name_or_path", str(model), "--output_dir", str(output),
        "--dataset_name", str(data), "--reference_column", "by_an_expert",
        "--max_pixels", str(12 * 56 * 56), "--max_steps", "1",
    ]  # fmt: skip


@pytest.mark.slow
def test_sft_on_paintings(paintings: Path, tiny: Path, tmp_path: Path) -> None:
    trainer = sft.main(
        [*flags("sft", tiny, tmp_path, paintings), "--per_device_train_batch_size", "3",
         "--eval_strategy", "no", "--logging_steps", "1"]
    )  # fmt: skip
    assert trainer.state.log_history[0]["loss"] > 0


@pytest.mark.slow
def test_dapo_on_paintings_is_rewarded_by_posh(paintings: Path, tiny: Path, tmp_path: Path) -> None:
    trainer = dapo_posh.main(
        [*flags("dapo", tiny, tmp_path, paintings), "--per_device_train_batch_size", "16",
         "--max_completion_length", "32"]
    )  # fmt: skip
    logged = trainer.state.log_history[0]
    assert logged["posh/failed_share"] == 0
    assert logged["posh/reference_elements"] > 50, "an expert's description has many elements"
    assert 0.2 <= logged["reward"] <= 1
