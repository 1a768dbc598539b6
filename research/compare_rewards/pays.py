"""Rewards of honest and dishonest texts under several settings."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from posh_reward import PoSh
from posh_reward.reward.guards import Guards
from posh_reward.reward.shaping import Shaping, shape_axes, shape_reward
from posh_reward.reward.texts import without_thoughts
from research.eval_planted import NOUNS, SENTENCE, blind_list
from research.tables import Table

SETTINGS = {
    "f1": Shaping(),
    "`precision_weight` 4": Shaping(precision_weight=4),
    "`repetition_limit` .15": Shaping(guards=Guards(repetition_limit=0.15)),
    "no rule": Shaping(guards=Guards(coverage_floor=0, loose_weight=0, detail_floor=0.25)),
    "`length_limit` 1.5": Shaping(guards=Guards(length_limit=1.5)),
}
SEPARATE = Shaping("separate")
AXES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Payment:
    """Means over one case's texts: scores by the metric, and rewards by setting."""

    case: str
    scores: dict[str, float]  # by axis, as published
    rewards: dict[str, float]
    separate: tuple[float, float]  # on precision and on recall


def cases(items: Sequence[Any]) -> dict[str, list[tuple[str, str]]]:
    """Return generations with their references, by kind of text."""
    rng = random.Random(0)
    others = {item["id"]: items[i - 1]["reference"] for i, item in enumerate(items)}

    def shuffle_words(item: Any) -> str:
        words = item["reference"].split()
        return " ".join(rng.sample(words, len(words)))

    def made_up(item: Any) -> str:
        letters = string.ascii_lowercase
        return " ".join("".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(60))

    ways: dict[str, Callable[[Any], str]] = {
        "honest rewording": lambda item: item["faithful"],
        "the same, after thoughts": lambda item: f"<think>Rain?</think>{item['faithful']}",
        "the same with five planted mistakes": lambda item: item["mistaken_text"],
        "first half of the rewording": lambda item: half(item["faithful"]),
        "the rewording three times": lambda item: " ".join([item["faithful"]] * 3),
        "the rewording, then the list": lambda item: f"{item['faithful']} {blind_list()}",
        "reference three times": lambda item: " ".join([item["reference"]] * 3),
        "the reference's words, shuffled": shuffle_words,
        "reference of another image": lambda item: others[item["id"]],
        'list: "There is a X." of 100 nouns': lambda item: blind_list(),
        'list: "We see a X." of 100 nouns': lambda item: " ".join(
            f"We see a {noun}." for noun in NOUNS
        ),
        "gibberish": made_up,
        "thoughts alone": lambda item: f"<think>{item['faithful']}</think>",
        "zero-width characters": lambda item: "\u200b" * 20,
        "punctuation": lambda item: "... !!! ... ???",
        "empty": lambda item: "",
    }
    pairs = {name: [(way(i), i["reference"]) for i in items] for name, way in ways.items()}
    pairs["one true sentence"] = [
        (sentence, item["reference"])
        for item in items
        for sentence in SENTENCE.split(item["reference"])
    ]
    return pairs


def half(text: str) -> str:
    """Return the first half of the sentences."""
    sentences = SENTENCE.split(text)
    return " ".join(sentences[: len(sentences) // 2])


def pays(posh: PoSh, texts: dict[str, list[tuple[str, str]]]) -> list[Payment]:
    """Return the mean scores and rewards of each of the ``cases``, by falling f1 reward."""
    rows = []
    for name, pairs in texts.items():
        answers = [without_thoughts(generation) for generation, _ in pairs]
        scores = posh.score(answers, [reference for _, reference in pairs])
        axes = [shape_axes(each, SEPARATE) or (0.0, 0.0) for each in scores]
        rows.append(
            Payment(
                name,
                {axis: fmean(getattr(each, axis) for each in scores) for axis in AXES},
                {
                    setting: fmean(shape_reward(each, shaping) or 0.0 for each in scores)
                    for setting, shaping in SETTINGS.items()
                },
                (fmean(p for p, _ in axes), fmean(r for _, r in axes)),
            )
        )
    return sorted(rows, key=lambda paid: -paid.rewards["f1"])


def table(cases: Sequence[Payment]) -> Table:
    """Return a table of the metric's scores, then of the reward under each setting."""
    head = ["text", "precision / recall / f1", *SETTINGS, "`separate`: precision / recall"]
    rows = [
        [
            paid.case,
            " / ".join(f"{paid.scores[axis]:.3f}" for axis in AXES),
            *(f"{reward:.3f}" for reward in paid.rewards.values()),
            " / ".join(f"{reward:.3f}" for reward in paid.separate),
        ]
        for paid in cases
    ]
    return Table(head, rows)


def read_items(path: Path) -> list[Any]:
    """Read the planted pairs."""
    items: list[Any] = json.loads(path.read_text(encoding="utf-8"))
    return items
