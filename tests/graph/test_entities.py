"""Entities, and the tokens that a mention is narrowed to."""

import pytest

from posh_reward.errors import InputError
from posh_reward.graph.components import read_syntax
from posh_reward.graph.entities import LEFT, RIGHT, coreference, naming_tokens
from posh_reward.types import Clusters
from tests.parses import build, parse


def heads(*sentences: str, clusters: Clusters = ()) -> list[tuple[str, ...]]:
    """Mentions of each entity."""
    return [entity.heads for entity in build(parse(*sentences), clusters).entities]


def attributes(*sentences: str, clusters: Clusters = ()) -> list[tuple[str, str]]:
    """Head and attribute of each attribute."""
    graph = build(parse(*sentences), clusters)
    return [(entity.head, a.text) for entity in graph.entities for a in entity.attributes]


DOG = "A/DET/det/1 dog/NOUN/nsubj/2 barks/VERB/ROOT/2"
IT = "It/PRON/nsubj/1 runs/VERB/ROOT/1"


def test_each_noun_is_an_entity_in_text_order() -> None:
    assert heads("dogs/NOUN/nsubj/1 chase/VERB/ROOT/1 us/PRON/dobj/1") == [("dogs",), ("us",)]


def test_mentions_of_one_thing_are_one_entity() -> None:
    entity = build(parse(DOG, IT), (((1, 1), (3, 3)),)).entities[0]
    assert entity.head == "dog"
    assert entity.heads == ("dog", "It")
    assert entity.sentences == (0, 1)
    assert entity.spans == ((2, 5), (12, 14))


def test_a_mention_of_two_known_entities_joins_the_earlier() -> None:
    two = "dogs/NOUN/nsubj/1 run/VERB/ROOT/1"
    compound = "our/PRON/nsubj/3 dogs/NOUN/compound/0 cats/NOUN/compound/0 run/VERB/ROOT/3"
    clusters = (((2, 2), (5, 5)), ((0, 0), (6, 6)))
    assert heads(two, two, compound, clusters=clusters)[:2] == [
        ("dogs", "our dogs cats"),
        ("dogs",),
    ]


def test_a_pronoun_that_nothing_is_said_of_is_no_entity() -> None:
    assert heads("it/PRON/nsubj/1 is/AUX/ROOT/1") == []


def test_an_unresolved_pronoun_that_acts_is_an_entity() -> None:
    assert heads(IT) == [("It",)]


def test_the_viewer_and_our_sides_are_flagged() -> None:
    right = "our/PRON/poss/1 right/NOUN/ROOT/1"
    left = "our/PRON/poss/1 left/NOUN/ROOT/1"
    graph = build(parse("We/PRON/nsubj/1 look/VERB/ROOT/1", right, left, right, left), ())
    flags = [(entity.head, entity.us, entity.left, entity.right) for entity in graph.entities]
    assert flags == [
        ("We", True, False, False),
        ("right", False, False, True),
        ("left", False, True, False),
    ]


def test_adjectives_are_attributes() -> None:
    assert attributes(
        "old/ADJ/amod/3 carved/VERB/amod/3 market/NOUN/compound/3 doors/NOUN/ROOT/3 "
        "above/ADV/advmod/3"
    ) == [("doors", "old"), ("doors", "carved"), ("doors", "market"), ("doors", "above")]


def test_a_verb_without_an_object_describes_its_subject() -> None:
    assert attributes("man/NOUN/nsubj/1 bends/VERB/ROOT/1 over/ADP/prep/1") == [
        ("man", "bends over")
    ]


def test_a_verb_with_any_object_is_no_attribute() -> None:
    assert attributes("man/NOUN/nsubj/1 holds/VERB/ROOT/1 two/NUM/dobj/1") == []
    assert attributes("man/NOUN/nsubj/1 seen/VERB/ROOT/1 from/ADP/prep/1 afar/ADV/pobj/2") == []


def test_attributes_stand_in_text_order_whatever_their_kind() -> None:
    sentence = (
        "stand/VERB/ROOT/0 two/NUM/nummod/2 men/NOUN/nsubj/0 tall/ADJ/amod/2 waiting/VERB/acl/2"
    )
    assert attributes(sentence) == [
        ("men", "stand"),
        ("men", "two"),
        ("men", "tall"),
        ("men", "waiting"),
    ]


COUPLE = (
    "The/DET/det/1 man/NOUN/nsubj/6 and/CCONJ/cc/1 his/PRON/poss/5 big/ADJ/amod/5 "
    "dog/NOUN/conj/1 run/VERB/ROOT/6"
)


def words(sentence: str, first: int, last: int) -> list[str]:
    syntax = read_syntax(parse(sentence))
    return [syntax.text[token] for token in naming_tokens(syntax, (first, last))]


def owners(*sentences: str, clusters: Clusters) -> dict[int, int]:
    found = coreference(read_syntax(parse(*sentences)), clusters)
    return dict(found.cluster_of)


def test_a_mention_is_narrowed_to_its_first_nouns() -> None:
    assert words("the/DET/det/2 market/NOUN/compound/2 square/NOUN/ROOT/2", 0, 2) == [
        "market",
        "square",
    ]
    assert words(COUPLE, 0, 5) == ["man"]


def test_the_noun_before_a_hyphen_is_not_the_head() -> None:
    hyphenated = "a/DET/det/4 sky/NOUN/npadvmod/3 -/PUNCT/punct/1 blue/ADJ/amod/4 coat/NOUN/ROOT/4"
    assert words(hyphenated, 0, 4) == ["coat"]


def test_a_mention_ends_with_its_first_sentence() -> None:
    syntax = read_syntax(parse("the/DET/ROOT/0 old/ADJ/dep/0", "The/DET/det/1 dog/NOUN/ROOT/1"))
    assert naming_tokens(syntax, (0, 3)) == [0, 1]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_shorter_mention_has_a_disputed_token(swapped: bool) -> None:
    pair, man = ((0, 5), (6, 6)), ((0, 1), (3, 3))
    clusters = (man, pair) if swapped else (pair, man)
    owner = owners(COUPLE, clusters=clusters)
    assert owner == {1: clusters.index(man), 3: clusters.index(man), 6: clusters.index(pair)}


def sides(*words: str) -> dict[int, int]:
    return owners(
        " ".join(f"{word}/NOUN/ROOT/{i}" for i, word in enumerate(words)),
        clusters=(),
    )


def test_our_left_and_our_right_are_clusters_of_their_own() -> None:
    assert sides("our", "left", "OUR", "Left", "our", "right", "our", "right") == {
        1: LEFT,
        3: LEFT,
        5: RIGHT,
        7: RIGHT,
    }


def test_without_our_left_the_release_takes_our_right_for_it() -> None:
    assert sides("our", "right", "our", "right") == {1: LEFT, 3: LEFT}


def test_a_side_leaves_its_cluster_which_lists_it_still() -> None:
    sentence = "side/NOUN/ROOT/0 our/PRON/poss/2 left/NOUN/dep/0"
    syntax, clusters = read_syntax(parse(sentence)), (((0, 0), (1, 2)),)
    found = coreference(syntax, clusters)
    assert found.cluster_of == {0: 0, 2: LEFT}
    assert found.former == {2: 0}


@pytest.mark.parametrize("mention", [(0, 7), (-1, 0), (2, 1)])
def test_a_mention_outside_the_text_is_refused(mention: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"is not a span of a text with 7 tokens"):
        owners(COUPLE, clusters=((mention, (0, 0)),))


@pytest.mark.parametrize(
    ("sentence", "narrowed"),
    [
        ("the/DET/det/1 boys/NOUN/poss/3 '/PART/case/1 hats/NOUN/ROOT/3", ["boys"]),
        ("a/DET/det/1 tree/NOUN/nsubj/2 's/AUX/ROOT/2 tall/NOUN/attr/2", ["tall"]),
        ("man/NOUN/poss/2 \u2019s/PART/case/0 hat/NOUN/ROOT/2", ["hat"]),
    ],
)
def test_a_possessive_marker_is_known_by_its_text(sentence: str, narrowed: list[str]) -> None:
    """G11: its tag plays no part, and a bare apostrophe is none."""
    last = len(sentence.split()) - 1
    assert words(sentence, 0, last) == narrowed
