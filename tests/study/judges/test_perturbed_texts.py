"""Mistakes and omissions of known kind, put into true texts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from posh_reward import PoSh
from posh_reward.graph.reader import Reader
from posh_reward.study.judges.perturbed_texts import (
    DonorWords,
    EditDraft,
    perturb,
    sentences,
    swap_attribute,
)
from posh_reward.types import Description

TEXTS = [
    "A tall man in a red coat holds a wooden cup near the window. Two dogs sleep beside him.",
    "An old woman in a blue dress sits under an oak. A small boat lies on the river.",
    "A young shepherd leads three sheep over a green hill. A white house stands behind him.",
    "On the table, there is a yellow vase with large flowers. A black cat sleeps against it.",
]


@pytest.fixture(scope="module")
def described() -> list[Description]:
    return [each for each in Reader().read(TEXTS) if isinstance(each, Description)]


@pytest.fixture(scope="module")
def stock(described: list[Description]) -> DonorWords:
    return DonorWords(described)


def test_each_edit_is_in_the_text_and_what_it_replaces_is_not(
    described: list[Description], stock: DonorWords
) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for seed in range(300):
        original = described[seed % len(described)]
        found = perturb(original, stock, random.Random(seed), edits=1)
        assert found is not None
        [edit] = found.edits
        kinds[edit.kind, edit.action] += 1
        assert found.text != original.text
        assert edit.before in original.text
        assert edit.after.lower() in found.text.lower()
        if edit.action == "left out":
            assert len(found.text) < len(original.text)
    assert len(kinds) == 9, "three kinds by three actions"


def test_equal_seeds_make_equal_texts(described: list[Description], stock: DonorWords) -> None:
    twice = [perturb(described[0], stock, random.Random(7)) for _ in range(2)]
    assert twice[0] == twice[1]


def test_the_article_goes_with_the_word(described: list[Description], stock: DonorWords) -> None:
    for seed in range(300):
        found = perturb(described[1], stock, random.Random(seed)) or described[1]
        for word, after in zip(found.text.split(), found.text.split()[1:], strict=False):
            if word.lower() in ("a", "an"):
                assert (word.lower() == "an") is (after[0].lower() in "aeiou"), found.text


def test_colours_are_swapped_for_colours(described: list[Description], stock: DonorWords) -> None:
    found = [
        change.edit
        for draft in (EditDraft(described[0], stock, random.Random(seed)) for seed in range(200))
        if (change := swap_attribute(draft))
    ]
    colours = {"red", "blue", "green", "white", "yellow", "black"}
    assert {edit.after for edit in found if edit.before == "red"} <= colours - {"red"}


def test_mistakes_lower_precision_and_omissions_recall(
    described: list[Description], stock: DonorWords
) -> None:
    pairs = [
        (found.text, original.text, found.edits[0].action)
        for original in described
        for seed in range(20)
        if (found := perturb(original, stock, random.Random(seed), edits=1))
    ]
    scores = PoSh().score([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    means = {
        (action, axis): sum(values) / len(values)
        for action in ("added", "left out")
        for axis in ("precision", "recall")
        if (
            values := [
                getattr(score, axis)
                for score, pair in zip(scores, pairs, strict=True)
                if pair[2] == action
            ]
        )
    }
    assert means["added", "precision"] < means["left out", "precision"]
    assert means["left out", "recall"] < means["added", "recall"]


def test_a_text_in_which_nothing_can_change_is_left_alone(stock: DonorWords) -> None:
    [bare] = Reader().read(["Nobody"])
    assert isinstance(bare, Description)
    assert [text for text, _, _ in sentences(bare)] == ["Nobody"]
    found = perturb(bare, stock, random.Random(0), edits=1)
    assert found is None or found.edits[0].action == "added"
