"""Shards, and files that are complete; recipes/test_smoke.py has descriptions."""

import json
from pathlib import Path

import pytest

from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import InputError
from posh_reward.training.generation import GenerationSettings, generate


def describing(shard: int, shards: int) -> GenerationSettings:
    return GenerationSettings({"a": "a model"}, Path("said.jsonl"), shard=shard, shards=shards)


@pytest.mark.parametrize(("rows", "shards"), [(10, 1), (10, 3), (2, 3), (0, 2)])
def test_shards_one_after_the_other_are_all_rows(rows: int, shards: int) -> None:
    parts = [describing(shard, shards).shard_rows(rows) for shard in range(shards)]
    assert [row for part in parts for row in part] == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("shard", "shards", "message"),
    [(3, 3, "shard is 3 of 3 shards: use 0 to 2"), (-1, 3, "use 0 to 2"), (0, 0, "1 or more")],
)
def test_a_shard_that_is_not_there_is_refused(shard: int, shards: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        describing(shard, shards)


def test_what_a_power_cut_leaves_after_all_rows_is_dropped(tmp_path: Path) -> None:
    """``score``, which reads the file next, would refuse the zeros."""
    ids = load_images("scenes:heldout=2", "test")["uuid"]
    whole = "".join(json.dumps({"id": each, "model": "a"}) + "\n" for each in ids).encode()
    said = tmp_path / "said.jsonl"
    said.write_bytes(whole + bytes(10))
    generate(GenerationSettings({"a": "a model"}, said, "scenes:heldout=2"))
    assert said.read_bytes() == whole
