"""A sentence of both texts says the same in each, of what has the same name."""

from __future__ import annotations

from functools import cache

import pytest

from posh_reward import PoSh
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.embedded.judge.same_sentences import says_the_same
from posh_reward.types import HIGHEST_GRADE, Description, Kind, Question

CLEAR = pytest.approx(HIGHEST_GRADE, abs=0.05)


@cache
def metric() -> PoSh:
    return PoSh(processes=1)


def read(text: str) -> Description:
    [description] = metric().graph_reader.read([text])
    assert isinstance(description, Description)
    return description


def states(text: str, target: str, kind: Kind, *words: str) -> bool:
    """Whether the target says an element of the text in the same words."""
    source, other = read(text), read(target)
    names = [entity.head.lower() for entity in source.graph.entities]
    said = far = other_end = None
    if kind == "attribute":
        said = words[1]
    elif kind == "relation":
        said, far = words[1:]
        other_end = names.index(far)
    entity = names.index(words[0])
    question = Question("precision", kind, words[0], source, other, entity, said, far, other_end)
    ours, theirs = DescriptionIndex(source), DescriptionIndex(other)
    return says_the_same(ours.statements, theirs.statements, question)


@pytest.mark.parametrize(
    "sentence",
    [
        "Bare branches without leaves reach over a pond that is covered with leaves.",
        "A man in a white shirt and a leather apron holds a boy in a cloth apron.",
        "The larger of the two dogs has a tan patch, and the smaller dog has none.",
    ],
)
def test_what_misleads_within_one_text_does_not(sentence: str) -> None:
    reference = f"It is evening. {sentence} A cart stands by the gate."
    [scores] = metric().score([sentence], [reference])
    own = [each for each in scores.elements if each.direction == "precision"]
    assert [each.grade for each in own] == [CLEAR] * len(own)


def test_marks_and_case_are_no_words() -> None:
    text = "Her red hat lies on the chair."
    assert states(text, '"Her red hat lies on the chair"', "entity", "chair")


def test_a_pronoun_of_another_is_no_evidence() -> None:
    text = "A bride stands in front. She holds a fan."
    assert states(text, f"It is day. {text}", "relation", "bride", "holds", "fan")
    assert not states(
        text, "A soldier stands in front. He holds a fan.", "relation", "bride", "holds", "fan"
    )
    other = "A nun stands in front. She holds a fan."
    assert not states(text, other, "relation", "bride", "holds", "fan")
    assert states(text, other, "entity", "fan")


def test_a_sentence_with_another_word_is_another_one() -> None:
    text = "A red hat lies on the chair."
    assert not states(text, "A blue hat lies on the chair.", "attribute", "hat", "red")
    assert not states(text, "A red hat lies on the chair today.", "attribute", "hat", "red")
    assert states(text, f"Look. {text}", "attribute", "hat", "red")


def test_no_sentence_contradicts_itself() -> None:
    text = (
        "The clock has no hands, but the watch has two. A strand lies on one sleeve, and the other "
        "sleeve is torn. One coat is red and the other coat is blue."
    )
    [scores] = PoSh(reader="judge", processes=1).score([text], [text])
    assert len(scores.sentences) == 3
    assert all(sentence.value != "contradicted" for sentence in scores.sentences)
