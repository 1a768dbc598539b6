"""Texts with graded elements, and people whose weights are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posh_reward import PoSh
from posh_reward.study.agreement.ratings import RatingColumns, read_ratings
from posh_reward.study.calibration.calibration_set import CalibrationSet, rating_set
from posh_reward.study.calibration.fit import EQUAL, Calibration
from posh_reward.study.calibration.graded_texts import GradeSums
from posh_reward.study.rows.posh_rows import scored_row
from posh_reward.study.rows.table_items import pair_item
from posh_reward.types import KINDS, Direction, Element, Scores
from tests.cli.running import Row, write_rows

SIGNATURE = PoSh(judge="fake").signature
SIDES: tuple[Direction, ...] = ("precision", "recall")
TEXTS = 4
"""Of each image."""
PEOPLE = Calibration(attribute=0.35, relation=2.0, balance=2.0)


def scores_of(rng: np.random.Generator, text: str, reference: str) -> Scores:
    elements = [
        Element(direction, kind, f"{kind} {n}", float(rng.uniform(1, 5)), (), "it")
        for direction in SIDES
        for kind in KINDS
        for n in range(int(rng.integers(1, 6)))
    ]
    [found] = [EQUAL.scores(GradeSums.of([Scores(1, 1, 1, SIGNATURE, tuple(elements))]))]
    mistakes, omissions, overall = (float(column[0]) for column in found.values())
    return Scores(mistakes, omissions, overall, SIGNATURE, tuple(elements),
                  generation=text, reference=reference)  # fmt: skip


def simulated(
    images: int, people: Calibration = PEOPLE, noise: float = 0.05, seed: int = 0
) -> tuple[list[Row], list[Scores]]:
    """Rows of ratings, and the scores of their texts.

    Args:
        images: with ``TEXTS`` texts each.
        people: how people weigh what the judge found.
        noise: standard deviation of a rating around what they would give.
        seed: of everything.
    """
    rng = np.random.default_rng(seed)
    rows, scores = [], []
    for image in range(images):
        for text in range(TEXTS):
            names = (f"Text {text} of {image}.", f"Reference of {image}.")
            scores.append(scores_of(rng, *names))
            rows.append({"image": f"i{image}", "candidate": names[0], "references": names[1]})
    for axis, truth in people.scores(GradeSums.of(scores)).items():
        given = np.round(20 * (truth + rng.normal(0, noise, len(truth)))) / 20
        for row, rating in zip(rows, given.tolist(), strict=True):
            row[axis] = rating
    return rows, scores


AXES = {axis: axis for axis in ("mistakes", "omissions", "overall")}


def judged(rows: list[Row]) -> CalibrationSet:
    return rating_set(read_ratings(rows, RatingColumns(ratings=AXES), "simulated"))


def written(folder: Path, rows: list[Row], scores: list[Scores]) -> tuple[Path, Path]:
    """The ratings and the scored rows as files."""
    scored = [
        scored_row(pair_item(n, row["candidate"], row["references"]), each, elements=True)
        for n, (row, each) in enumerate(zip(rows, scores, strict=True), start=1)
    ]
    return (
        write_rows(folder / "ratings.jsonl", rows),
        write_rows(folder / "scored.jsonl", scored),
    )
