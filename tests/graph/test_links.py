from __future__ import annotations

from posh_reward.graph.components import Links, Role, find_components, find_links, read_syntax
from tests.parses import parse


def linked(sentence: str, role: Role) -> list[tuple[str, str]]:
    """Pairs of components with a role between them, as texts, in link order."""
    syntax = read_syntax(parse(sentence))
    components = find_components(syntax)
    links = find_links(syntax, components)
    texts = [syntax.phrase(part.tokens) for part in components]
    return [(texts[i], texts[j]) for i in range(len(texts)) for j in links.ends(i, role)]


def test_an_adjective_describes_its_noun() -> None:
    assert linked("red/ADJ/amod/1 coat/NOUN/ROOT/1", "describes") == [("red", "coat")]


def test_an_adjective_climbs_through_modifiers_to_the_noun() -> None:
    assert linked(
        "dark/ADJ/amod/1 striped/VERB/amod/2 awning/NOUN/ROOT/2", "describes"
    ) == [("dark", "awning"), ("striped", "awning")]  # fmt: skip


def test_a_predicate_adjective_describes_the_nouns_of_its_clause() -> None:
    sentence = "The/DET/det/1 coat/NOUN/nsubj/2 is/AUX/ROOT/2 red/ADJ/acomp/2"
    assert linked(sentence, "describes") == [("red", "coat")]


def test_a_predicate_adjective_describes_no_pronoun() -> None:
    assert linked("It/PRON/nsubj/1 is/AUX/ROOT/1 red/ADJ/acomp/1", "describes") == []


def test_a_predicate_adjective_also_describes_the_nouns_of_a_joined_clause() -> None:
    sentence = (
        "Edges/NOUN/nsubj/1 are/AUX/ROOT/1 blurry/ADJ/acomp/1 and/CCONJ/cc/1 "
        "walls/NOUN/nsubj/5 are/AUX/conj/1 white/ADJ/acomp/5"
    )
    assert linked(sentence, "describes") == [
        ("blurry", "walls"),
        ("blurry", "Edges"),
        ("white", "walls"),
    ]


def test_an_adjective_without_a_noun_above_describes_those_below() -> None:
    sentence = "arms/NOUN/nsubjpass/1 bent/ADJ/ROOT/1 high/ADJ/amod/1 elbow/NOUN/amod/1"
    assert linked(sentence, "describes") == [("bent", "arms")]


def test_the_head_of_a_participle_is_its_subject() -> None:
    assert linked("man/NOUN/ROOT/0 holding/VERB/acl/0 cups/NOUN/dobj/1", "subject") == [
        ("holding", "man")
    ]


def test_a_verb_has_its_own_subjects_and_objects() -> None:
    sentence = "we/PRON/nsubj/1 see/VERB/ROOT/1 two/NUM/dobj/1 and/CCONJ/cc/2"
    assert linked(sentence, "subject") == [("see", "we")]
    assert linked(sentence, "object") == [("see", "two")]


def test_joined_nouns_share_what_is_said_of_the_first() -> None:
    sentence = (
        "old/ADJ/amod/1 men/NOUN/nsubj/4 and/CCONJ/cc/1 women/NOUN/conj/1 "
        "eat/VERB/ROOT/4 bread/NOUN/dobj/4 and/CCONJ/cc/5 soup/NOUN/conj/5"
    )
    assert linked(sentence, "describes") == [("old", "men"), ("old", "women")]
    assert linked(sentence, "subject") == [("eat", "men"), ("eat", "women")]
    assert linked(sentence, "object") == [("eat", "bread"), ("eat", "soup")]


def test_a_joined_noun_keeps_a_description_of_its_own() -> None:
    sentence = (
        "maps/NOUN/ROOT/0 of/ADP/prep/0 old/ADJ/amod/3 towns/NOUN/pobj/1 and/CCONJ/cc/3 "
        "new/ADJ/amod/6 roads/NOUN/conj/3"
    )
    assert linked(sentence, "describes") == [("old", "towns"), ("new", "roads")]
    assert linked(sentence, "place") == [("of", "towns"), ("of", "roads")]


def test_joined_verbs_share_subject_and_object() -> None:
    """The object too, which is a mistake of the release (docs/released_quirks.md)."""
    sentence = (
        "child/NOUN/nsubj/1 has/VERB/ROOT/1 shoes/NOUN/dobj/1 and/CCONJ/cc/1 gazes/VERB/conj/1"
    )
    assert linked(sentence, "subject") == [("has", "child"), ("gazes", "child")]
    assert linked(sentence, "object") == [("has", "shoes"), ("gazes", "shoes")]


def test_joined_prepositions_share_head_and_object() -> None:
    sentence = (
        "birds/NOUN/ROOT/0 over/ADP/prep/0 and/CCONJ/cc/1 under/ADP/conj/1 bridges/NOUN/pobj/3"
    )
    assert linked(sentence, "place_of") == [("over", "birds"), ("under", "birds")]
    assert linked(sentence, "place") == [("over", "bridges"), ("under", "bridges")]


def test_a_borrowed_link_is_known_to_the_borrower_alone() -> None:
    links = Links(2)
    links.borrow(0, "place", 1)
    assert links.ends(0, "place") == [1]
    assert links.roles(1) == {}


def test_the_release_links_things_twice_and_to_themselves() -> None:
    links = Links(2)
    for end in (0, 1, 1):
        links.join(0, "describes", end)
    assert links.ends(0, "describes") == [0, 1, 1]
