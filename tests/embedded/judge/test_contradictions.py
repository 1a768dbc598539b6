"""Sentences that drawn texts contradict for certain; absence and the text itself do not."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posh_reward import PoSh
from tests.laws.texts import draw, load_sentences, split_sentences

TEMPTING = Path(__file__).with_name("tempting.jsonl")
"""31 references, each with honest sentences that tempt rules about numbers, sides, colours,
negations and frames; those of the second of two hands have false ones, too, and true claims in
frames that do not assert them. The rules were adjusted to it later, so it only guards against a
relapse."""
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
NUMBERS = ("no", *"one two three four five six seven eight nine ten eleven twelve".split())
WHOLE = "By the pier {} white gulls sit on a rail."
PARTS = (
    "By the pier {} white gulls sit on a rail, and {} more gulls sit there.",
    "By the pier {} white gulls sit on a rail. {} others sit there, too.",
    "{} white gulls sit on a rail by the pier, and {} other gulls beside them.",
    "By the pier {} white gulls sit on a rail on the left and {} on the right.",
)


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


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(PARTS), st.booleans())
def test_the_parts_of_a_count_do_not_contradict_it(
    some: int, rest: int, sentence: str, swapped: bool
) -> None:
    parts = sentence.format(NUMBERS[some], NUMBERS[rest]).replace("one gulls", "one gull")
    whole = WHOLE.format(NUMBERS[some + rest])
    assert "contradicted" not in read(*((whole, parts) if swapped else (parts, whole)))


def test_a_narrower_name_may_count_a_part() -> None:
    reference = "Six children play in a yard."
    assert read("Four boys play in the yard.", reference) == {"unmentioned"}
    assert read("Eight boys play in the yard.", reference) == {"contradicted"}
    assert read("Four children play in the yard.", reference) == {"contradicted"}


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([("full", "empty"), ("open", "closed"), ("wet", "dry"), ("high", "low")]),
    st.sampled_from(["half", "partly", "almost", "nearly", "slightly"]), st.booleans(),
)  # fmt: skip
def test_a_qualified_word_excludes_no_opposite(
    poles: tuple[str, str], adverb: str, swapped: bool
) -> None:
    a, b = poles[::-1] if swapped else poles
    text, reference = f"The jar is {adverb} {a}.", f"The jar is {adverb} {b}."
    assert read(text, reference) == {"unmentioned"}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["boat", "gull", "church", "child"]), st.sampled_from([
    "She is not looking at the camera but at the {}.", "She isn't looking at us but at the {}.",
    "She does not look down, but at the {}.", "She looks not at the camera but at the {}.",
    "There is no painter she looks at, only the {}.",
]))  # fmt: skip
def test_what_follows_a_contrast_is_stated(thing: str, sentence: str) -> None:
    reference = f"A woman in a blue coat looks at a {thing}."
    text = f"A woman in a blue coat. {sentence.format(thing)}"
    assert "contradicted" not in read(text, reference)


@pytest.mark.parametrize("kind", load_sentences())
def test_no_text_contradicts_itself(kind: str) -> None:
    for text in draw(load_sentences()[kind], 10):
        own = split_sentences(text)
        random.Random(0).shuffle(own)
        assert "contradicted" not in read(text, " ".join(own)), text


@pytest.mark.slow
def test_honest_sentences_that_tempt_are_hardly_ever_contradicted() -> None:
    """Of ``tempting.jsonl``, also how many of the false ones are found."""
    rows = [json.loads(line) for line in TEMPTING.read_text(encoding="utf-8").splitlines()]
    shares = {}
    for kind in ("honest", "false"):
        texts: list[str] = []
        references: list[str] = []
        for row in rows:
            texts += row.get(kind, [])
            references += [row["reference"]] * len(row.get(kind, []))
        scores = metric().score(texts, references)
        contradicted = [
            any(each.value == "contradicted" for each in of_one.sentences) for of_one in scores
        ]
        shares[kind] = fmean(contradicted)
    assert shares["honest"] <= 0.01
    assert shares["false"] >= 0.45
