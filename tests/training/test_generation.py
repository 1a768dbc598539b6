"""Shards, and names of models; recipes/test_smoke.py has descriptions."""

from pathlib import Path

import pytest

from posh_reward.errors import InputError
from posh_reward.training.generation import GenerationSettings


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
