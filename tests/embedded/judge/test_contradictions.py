"""Sentences that drawn texts contradict for certain; absence and the text itself do not."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posh_reward import PoSh
from tests.laws.texts import draw, load_sentences, split_sentences

COLOURS = ("red", "green", "black", "white")
COUNTS = ("two", "three", "five", "nine")
SIDES = ("left", "right")
REFERENCE = (
    "A {colour} barge lies at a jetty on the {side}, and {count} gulls sit in a row on its rail. "
    "Farther out a sailor hauls in a net, and a lighthouse stands on a rock."
)
OTHER_WORDS = {
    "colour": (
        "The barge is {}.", "A {} barge with birds on its rail is at the jetty.",
        "A barge, which is {}, is tied up.",
    ),
    "count": ("Birds perch on it: {} gulls in a row.", "On the rail {} gulls sit in a row."),
    "side": (
        "On the {}, a barge lies at a jetty.",
        "A barge lies at the jetty on the {}.",
    ),
}  # fmt: skip


@cache
def metric() -> PoSh:
    return PoSh(reader="judge", processes=1)


def read(text: str, reference: str) -> set[str]:
    [scores] = metric().score([text], [reference])
    assert scores.failure is None
    return {each.value for each in scores.sentences}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(COLOURS), st.sampled_from(COUNTS), st.sampled_from(SIDES), st.data())
def test_another_colour_count_or_side_contradicts(
    colour: str, count: str, side: str, data: st.DataObject
) -> None:
    said = {"colour": colour, "count": count, "side": side}
    words = {"colour": COLOURS, "count": COUNTS, "side": SIDES}
    reference = REFERENCE.format(**said)
    dimension = data.draw(st.sampled_from(sorted(words)))
    sentence = data.draw(st.sampled_from(OTHER_WORDS[dimension]))
    value = data.draw(st.sampled_from(words[dimension]))
    expected = "unmentioned" if value == said[dimension] else "contradicted"
    assert read(sentence.format(value), reference) == {expected}


@pytest.mark.parametrize("text", [
    "The barge is old.", "A black flag flies on the lighthouse.", "At least two gulls are there.",
    "A dog sleeps on the left.", "There is no boy on the barge.", "A gull with a red beak waits.",
    "A turquoise barge is moored there.", "The barge is green and white.",
    "Two of the gulls sleep.", "A small red boat with a green-eyed cat passes by.",
    "To the left of the lighthouse a tree grows.", "About nine gulls circle overhead.",
    "A sailor in a white shirt works.",
    "The net is empty, and nobody helps the sailor.",
])  # fmt: skip
def test_what_is_not_mentioned_contradicts_nothing(text: str) -> None:
    assert read(text, REFERENCE.format(colour="green", count="five", side="right")) == {
        "unmentioned"
    }


@pytest.mark.parametrize("kind", load_sentences())
def test_no_text_contradicts_itself(kind: str) -> None:
    for text in draw(load_sentences()[kind], 10):
        own = split_sentences(text)
        random.Random(0).shuffle(own)
        assert "contradicted" not in read(text, " ".join(own)), text
