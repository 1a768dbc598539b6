"""Only elements are evidence for the embedded judge, and their order and attachment count."""

from __future__ import annotations

import random

import pytest

from posh_reward import PoSh
from posh_reward.metrics.posh.judges.embedded.reading import Reading
from posh_reward.types import Description

REFERENCE = (
    "A tall woman in a red dress stands to our left, holding a yellow basket. To her right, a "
    "small brown dog sleeps under a wooden table. Behind them, an old man reads a letter."
)
OMITTING = "A woman in a dress stands to our left. A dog sleeps under a table."


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


def f1(posh: PoSh, text: str) -> float:
    [score] = posh.score([text], [REFERENCE])
    assert score.f1 is not None
    return score.f1


def test_words_that_no_element_covers_are_no_evidence() -> None:
    [read] = PoSh().reader.read(["A dog sleeps. Tall's red's yellow's basket's."])
    assert isinstance(read, Description)
    words = {word for word, _ in Reading(read).places}
    assert {"dog", "sleeps"} <= words
    spans = [s for e in read.graph.entities for s in e.spans]
    spans += [s for e in read.graph.entities for a in e.attributes for s in a.spans]
    spans += [s for relation in read.graph.relations for s in relation.spans]
    assert words <= {w.strip("'.").lower() for a, b in spans for w in read.text[a:b].split()}


@pytest.mark.parametrize(
    "padding",
    [
        "Tall's red's yellow's small's brown's old's.",
        "We tall. We red. We hold. We sleep. We read.",
    ],
)
def test_loose_words_do_not_pay(posh: PoSh, padding: str) -> None:
    assert f1(posh, f"{OMITTING} {padding}") <= f1(posh, OMITTING) + 0.002


def test_words_in_disorder_say_less_than_in_order(posh: PoSh) -> None:
    words = REFERENCE.replace(",", "").replace(".", "").split()
    bags = [" ".join(random.Random(seed).sample(words, len(words))) + "." for seed in range(5)]
    assert max(f1(posh, bag) for bag in bags) < f1(posh, REFERENCE) - 0.1
