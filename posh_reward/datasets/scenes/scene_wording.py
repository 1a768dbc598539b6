"""Describe a scene in plain museum English, left to right, each place before its subject.

``reference`` is complete; ``uneven`` omits details at random, like annotators of differing
diligence. Both use the same phrasing for the same scene.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from posh_reward.datasets.scenes.subjects import GARMENTS, Scene, Subject

PLACES = (
    ("To our left", "On the left"),
    ("At the center", "In the middle"),
    ("To our right", "On the right"),
)
NUMBERS = {1: "a", 2: "two", 3: "three"}
THING_VERBS = {"house": "stands", "tree": "stands", "vase": "stands", "dog": "sits"}
PRONOUNS = {"woman": ("She", "her"), "girl": ("She", "her"), "man": ("He", "his"),
            "boy": ("He", "his")}  # fmt: skip
BESIDE = 0.2  # share of places relative to the previous person: "To her right"
NEW_SENTENCE = 0.4
"""Share of held objects with a separate sentence: "She holds a blue fan."."""
THOROUGH_SHARE = 0.45  # share of thorough annotators; the others are hasty
THOROUGH, HASTY = 0.95, 0.1  # probability that an annotator mentions a detail

Keep = Callable[[], bool]  # draws True to mention the next detail


def reference(scene: Scene) -> str:
    """Return the full description, 20 to 38 words."""
    return _describe(scene, lambda: True)


def uneven(scene: Scene) -> str:
    """Return the same description by an annotator who may omit details."""
    rng = random.Random(f"{scene.uid}/diligence")
    diligence = THOROUGH if rng.random() < THOROUGH_SHARE else HASTY
    return _describe(scene, lambda: rng.random() < diligence)


def _describe(scene: Scene, keep: Keep) -> str:
    rng = random.Random(f"{scene.uid}/wording")
    sentences = []
    nouns: set[str] = set()
    before: Subject | None = None
    for slot, subject in enumerate(scene.slots):
        if subject is not None:
            # Draw both even if unused, so that later draws do not depend on the previous slot.
            place, beside = rng.choice(PLACES[slot]), rng.random() < BESIDE
            if beside and before is not None and before.person:
                place = f"To {PRONOUNS[before.noun][1]} right"
            article = "another" if subject.noun in nouns else "a"
            describe = _person if subject.person else _thing
            sentences.append(f"{place}, {describe(subject, article, rng, keep)}")
            nouns.add(subject.noun)
        before = subject
    return " ".join(sentences)


def _phrase(color: str | None, noun: str, keep: Keep) -> str:
    """E.g. "a red dress", or "a dress" without its colour."""
    return f"a {color} {noun}" if color and keep() else f"a {noun}"


def _person(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a woman in a red dress and a white hat stands, holding a blue fan."."""
    new_sentence = rng.random() < NEW_SENTENCE
    worn = [_phrase(subject.color, GARMENTS[subject.noun], keep)] if keep() else []
    if subject.hat and keep():
        worn.append(_phrase(subject.hat, "hat", keep))
    person = f"{article} {subject.noun}" + (f" in {' and '.join(worn)}" if worn else "")
    posed = subject.pose is not None and keep()
    if subject.behind and keep():
        backdrop = _phrase(subject.behind_color, subject.behind, keep)
        return f"{person} {subject.pose if posed else 'is'} in front of {backdrop}."
    if not (subject.held and keep()):
        return f"{person} {subject.pose}." if posed else f"there is {person}."
    item = _phrase(subject.held_color, subject.held, keep)
    if not posed:
        return f"{person} holds {item}."
    if new_sentence:
        return f"{person} {subject.pose}. {PRONOUNS[subject.noun][0]} holds {item}."
    return f"{person} {subject.pose}, holding {item}."


def _thing(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a small red house stands.", "there is a small red house.", "two birds fly."."""
    there_is = rng.random() < 0.5
    if subject.noun == "bird":
        return _birds(subject, article, there_is, keep)
    words = [article]
    words += [subject.size] if subject.size and keep() else []
    words += [subject.color] if keep() else []
    thing = " ".join([*words, subject.noun])
    return f"there is {thing}." if there_is else f"{thing} {THING_VERBS[subject.noun]}."


def _birds(subject: Subject, article: str, there_is: bool, keep: Keep) -> str:
    color = f"{subject.color} " if keep() else ""
    if subject.count == 1:
        bird = f"{article} {color}bird"
        return f"there is {bird}." if there_is else f"{bird} flies."
    birds = f"{NUMBERS[subject.count]} {color}birds" if keep() else f"{color}birds"
    return f"there are {birds}." if there_is else f"{birds} fly."
