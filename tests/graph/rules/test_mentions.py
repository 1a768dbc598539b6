from __future__ import annotations

import pytest

from posh_reward.errors import InputError
from posh_reward.graph.rules.mentions import LEFT, RIGHT, cluster_of_tokens, narrowed
from posh_reward.graph.rules.syntax import read_syntax
from tests.parses import parse

COUPLE = (
    "The/DET/det/1 man/NOUN/nsubj/6 and/CCONJ/cc/1 his/PRON/poss/5 big/ADJ/amod/5 "
    "dog/NOUN/conj/1 run/VERB/ROOT/6"
)


def words(sentence: str, first: int, last: int) -> list[str]:
    syntax = read_syntax(parse(sentence))
    return [syntax.text[token] for token in narrowed(syntax, (first, last))]


def test_a_mention_is_narrowed_to_its_first_nouns() -> None:
    assert words("the/DET/det/2 market/NOUN/compound/2 square/NOUN/ROOT/2", 0, 2) == [
        "market",
        "square",
    ]
    assert words(COUPLE, 0, 5) == ["man"]


def test_a_possessor_is_not_what_is_possessed() -> None:
    assert words("the/DET/det/1 man/NOUN/poss/3 's/PART/case/1 hat/NOUN/ROOT/3", 0, 3) == ["hat"]


def test_the_noun_before_a_hyphen_is_not_the_head() -> None:
    hyphenated = "a/DET/det/4 sky/NOUN/npadvmod/3 -/PUNCT/punct/1 blue/ADJ/amod/4 coat/NOUN/ROOT/4"
    assert words(hyphenated, 0, 4) == ["coat"]


def test_without_a_noun_the_first_pronoun_stands_for_the_mention() -> None:
    assert words("both/DET/ROOT/0 of/ADP/prep/0 them/PRON/pobj/1", 0, 2) == ["them"]


def test_without_noun_or_pronoun_the_mention_stays_whole() -> None:
    assert words("the/DET/det/1 first/ADJ/ROOT/1", 0, 1) == ["the", "first"]


def test_a_mention_ends_with_its_first_sentence() -> None:
    syntax = read_syntax(parse("the/DET/ROOT/0 old/ADJ/dep/0", "The/DET/det/1 dog/NOUN/ROOT/1"))
    assert list(narrowed(syntax, (0, 3))) == [0, 1]


def test_clusters_of_one_mention_are_ignored() -> None:
    assert cluster_of_tokens(read_syntax(parse(COUPLE)), (((0, 1),),)) == {}


@pytest.mark.parametrize("swapped", [False, True])
def test_the_shorter_mention_has_a_disputed_token(swapped: bool) -> None:
    pair, man = ((0, 5), (6, 6)), ((0, 1), (3, 3))
    clusters = (man, pair) if swapped else (pair, man)
    owner = cluster_of_tokens(read_syntax(parse(COUPLE)), clusters)
    assert owner == {1: clusters.index(man), 3: clusters.index(man), 6: clusters.index(pair)}


def test_of_equally_short_mentions_the_first_has_the_token() -> None:
    owner = cluster_of_tokens(read_syntax(parse(COUPLE)), (((1, 1), (3, 3)), ((1, 1), (6, 6))))
    assert owner == {1: 0, 3: 0, 6: 1}


def sides(*words: str) -> dict[int, int]:
    text = " ".join(f"{word}/NOUN/ROOT/{i}" for i, word in enumerate(words))
    return cluster_of_tokens(read_syntax(parse(text)), ())


def test_our_left_and_our_right_are_clusters_of_their_own() -> None:
    assert sides("our", "left", "OUR", "Left", "our", "right", "our", "right") == {
        1: LEFT,
        3: LEFT,
        5: RIGHT,
        7: RIGHT,
    }


def test_a_side_that_is_named_once_is_no_cluster() -> None:
    assert sides("our", "left", "our", "right", "the", "left") == {}


@pytest.mark.parametrize("mention", [(0, 7), (-1, 0), (2, 1)])
def test_a_mention_outside_the_text_is_refused(mention: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"no span of a text with 7 tokens"):
        cluster_of_tokens(read_syntax(parse(COUPLE)), ((mention, (0, 0)),))
