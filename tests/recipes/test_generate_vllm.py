"""Both engines of ``recipes/generate.py``, with real vLLM on a CPU: two minutes.

Needs the environment that ``test_launch_vllm`` describes, named by ``$POSH_LAUNCH_PYTHON``.
"""

import json
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict, Features, Value
from datasets import Image as Images

from posh_reward.datasets.load_dataset import load_images
from tests.processes import SITECUSTOMIZE
from tests.recipes.test_launch_vllm import python, run

__all__ = ["python"]

pytestmark = pytest.mark.vllm

COUNT = 24
BUILD = """
import sys
from pathlib import Path
from recipes.demo import tiny_qwen
tiny_qwen.NUM_HEADS = 1  # a size that vLLM's CPU kernels know
tiny_qwen.build(Path(sys.argv[1]), warm_up_steps=0, pretrain_steps=0)
"""
"""Random weights: what they write depends on the image more than after a few steps."""
SIZES = [(168, 56), (224, 112), (100, 150), (300, 260)]


@pytest.fixture(scope="module")
def folder(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, and drawn images in odd sizes."""
    folder = tmp_path_factory.mktemp("generate")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    run(python, folder, "-c", BUILD, str(folder / "tiny"))
    scenes = load_images(f"scenes:heldout={COUNT}:plain=1", "test")
    rows = {
        "uuid": scenes["uuid"],
        "image": [scene.resize(SIZES[row % 4]) for row, scene in enumerate(scenes["image"])],
        "reference": scenes["reference"],
    }
    types = {"uuid": Value("string"), "image": Images(), "reference": Value("string")}
    made = Dataset.from_dict(rows, features=Features(types))
    DatasetDict(test=made).save_to_disk(str(folder / "pictures"))
    return folder


def described(python: str, folder: Path, engine: str, *more: str) -> list[str]:
    """What a model writes, which is loaded twice in one run."""
    output = folder / f"{engine}{''.join(more)}.jsonl"
    model = folder / "tiny"
    flags = [
        "--models", str(model), f"again={model}", "--engine", engine, "--output", str(output),
        "--dataset", str(folder / "pictures"), "--max-new-tokens", "40", "--batch", "8",
        *more,
    ]  # fmt: skip
    run(python, folder, "recipes/generate.py", *flags)
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["model"] for row in rows] == ["tiny"] * COUNT + ["again"] * COUNT
    texts = [row["generation"] for row in rows]
    assert texts[:COUNT] == texts[COUNT:]
    return texts[:COUNT]


@pytest.mark.parametrize("more", [(), ("--max-pixels", "9408")], ids=["uncapped", "capped"])
def test_both_engines_write_the_same(python: str, folder: Path, more: tuple[str, ...]) -> None:
    ours, theirs = (described(python, folder, engine, *more) for engine in ("transformers", "vllm"))
    same = sum(map(str.__eq__, ours, theirs))
    print(f"{same} of {COUNT} texts are equal, of which {len(set(ours))} differ; {ours[0]!r}")
    assert same >= 0.9 * COUNT
    assert len(set(ours)) > COUNT / 2, "too alike to tell whether the images are the same"
