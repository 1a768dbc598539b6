"""Negations: their scope, both directions, and claims of roles and places."""

from __future__ import annotations

import pytest

from posh_reward import PoSh
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
