"""Weights that simulated people have are found, and gain on images that were not fitted to."""

import csv
import json
import random
from pathlib import Path

import pytest

from posh_reward.types import KINDS, Element, Scores
from research import fit_weights
from tests.study.pairs import pair_item, scored_row


def test_people_who_count_relations_four_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random.seed(0)
    scored, rated = [], [["id", "overall"]]
    for number in range(80):
        elements = tuple(
            Element(direction, kind, "a", float(random.randint(1, 5)), ((0, 1),), f"{direction}{n}")
            for direction in ("precision", "recall")
            for n, kind in enumerate(KINDS)
        )
        scores = Scores(0.5, 0.5, 0.5, "posh", elements=elements)
        item = pair_item(number, "a", f"reference {number}")
        scored.append(json.dumps(scored_row(item, scores)))
        rated.append([str(number), str(fit_weights.f1(scores, (1.0, 4.0, 1.0)))])
    (tmp_path / "scored.jsonl").write_text("\n".join(scored) + "\n")
    with (tmp_path / "rated.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rated)
    fit_weights.main([str(tmp_path / "scored.jsonl"), str(tmp_path / "rated.csv")])
    weights, gain = capsys.readouterr().out.splitlines()
    assert weights == "attribute 1, relation 4, precision 1"
    assert float(gain.split()[6]) > 0.01
