"""Worker processes score the goldens, and 200 long descriptions by people, as one process does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from posh_reward import PoSh

pytestmark = pytest.mark.slow


def golden_pairs(shared: Path) -> list[tuple[str, str]]:
    lines = (shared / "goldens" / "goldens.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["generation"], row["reference"]) for row in map(json.loads, lines)]


def long_pairs(shared: Path) -> list[tuple[str, str]]:
    """Each description against itself without every fifth sentence."""
    lines = (shared / "data/iiw/iiw_400_dev.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["IIW"] for line in lines]
    cut = [". ".join(s for i, s in enumerate(text.split(". "), 1) if i % 5) for text in texts]
    return list(zip(cut, texts, strict=True))


@pytest.mark.parametrize(("pairs_of", "count"), [(golden_pairs, 50), (long_pairs, 200)])
def test_scores_are_those_of_one_process(
    pairs_of: Callable[[Path], list[tuple[str, str]]], count: int, shared_data: Path
) -> None:
    pairs = pairs_of(shared_data)
    assert len(pairs) == count
    texts = [list(side) for side in zip(*pairs, strict=True)]
    alone, pooled = (PoSh(processes=processes).score(*texts) for processes in (1, 2))
    assert pooled == alone
    assert not any(score.failure for score in alone)
