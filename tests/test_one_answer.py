"""What cannot be scored, and what says nothing, gets the same answer at every entrance."""

import json
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoSh, PoshReward, Scores
from posh_reward.cli import main
from posh_reward.types import WORST_SCORE

REFERENCE = "A tall woman in a red dress holds a basket."
WRONG = "Two green ships burn."
BLANK = ["", " ", "\n\t", "\u00a0"]
UNSCORABLE = [(None, "missing"), ("x" * 30_000, "longer than"), ("half \ud800", "surrogate")]


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


def row_of(generation: Any, folder: Path) -> dict[str, Any]:
    """What ``posh-reward score`` writes of one pair."""
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text(json.dumps({"generation": generation, "reference": REFERENCE}) + "\n")
    main(["score", str(source), "-o", str(out), "--quiet"])
    row: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return row


def reward_of(posh: PoSh, generation: Any) -> float | None:
    [reward] = PoshReward(posh)(completions=[generation], reference=[REFERENCE])
    return reward


@pytest.mark.parametrize("blank", BLANK)
def test_an_empty_generation_is_scored_and_never_pays(
    posh: PoSh, tmp_path: Path, blank: str
) -> None:
    [scores, attempt] = posh.score([blank, WRONG], [REFERENCE] * 2)
    assert (scores.precision, scores.generation_elements) == (1.0, 0)
    assert scores.recall is not None
    row = row_of(blank, tmp_path)
    in_row = (row["precision"], row["recall"], row["f1"])
    assert in_row == (scores.precision, scores.recall, scores.f1)
    assert attempt.f1 is not None
    assert reward_of(posh, blank) == WORST_SCORE <= (reward_of(posh, WRONG) or 0)


@pytest.mark.parametrize(("text", "why"), UNSCORABLE, ids=[why for _, why in UNSCORABLE])
def test_what_cannot_be_scored_says_why_everywhere(
    posh: PoSh, tmp_path: Path, text: str | None, why: str
) -> None:
    [scores] = posh.score([text], [REFERENCE])
    row = row_of(text, tmp_path)
    assert isinstance(scores, Scores)
    assert scores.failure is not None
    assert scores.failure.kind == row["failure"]["kind"] == "text"
    assert why in scores.failure.detail == row["failure"]["detail"]
    assert row["f1"] is scores.f1 is None
    assert reward_of(posh, text) is None
