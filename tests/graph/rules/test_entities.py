from __future__ import annotations

from posh_reward.graph.rules.build import build
from posh_reward.types import Attribute, Clusters
from tests.parses import parse


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


def test_a_side_that_is_named_once_is_not_flagged() -> None:
    (entity,) = build(parse("our/PRON/poss/1 right/NOUN/ROOT/1"), ()).entities
    assert not entity.flagged


def test_adjectives_are_attributes() -> None:
    assert attributes("old/ADJ/amod/2 market/NOUN/compound/2 town/NOUN/ROOT/2") == [
        ("town", "old"),
        ("town", "market"),
    ]


def test_possessives_are_no_attributes() -> None:
    assert attributes("her/PRON/poss/1 head/NOUN/ROOT/1", DOG, clusters=(((0, 0), (3, 3)),)) == [
        ("dog", "barks")
    ]


def test_a_verb_without_an_object_describes_its_subject() -> None:
    assert attributes("man/NOUN/nsubj/1 bends/VERB/ROOT/1 over/ADP/prep/1") == [
        ("man", "bends over")
    ]


def test_a_verb_with_any_object_is_no_attribute() -> None:
    assert attributes("man/NOUN/nsubj/1 holds/VERB/ROOT/1 two/NUM/dobj/1") == []
    assert attributes("man/NOUN/nsubj/1 seen/VERB/ROOT/1 from/ADP/prep/1 afar/ADV/pobj/2") == []


def test_objects_of_prepositions_before_the_verb_do_not_count() -> None:
    sentence = "On/ADP/prep/3 grass/NOUN/pobj/0 cows/NOUN/nsubj/3 graze/VERB/ROOT/3"
    assert attributes(sentence) == [("cows", "graze")]


def test_equal_attributes_of_one_entity_are_one() -> None:
    red_dog = "red/ADJ/amod/1 dog/NOUN/ROOT/1"
    graph = build(parse(red_dog, red_dog), (((1, 1), (3, 3)),))
    assert graph.entities[0].attributes == (Attribute("red", (0, 1), ((0, 3), (8, 11))),)


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
