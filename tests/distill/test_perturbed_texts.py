"""Mistakes and omissions of known kind, put into true texts."""

import random
from collections import Counter
from statistics import mean

import pytest

from posh_reward import PoSh
from posh_reward.distill.question_set import DonorWords, perturb_text
from posh_reward.graph.reader import Reader
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
        found = perturb_text(original, stock, random.Random(seed), edits=1)
        assert found is not None
        [edit] = found.edits
        kinds[edit.kind, edit.action] += 1
        assert found.text != original.text
        assert edit.before in original.text
        assert edit.after.lower() in found.text.lower()
        if edit.action == "left out":
            assert len(found.text) < len(original.text)
    assert len(kinds) == 9, "three kinds by three actions"


def test_mistakes_lower_precision_and_omissions_recall(
    described: list[Description], stock: DonorWords
) -> None:
    changed: dict[str, list[tuple[str, str]]] = {"added": [], "left out": []}
    for original in described:
        for seed in range(20):
            found = perturb_text(original, stock, random.Random(seed), edits=1)
            if found and found.edits[0].action in changed:
                changed[found.edits[0].action].append((found.text, original.text))
    added, less = (PoSh().score(*zip(*pairs, strict=True)) for pairs in changed.values())
    assert mean(s.precision or 0 for s in added) < mean(s.precision or 0 for s in less)
    assert mean(s.recall or 0 for s in less) < mean(s.recall or 0 for s in added)
