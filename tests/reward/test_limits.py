"""Each limit of the guards has a text that breaks its law without it: docs/rewards.md, a table.

A limit that protects honest texts lowers one if it is strict; a limit on what does not describe
raises one if it is off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from posh_reward import Guards, PoSh, PoshReward, Shaping
from posh_reward.audit.hill_climb import split_sentences
from posh_reward.reward.shaping import shape_reward
from posh_reward.types import Scores
from research.eval_rules import ADJECTIVES, ORDERS

ROOT = Path(__file__).resolve().parents[2]
ARTWORKS = json.loads((ROOT / "research/calibration/artworks.json").read_text(encoding="utf-8"))
MIN_CHANGE = 0.005
BY_A_WITNESS = "image_cap"
"""Tested with grades by hand (``test_shaping.py``), since the embedded judge sees no images."""


DEFAULTS = Guards()


@dataclass(frozen=True)
class Breach:
    """A text for which a limit decides."""

    limit: str
    without: float | bool | None  # the limit's value at which it does nothing, or allows nothing
    text: str
    reference: str
    honest: bool = False
    limits: Guards = DEFAULTS


def behind_half(artwork: int, order: str) -> tuple[str, str]:
    """Return the first half of an artwork's description with its other words in an order."""
    reference = ARTWORKS[artwork]["reference"]
    parts = split_sentences(reference)
    half = len(parts) // 2
    rest = ORDERS[order](" ".join(parts[half:]).split())
    return f"{' '.join(parts[:half])} {rest}", reference


def reworded(artwork: int) -> tuple[str, str]:
    return ARTWORKS[artwork]["faithful"], ARTWORKS[artwork]["reference"]


def padded(artwork: int, padding: str) -> tuple[str, str]:
    return f"{ARTWORKS[artwork]['omitting']} {padding}", ARTWORKS[artwork]["reference"]


STREET = (
    "A tall woman in a red dress holds a basket, and a dog sits on her left. The street behind her "
    "is empty. Two lamps are lit above a green door. On the right a boy leans on a wall."
)
FALSE_CLAIMS = "in its sentences, but with other nouns and adjectives of its own"
BREACHES = (
    Breach("silence", False, "", "A dog."),
    Breach(
        "length_limit", None, *padded(0, ARTWORKS[1]["reference"]), limits=Guards(length_limit=1.0)
    ),
    Breach(
        "repetition_limit", None, *padded(0, ARTWORKS[0]["omitting"]),
        limits=Guards(repetition_limit=0.15),
    ),
    Breach("coverage_floor", 0, *padded(2, f"They are {', '.join(ADJECTIVES)}.")),
    Breach("disorder_limit", 0, *behind_half(0, "long words, by commas")),
    Breach(
        "detail_floor", 0,
        "A woman, a dress, a basket, a dog, a street, a lamp, a door, a boy and a wall.", STREET,
    ),
    Breach("loose_weight", 0, *behind_half(0, FALSE_CLAIMS)),
    Breach(
        "free_words", 0, "Long train on one of several tracks near a train station.",
        "A passenger train is arriving at a station that has many tracks.", honest=True,
    ),
    Breach(
        "list_entities", 5, "A street at night with cars and lights and people.",
        "People cross a busy street between cars at night, under bright lights.", honest=True,
    ),
    Breach("bare_list_entities", 8, "A woman, a dress, a basket, a dog and a boy.", STREET),
    Breach("bare_entities", 0, *reworded(13), honest=True),
    Breach("bare_share", 0, *reworded(19), honest=True),
    Breach("lacking_entities", 0, *reworded(15), honest=True),
    Breach("fabricated_share", 0, *reworded(17), honest=True),
    Breach("fabricated_mistakes", 0, *behind_half(0, FALSE_CLAIMS)),
)  # fmt: skip


@cache
def reward() -> PoshReward:
    return PoshReward(PoSh(processes=1))


def score(breach: Breach) -> Scores:
    [scores] = reward().scores(*reward().batch([breach.text], {"reference": [breach.reference]}))
    return scores


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: str(breach.limit))
def test_a_text_breaks_its_law_without_the_limit(breach: Breach) -> None:
    scores = score(breach)
    changed: dict[str, Any] = {breach.limit: breach.without}
    limits = replace(breach.limits, **changed)
    paid = shape_reward(scores, Shaping(guards=breach.limits))
    without = shape_reward(scores, Shaping(guards=limits))
    assert paid is not None
    assert without is not None
    assert (paid - without if breach.honest else without - paid) > MIN_CHANGE


def test_every_limit_has_a_text() -> None:
    assert {each.name for each in fields(Guards)} - {BY_A_WITNESS} == {b.limit for b in BREACHES}
    table = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
    assert [each.name for each in fields(Guards) if f"\n| `{each.name}` " not in table] == []
