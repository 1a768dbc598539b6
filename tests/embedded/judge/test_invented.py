"""Nothing invented is clear, however long the text and however much of it is true."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.types import Element

SCENES = Path(__file__).parents[3] / "research" / "scenes" / "written.jsonl"
PEOPLE = ("monkey", "robot", "skier", "plumber", "walrus", "astronaut")
DEEDS = ("holds", "pushes", "kicks", "paints", "is tied to", "stands behind", "sits on", "throws")
THINGS = ("kite", "wheelbarrow", "trombone", "parachute", "microscope", "surfboard", "tractor")
MAX_GRADE = 3.0
MIN_CLEAR_GRADE = 4.0
MIN_MARKED = 0.95  # of relations


@cache
def metric() -> PoSh:
    return PoSh(processes=1)


def grade_invention(number: int, shared: int) -> list[Element]:
    """Grade a sentence about what the reference lacks, behind some of the reference's own."""
    rng = random.Random(1000 * number + shared)
    scene = json.loads(SCENES.read_text(encoding="utf-8").splitlines()[number])
    person, thing = (
        rng.choice([word for word in words if word not in scene["reference"]])
        for words in (PEOPLE, THINGS)
    )
    invention = f"A {person} {rng.choice(DEEDS)} a {thing}."
    text = " ".join([*scene["honest"][:shared], invention])
    [scores] = metric().score([text], [" ".join(scene["honest"])])
    start = len(text) - len(invention)
    return [
        each
        for each in scores.elements
        if each.direction == "precision" and each.spans[0][0] >= start
    ]


@pytest.mark.parametrize("shared", [0, 3, 6, 10])
def test_relations_of_invented_things_are_mistakes(shared: int) -> None:
    for number in range(12):
        elements = grade_invention(number, shared)
        relations = [each for each in elements if each.kind == "relation"]
        assert relations
        assert [each for each in elements if (each.grade or 5) >= MAX_GRADE] == []


@pytest.mark.slow
def test_many_inventions_are_mistakes_and_none_is_clear() -> None:
    """A plumber may be one of the reference's persons by another name."""
    elements: list[Element] = []
    for number in range(100):
        elements += grade_invention(number, shared=8)
    assert max(each.grade or 5 for each in elements) < MIN_CLEAR_GRADE
    relations = [each for each in elements if each.kind == "relation"]
    marked = [each for each in relations if (each.grade or 5) < MAX_GRADE]
    assert len(marked) >= MIN_MARKED * len(relations)


def test_readmes_example_is_true() -> None:
    """Of the two texts in its first lines, the letter and the reading are what is left out."""
    [scores] = metric().score(
        ["A woman in a blue dress holds a cup."], ["A woman in a red dress reads a letter."]
    )
    marked = {
        (each.direction, each.text) for each in scores.elements if (each.grade or 5) < MAX_GRADE
    }
    assert marked == {
        ("precision", "blue"), ("precision", "cup"), ("precision", "holds"),
        ("recall", "red"), ("recall", "letter"), ("recall", "reads"),
    }  # fmt: skip
