from __future__ import annotations

import json
from pathlib import Path

import pytest

from posh_reward.errors import InputError
from posh_reward.study.bootstrap import bootstrap_mean, paired_difference
from posh_reward.study.heldout import (
    append_rows,
    difference,
    read_rows,
    scored_row,
    scores_of,
    standing,
    table,
)
from posh_reward.types import Element, Scores

ELEMENT = Element("precision", "attribute", "red", 1.5, ((2, 5),), "dog", failure=None)
GENERATION = {"uuid": "1", "model": "sft", "generation": "A red dog.", "reference": "A dog."}
SCORES = Scores(0.3, 0.9, 0.45, "s", (ELEMENT,), generation="A red dog.", reference="A dog.")


def test_a_scored_row_gives_its_scores_back(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_rows(path, [scored_row(GENERATION, SCORES)])
    assert scores_of(read_rows(path)[0]) == SCORES


def test_what_a_kill_left_of_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(GENERATION) + '\n{"uuid": "2", "mod')
    assert [row["uuid"] for row in read_rows(path)] == ["1"]
    append_rows(path, [{**GENERATION, "uuid": "3"}])
    assert [row["uuid"] for row in read_rows(path)] == ["1", "3"]


@pytest.mark.parametrize(
    ("line", "remedy"), [('{"uuid": 1}', "lacks model"), ("nonsense", "line 1: no JSON")]
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, remedy: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=remedy):
        read_rows(path)


def rows(*overall: float | None) -> list[dict[str, object]]:
    return [
        {**GENERATION, "uuid": str(i), "mistakes": x, "omissions": x, "overall": x}
        for i, x in enumerate(overall)
    ]


def test_failed_rows_are_counted_and_left_out() -> None:
    it = standing("sft", rows(0.5, None, 0.7))
    assert (it.images, it.failed) == (2, 1)
    assert it.axes["overall"].mean == pytest.approx(0.6)
    assert "none of its 1 generations was scored" in table([standing("x", rows(None))])


def test_differences_are_paired_by_image() -> None:
    gain = difference(rows(0.6, 0.7, 0.8), list(reversed(rows(0.5, 0.6, 0.7))))
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))
    assert gain.excludes_zero
    with pytest.raises(InputError, match="different images"):
        difference(rows(0.6), rows(0.5, 0.4))


def test_a_difference_of_both_signs_is_not_settled() -> None:
    assert not paired_difference([1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]).excludes_zero


def test_the_interval_of_a_mean_narrows_as_one_over_root_n() -> None:
    wide = bootstrap_mean([0.0, 1.0] * 10)
    narrow = bootstrap_mean([0.0, 1.0] * 160)
    ratio = (wide.high - wide.low) / (narrow.high - narrow.low)
    assert ratio == pytest.approx(4.0, rel=0.15)


def test_nothing_to_resample_is_an_error() -> None:
    with pytest.raises(InputError):
        bootstrap_mean([])
