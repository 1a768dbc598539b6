"""The files that the pages' commands run on are what data/README.md says."""

import io
import json
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from posh_reward.datasets.scenes import scene_rows
from posh_reward.tables.reading import open_rows

EXAMPLES = Path(__file__).resolve().parents[2] / "data" / "examples"
MODELS = ("plain", "detailed")


def rows(name: str) -> list[dict[str, object]]:
    with open_rows(str(EXAMPLES / name)) as found:
        return list(found)


def test_the_paintings_are_drawn_and_described_from_their_seed() -> None:
    drawn = list(scene_rows("test", 8, seed=5, scale=4))
    table = rows("paintings.csv")
    assert [row["reference"] for row in table] == [scene["reference"] for scene in drawn]
    for row, scene in zip(table, drawn, strict=True):
        image = Image.open(EXAMPLES / str(row["image"]))
        same = Image.open(io.BytesIO(scene["image"]["bytes"]))
        assert ImageChops.difference(image, same).getbbox() is None, row["image"]


@pytest.mark.parametrize("model", MODELS)
def test_each_model_describes_each_painting(model: str) -> None:
    said = [(str(row["id"]), row["image"], row["reference"]) for row in rows(f"{model}.jsonl")]
    assert said == [(row["id"], row["image"], row["reference"]) for row in rows("paintings.csv")]


def test_people_judge_the_very_texts_of_the_models() -> None:
    plain, detailed = ([row["generation"] for row in rows(f"{each}.jsonl")] for each in MODELS)
    pairs = rows("made_up_preferences.jsonl")
    assert [row["generation1"] for row in pairs] == plain
    assert [row["generation2"] for row in pairs] == detailed
    for name in ("made_up_ratings.jsonl", "made_up_marks.jsonl"):
        assert {row["generation"] for row in rows(name)} == {*plain, *detailed}


def test_what_is_marked_in_the_first_painting() -> None:
    lines = (EXAMPLES / "made_up_marks.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[1])
    assert row["model"] == "detailed"
    assert [row["generation"][start:end] for start, end in row["mistakes"]] == ["two", "red"]
    assert [row["reference"][start:end] for start, end in row["omissions"]] == ["three", "yellow"]
