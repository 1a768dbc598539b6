"""The bench of judges, with a tiny model on the CPU."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tests.processes import start
from tools.bench.gpu import main
from tools.bench.qwen import random_model
from tools.goldens import load

PRESETS = ["released", "prefix-first"]


@pytest.fixture
def arguments(shared_data: Path, tmp_path: Path) -> list[str]:
    """The shortest pair and a tiny model; what is measured is written to ``figures.json``."""
    goldens = load(shared_data / "goldens" / "goldens.jsonl")
    shortest = min(goldens, key=lambda each: len(each["generation"]) + len(each["reference"]))
    pairs, figures = tmp_path / "pairs.jsonl", tmp_path / "figures.json"
    pairs.write_text(json.dumps(shortest) + "\n", encoding="utf-8")
    tokenizer = shared_data / "data" / "qwen_tokenizer"
    return [str(pairs), str(tokenizer), "--small", "--shape", "tiny", "--json", str(figures)]


def read(arguments: list[str]) -> Any:
    return json.loads(Path(arguments[-1]).read_text(encoding="utf-8"))["shapes"]["tiny"]


@pytest.mark.slow
def test_all_is_measured_and_equal(arguments: list[str]) -> None:
    assert main(arguments) == 0
    report = read(arguments)
    assert [each["preset"] for each in report["presets"]] == PRESETS
    for each in report["presets"]:
        assert each["pairs"] == 1
        assert 0 < each["computed"] < each["submitted"]
        assert each["grading"] + each["rewriting"] <= each["seconds"]
    assert len(report["sleeps"]) == 3
    assert report["equal"]


def test_a_kill_leaves_what_was_measured(arguments: list[str]) -> None:
    bench = start(sys.executable, "-m", "tools.bench.gpu", *arguments)
    while not Path(arguments[-1]).exists():
        assert bench.poll() is None, "the bench ended before its first preset"
        time.sleep(0.01)
    bench.kill()
    bench.wait()
    report = read(arguments)
    assert [each["preset"] for each in report["presets"]] == PRESETS[:1]
    assert "equal" not in report


@pytest.mark.parametrize(
    ("shape", "billions"), [("Qwen3-1.7B", 1.72), ("Qwen3-4B", 4.02), ("Qwen3-14B", 14.77)]
)
def test_shapes_have_the_published_sizes(shape: str, billions: float) -> None:
    model = random_model(shape, torch.device("meta"), torch.bfloat16)
    assert sum(each.numel() for each in model.parameters()) / 1e9 == pytest.approx(
        billions, abs=0.005
    )
