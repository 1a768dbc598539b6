"""Joins a reader's view of a sentence with the grades of the embedded judge: does it help?

    python -m research.reader.ensemble FOLDER --fit FILE... --report FILE...

A logistic regression is fitted on the scenes of ``--fit`` (on which no reader was trained)
and measured on the held-out tenth of those of ``--report``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from posh_reward import PoSh
from posh_reward.types import Span
from research.reader.evaluate import ALARMS, auc, read_sentences
from research.reader.examples import READINGS, Scene, choose_premises, read_scenes
from research.reader.network import Reader

TEXTS_A_CALL = 64
HIGHEST_GRADE = 5.0
MARKED_BELOW = 3.0
RIDGE = 1.0
SMALLEST_SHARE = 1e-4
NEWTON_STEPS = 30
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sentence:
    """A sentence in place of an honest one, in its text."""

    text: str
    span: Span
    reference: str
    sentence: str
    is_false: bool
    kind: str


def place_sentences(scene: Scene) -> Iterator[Sentence]:
    """Each rewording and each falsification of a scene within its honest description."""
    for kind, items in (("reworded", scene["rewordings"]), ("false", scene["false"])):
        for item in items:
            sentences = list(scene["honest"])
            sentences[item["sentence"]] = item["text"]
            start = len(" ".join([*sentences[: item["sentence"]], ""]))
            yield Sentence(
                " ".join(sentences),
                (start, start + len(item["text"])),
                scene["reference"],
                item["text"],
                kind == "false",
                item.get("kind", kind),
            )


def judge_sentences(sentences: Sequence[Sentence]) -> Floats:
    """Lowest and mean grade, and the share of marked elements, of each sentence's elements."""
    metric = PoSh()
    rows = []
    for start in range(0, len(sentences), TEXTS_A_CALL):
        some = sentences[start : start + TEXTS_A_CALL]
        scored = metric.score([one.text for one in some], [one.reference for one in some])
        for one, scores in zip(some, scored, strict=True):
            grades = [
                element.grade
                for element in scores.elements
                if element.direction == "precision"
                and element.grade is not None
                and any(one.span[0] <= first < one.span[1] for first, _ in element.spans)
            ] or [HIGHEST_GRADE]
            marked = sum(grade < MARKED_BELOW for grade in grades) / len(grades)
            rows.append([min(grades), sum(grades) / len(grades), marked])
    return np.array(rows)


def fit_logistic(facts: Floats, truth: NDArray[np.bool_]) -> Floats:
    weights = np.zeros(facts.shape[1])
    penalty = RIDGE * np.eye(len(weights))
    penalty[-1, -1] = 0.0
    for _ in range(NEWTON_STEPS):
        chances = 1 / (1 + np.exp(-facts @ weights))
        slope = facts.T @ (truth - chances) - penalty @ weights
        curve = (facts * (chances * (1 - chances))[:, None]).T @ facts + penalty
        weights = weights + np.linalg.solve(curve, slope)
    return weights


def measure(name: str, doubts: Floats, truth: NDArray[np.bool_]) -> None:
    limit = np.quantile(doubts[~truth], 1 - ALARMS)
    found = float((doubts[truth] > limit).mean())
    print(f"{name}: AUC {auc(doubts[truth], doubts[~truth]):.3f}, found at 10 % {found:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", type=Path, nargs="+", required=True)
    parser.add_argument("--report", type=Path, nargs="+", required=True)
    parser.add_argument("--reading", choices=READINGS, default="runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reader = Reader(options.folder)
    sets = []
    for scenes in (
        read_scenes(options.fit),
        read_scenes(options.report, held_out=True),
    ):
        sentences = [one for scene in scenes for one in place_sentences(scene)]
        premises = [
            choose_premises(one.reference, one.sentence, options.reading) for one in sentences
        ]
        shares = read_sentences(reader, premises, [one.sentence for one in sentences])
        doubt = np.clip(1 - shares[:, :1], SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        odds = np.log(doubt / (1 - doubt))
        constant = np.ones((len(sentences), 1))
        truth = np.array([one.is_false for one in sentences])
        sets.append((odds, judge_sentences(sentences), constant, truth))
    (odds, grades, constant, truth), (new_odds, new_grades, new_constant, new_truth) = sets
    for name, facts, new_facts in (
        ("reader's doubt", [odds, constant], [new_odds, new_constant]),
        ("judge's grades", [grades, constant], [new_grades, new_constant]),
        ("both", [odds, grades, constant], [new_odds, new_grades, new_constant]),
    ):
        weights = fit_logistic(np.hstack(facts), truth)
        measure(name, np.hstack(new_facts) @ weights, new_truth)


if __name__ == "__main__":
    main()
