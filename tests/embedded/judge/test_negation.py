"""Negations: their scope, both directions, and claims of roles and places."""

from __future__ import annotations

import pytest

from posh_reward import PoSh, PoshReward
from posh_reward.embedded.judge.negation import find_denied_tokens
from posh_reward.graph.reader import Reader
from posh_reward.types import Description


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("The man is not holding the red ball.", "not holding"),
        ("No man is riding a horse on the beach.", "man riding horse on"),
        ("The sky is not red but blue.", "is not red"),
        ("The clock is not on the wall.", "is not on wall"),
        ("The child fails to catch the ball.", "catch"),
        ("Neither the man nor the woman wears a hat.", "wears hat"),
        ("The tree no longer has leaves.", "no longer has leaves"),
        ("The road lacks trees.", "lacks trees"),
        ("A cat is not laying on a sofa and the dog runs.", "not laying on sofa"),
        ("A cat and a dog are missing from the room.", "cat dog"),
        ("Neither a girl nor a cat.", "girl cat"),
        ("A man without a hat and a coat stands.", "without hat coat"),
        ("Does a man ride?", "does a man ride ?"),
        ("We look in vain for a dog and a cat.", "for dog cat"),
        ("The girl reaches in vain for the ball.", ""),
        ("If there were a dog, it would run.", "if there were a dog , would run ."),
        ("He looks as if he would fall.", ""),
        ('Someone wrote: "A dog sleeps."', "a dog sleeps ."),
        ("One might think that a dog sleeps.", "that a dog sleeps ."),
        ("I think a dog sleeps.", ""),
        ('A scroll that says "Hail" and "Mary is blessed".', ""),
        ('The artist wrote "Ave Maria" below.', ""),
        ("She refuses to sit and to read a book.", "sit read book"),
        ('A sign says "Who cares?"', ""),
        ("According to a neighbour, a dog sleeps.", "according to a neighbour , a dog sleeps ."),
        ("A dog sleeps on it, according to a man.", "a dog sleeps on it , according to a man ."),
        ("According to the sign, a dog sleeps.", ""),
        ("The man supposedly holds a ball.", "supposedly holds ball"),
        ("A supposedly red dog sleeps.", "supposedly red"),
        ("It is rumoured that a dog sleeps.", "that a dog sleeps ."),
        ("It seems that a dog sleeps.", ""),
        ("She wears nothing but a hat.", ""),
        ("Not only the man but also the woman sits.", ""),
        ("She looks not at us but at the sea.", "looks not at"),
        ("There is no wine, only water.", "wine"),
        ("It would be untrue to say that a dog sleeps.", "that a dog sleeps ."),
        ("That a dog sleeps is a lie.", "that a dog sleeps is a lie ."),
        ("It is not the case that a dog sleeps.", "is not case that a dog sleeps ."),
        ("If only a dog slept.", "if only a dog slept ."),
        ("I deny that a dog sleeps.", "that a dog sleeps ."),
        ("A dog sleeps, which is false.", "a dog sleeps , is false ."),
        ("Instead of a hat, she wears a scarf.", "hat"),
        ("The man hardly touches the ball.", "hardly touches"),
        ("In another picture, a dog sleeps.", "in another picture , a dog sleeps ."),
        ("In the other picture on the wall a dog sleeps.", ""),
        ("A false door that opens to a garden stands on the wrong side.", ""),
        ("He makes the mistake that a dog sees.", ""),
    ],
)
def test_the_scope_of_a_negation(text: str, denied: str) -> None:
    [read] = Reader().read([text])
    assert isinstance(read, Description)
    words = [read.tokens[i].text.lower() for i in sorted(find_denied_tokens(read.tokens))]
    assert words == denied.split()


def lowest(text: str, reference: str) -> float:
    """The lowest grade of an element of ``text``."""
    [scores] = PoSh().score([text], [reference])
    return min(e.grade or 0 for e in scores.elements if e.direction == "precision")


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("A dog sits.", "There is no dog."),
        ("A man is holding the red ball.", "A man is not holding the red ball."),
        ("A man stands in a hat.", "A man stands without a hat."),
        ("The clock is on the wall.", "It is false that the clock is on the wall."),
    ],
)
def test_what_one_text_says_and_the_other_denies_is_false(true: str, false: str) -> None:
    assert lowest(false, true) < 1.5
    assert lowest(true, false) < 1.5


@pytest.mark.parametrize(
    ("false", "reference"),
    [
        ("A sheep shears a man.", "A man shears a sheep."),
        ("Men wash a car while girls look on.", "Girls wash a car while men look on."),
        ("A red hydrant stands near a green sign.", "A green hydrant stands near a red sign."),
        ("A dog sleeps under the table.", "A dog sleeps on the table."),
    ],
)
def test_exchanged_roles_colours_and_places_are_false(false: str, reference: str) -> None:
    assert lowest(false, reference) < 3
    assert lowest(reference, reference) > 4


def test_a_passive_keeps_its_roles() -> None:
    assert lowest("A sheep is sheared by a man.", "A man shears a sheep.") > 3
    assert lowest("A man is sheared by a sheep.", "A man shears a sheep.") < 3


@pytest.mark.parametrize(
    "text",
    ["A cook cuts onions.", "The maid irons shirts.", "A duck swims on the pond.",
     "A man drinks coffee."],
)  # fmt: skip
def test_a_verb_like_a_plural_noun_has_its_subject(text: str) -> None:
    [read] = Reader().read([text])
    assert isinstance(read, Description)
    assert [read.tokens[t.head].dep for t in read.tokens if t.dep == "nsubj"] == ["ROOT"]


@pytest.mark.parametrize("text", ["A red sports car.", "The street lights at night."])
def test_a_plural_noun_is_no_verb(text: str) -> None:
    [read] = Reader().read([text])
    assert isinstance(read, Description)
    assert not any(t.pos == "VERB" for t in read.tokens)


@pytest.mark.parametrize("frame", [
    "It would be untrue to say that {}.", "It is not true that {}.",
    "I deny that {}.", "{}, which is false.", "It is unlikely that {}.", "In another picture, {}.",
    "It is impossible that {}.", "If only {}.", "We doubt that {}.",
])  # fmt: skip
@pytest.mark.parametrize("claim", [
    "a baker slides a peel into the oven",
    "three loaves cool on a rack",
    "the cat sleeps on a sack",
])  # fmt: skip
def test_what_a_text_does_not_assert_is_not_paid(frame: str, claim: str) -> None:
    reference = (
        "A baker slides a long peel into the oven. Three loaves cool on a rack. A cat sleeps on a "
        "sack of flour. A bell hangs over the door."
    )
    text = "A bell hangs over the door."
    sentence = frame.format(claim)
    [plain, asserted, framed] = PoshReward()(
        [], [text, f"{text} {claim.capitalize()}.", f"{text} {sentence[0].upper()}{sentence[1:]}"],
        reference=[reference] * 3,
    )  # fmt: skip
    assert plain is not None
    assert asserted is not None
    assert framed is not None
    assert framed - plain < 0.2 * (asserted - plain)
    [own] = PoshReward()([], [f"{text} {sentence}"], reference=[f"{text} {sentence}"])
    assert own is not None
    assert own >= 0.95
