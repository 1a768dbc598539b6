"""Preset "mended": each sentence as released, and as mended."""

from __future__ import annotations

from spacy.tokens import Doc

from posh_reward.graph.reader import build
from posh_reward.types import Clusters, SceneGraph
from tests.parses import VOCAB, parse

Told = list[tuple[str, str]] | list[tuple[str, str, str]]


def graphs(*sentences: str, clusters: Clusters = ()) -> tuple[SceneGraph, SceneGraph]:
    """The released and the mended graph of sentences."""
    doc = parse(*sentences)
    return build(doc, clusters), build(doc, clusters, mended=True)


def heads(*sentences: str) -> tuple[list[str], list[str]]:
    released, mended = graphs(*sentences)
    return [e.head for e in released.entities], [e.head for e in mended.entities]


def attributes(*sentences: str, clusters: Clusters = ()) -> tuple[Told, Told]:
    """Entity and attribute, of each attribute: as released, as mended."""
    released, mended = (
        [(entity.head, a.text) for entity in graph.entities for a in entity.attributes]
        for graph in graphs(*sentences, clusters=clusters)
    )
    return released, mended


def relations(*sentences: str) -> tuple[Told, Told]:
    """Subject, text and object of each relation: as released, as mended."""
    released, mended = (
        [(g.entities[r.subject].head, r.text, g.entities[r.object].head) for r in g.relations]
        for g in graphs(*sentences)
    )
    return released, mended


def test_a_joined_verb_has_no_object_from_before() -> None:
    assert relations(
        "child/NOUN/nsubj/1 has/VERB/ROOT/1 shoes/NOUN/dobj/1 and/CCONJ/cc/1 "
        "gazes/VERB/conj/1 at/ADP/prep/4 us/PRON/pobj/5"
    ) == (
        [("child", "has", "shoes"), ("shoes", "gazes at", "us")],
        [("child", "has", "shoes"), ("child", "gazes at", "us")],
    )


def test_a_joined_verb_shares_an_object_that_follows_both() -> None:
    sentence = (
        "She/PRON/nsubj/1 holds/VERB/ROOT/1 and/CCONJ/cc/1 strokes/VERB/conj/1 cats/NOUN/dobj/1"
    )
    released, mended = relations(sentence)
    assert released == mended
    assert ("She", "strokes", "cats") in mended


def test_a_description_from_before_ends_at_an_article() -> None:
    assert attributes(
        "old/ADJ/amod/1 man/NOUN/nsubj/5 and/CCONJ/cc/1 a/DET/det/4 woman/NOUN/conj/1 "
        "read/VERB/ROOT/5"
    ) == (
        [("man", "old"), ("man", "read"), ("woman", "old"), ("woman", "read")],
        [("man", "old"), ("man", "read"), ("woman", "read")],
    )


def test_nouns_of_one_article_share_their_description() -> None:
    released, mended = attributes("red/ADJ/amod/1 coat/NOUN/ROOT/1 and/CCONJ/cc/1 hat/NOUN/conj/1")
    assert released == mended == [("coat", "red"), ("hat", "red")]


def test_what_follows_both_holds_of_both_whatever_the_second_does() -> None:
    assert attributes(
        "shoes/NOUN/nsubj/4 and/CCONJ/cc/0 blades/NOUN/conj/0 hanging/VERB/acl/2 glint/VERB/ROOT/4"
    ) == (
        [("shoes", "glint"), ("blades", "hanging")],
        [("shoes", "glint"), ("blades", "hanging"), ("blades", "glint")],
    )


def test_what_stands_between_belongs_to_the_first() -> None:
    assert relations(
        "man/NOUN/ROOT/0 with/ADP/prep/0 hats/NOUN/pobj/1 and/CCONJ/cc/0 woman/NOUN/conj/0"
    ) == ([("man", "with", "hats"), ("woman", "with", "hats")], [("man", "with", "hats")])


def test_white_space_is_no_entity() -> None:
    words, pos = ["dogs", " "], ["NOUN", "PROPN"]
    spaced = Doc(VOCAB, words=words, pos=pos, heads=[0, 0], deps=["ROOT", "dep"])
    assert [e.head for e in build(spaced, ()).entities] == ["dogs", " "]
    assert [e.head for e in build(spaced, (), mended=True).entities] == ["dogs"]


def test_our_left_is_flagged_from_the_first_time() -> None:
    released, mended = graphs("to/ADP/ROOT/0 our/PRON/poss/2 left/NOUN/pobj/0")
    assert not released.entities[0].flagged
    assert mended.entities[0].left


BOY = "boy/NOUN/ROOT/0 who/PRON/nsubj/2 holds/VERB/relcl/0 cups/NOUN/dobj/2"


def test_relative_pronouns_are_no_entities() -> None:
    assert heads(BOY) == (["boy", "who", "cups"], ["boy", "cups"])
    assert relations(BOY) == (
        [("boy", "holds", "cups"), ("who", "holds", "cups")],
        [("boy", "holds", "cups")],
    )


def test_a_relative_clause_describes_and_places_what_it_belongs_to() -> None:
    sentence = (
        "boy/NOUN/ROOT/0 who/PRON/nsubj/2 is/AUX/relcl/0 tall/ADJ/acomp/2 and/CCONJ/cc/3 "
        "thin/ADJ/conj/3 on/ADP/prep/2 rocks/NOUN/pobj/6"
    )
    assert attributes(sentence) == ([], [("boy", "tall"), ("boy", "thin")])
    assert relations(sentence) == ([], [("boy", "on", "rocks")])


def test_a_relative_pronoun_that_is_an_object_stays() -> None:
    sentence = "cup/NOUN/ROOT/0 that/PRON/dobj/3 she/PRON/nsubj/3 holds/VERB/relcl/0"
    assert heads(sentence) == (["cup", "that", "she"], ["cup", "that", "she"])


TALL = "She/PRON/nsubj/1 is/AUX/ROOT/1 tall/ADJ/acomp/1 and/CCONJ/cc/2 thin/ADJ/conj/2"


def test_a_predicate_adjective_describes_what_its_pronoun_refers_to() -> None:
    woman = "woman/NOUN/nsubj/1 walks/VERB/ROOT/1"
    assert attributes(woman, TALL, clusters=(((0, 0), (2, 2)),)) == (
        [("woman", "walks")],
        [("woman", "walks"), ("woman", "tall"), ("woman", "thin")],
    )


def test_a_pronoun_that_is_only_described_and_refers_to_nothing_is_no_entity() -> None:
    assert heads(TALL) == ([], [])


def test_a_predicate_adjective_stays_in_its_clause() -> None:
    assert attributes(
        "Edges/NOUN/nsubj/1 are/AUX/ROOT/1 blurry/ADJ/acomp/1 and/CCONJ/cc/1 "
        "walls/NOUN/nsubj/5 are/AUX/conj/1 white/ADJ/acomp/5"
    ) == (
        [("Edges", "blurry"), ("walls", "blurry"), ("walls", "white")],
        [("Edges", "blurry"), ("walls", "white")],
    )


def test_a_verb_with_a_subject_of_its_own_does_not_take_the_auxiliary_s() -> None:
    assert attributes(
        "Edges/NOUN/nsubj/1 are/AUX/ROOT/1 blurry/ADJ/acomp/1 and/CCONJ/cc/1 "
        "men/NOUN/nsubj/5 run/VERB/conj/1"
    ) == (
        [("Edges", "blurry"), ("Edges", "run"), ("men", "run")],
        [("Edges", "blurry"), ("men", "run")],
    )


def test_a_joined_clause_without_a_subject_has_the_first_one_s() -> None:
    assert attributes(
        "Sky/NOUN/nsubj/1 is/AUX/ROOT/1 blue/ADJ/acomp/1 and/CCONJ/cc/1 is/AUX/conj/1 "
        "bright/ADJ/acomp/4"
    ) == ([("Sky", "blue")], [("Sky", "blue"), ("Sky", "bright")])


def test_adjectives_of_a_describing_noun_describe_the_noun() -> None:
    assert attributes("rough/ADJ/amod/1 tree/NOUN/compound/2 trunk/NOUN/ROOT/2") == (
        [("trunk", "tree")],
        [("trunk", "rough"), ("trunk", "tree")],
    )
    assert attributes(
        "gray/NOUN/nmod/3 and/CCONJ/cc/0 white/ADJ/conj/0 floor/NOUN/ROOT/3"
    ) == ([("floor", "gray")], [("floor", "gray"), ("floor", "white")])  # fmt: skip


def test_a_count_of_a_describing_noun_stays_its_own() -> None:
    released, mended = attributes("two/NUM/nummod/1 story/NOUN/compound/2 house/NOUN/ROOT/2")
    assert released == mended == [("house", "story")]


def test_a_preposition_brings_its_own_object_alone() -> None:
    assert relations(
        "woman/NOUN/nsubj/1 sits/VERB/ROOT/1 on/ADP/prep/1 chairs/NOUN/pobj/2 "
        "at/ADP/prep/1 tables/NOUN/pobj/4"
    ) == (
        [("woman", "sits on", "chairs"), ("woman", "sits on at", "tables")],
        [("woman", "sits on", "chairs"), ("woman", "sits at", "tables")],
    )
    assert relations(
        "boats/NOUN/nsubj/1 flank/VERB/ROOT/1 quay/NOUN/dobj/1 to/ADP/prep/1 one/NUM/pobj/3 "
        "by/ADP/prep/1 bridges/NOUN/pobj/5"
    ) == (
        [("quay", "to by", "bridges"), ("boats", "flank", "quay")],
        [("quay", "by", "bridges"), ("boats", "flank", "quay")],
    )


def test_a_preposition_without_an_object_stays_in_the_text() -> None:
    sentence = (
        "cat/NOUN/nsubj/1 comes/VERB/ROOT/1 from/ADP/prep/1 behind/ADP/prep/2 walls/NOUN/pobj/3"
    )
    assert relations(sentence)[1] == [("cat", "comes from behind", "walls")]


def test_joined_objects_are_all_placed() -> None:
    released, mended = relations(
        "clouds/NOUN/nsubj/1 add/VERB/ROOT/1 depth/NOUN/dobj/1 and/CCONJ/cc/2 contrast/NOUN/conj/2 "
        "to/ADP/prep/1 scenes/NOUN/pobj/5"
    )
    assert set(mended) - set(released) == {("contrast", "to", "scenes")}


def test_what_is_somewhere_is_placed_there() -> None:
    assert relations(
        "cup/NOUN/nsubj/1 is/AUX/ROOT/1 on/ADP/prep/1 tables/NOUN/pobj/2"
    ) == ([], [("cup", "on", "tables")])  # fmt: skip


def test_to_be_is_nothing_that_one_does() -> None:
    sentence = "There/PRON/expl/1 are/VERB/ROOT/1 women/NOUN/attr/1 in/ADP/prep/1 parks/NOUN/pobj/3"
    assert relations(sentence) == ([], [("women", "in", "parks")])
    assert attributes("marks/NOUN/nsubj/1 are/VERB/ROOT/1") == ([("marks", "are")], [])


def test_a_place_named_first_is_that_of_the_subject() -> None:
    cows = "On/ADP/prep/3 grass/NOUN/pobj/0 cows/NOUN/nsubj/3 graze/VERB/ROOT/3"
    assert relations(cows) == ([], [("cows", "On", "grass")])


def test_a_place_named_first_says_nothing_of_who_acts_on_an_object() -> None:
    sentence = "In/ADP/prep/3 hands/NOUN/pobj/0 he/PRON/nsubj/3 holds/VERB/ROOT/3 cups/NOUN/dobj/3"
    assert relations(sentence) == ([("he", "holds", "cups")], [("he", "holds", "cups")])


def test_equal_evidence_is_listed_once() -> None:
    released, mended = graphs(
        "trunk/NOUN/nsubj/2 itself/PRON/nsubj/2 has/VERB/ROOT/2 marks/NOUN/dobj/2",
        clusters=(((0, 0), (1, 1)),),
    )
    assert [r.spans for r in released.relations] == [((13, 16), (13, 16))]
    assert [(r.spans, r.sentences) for r in mended.relations] == [(((13, 16),), (0,))]
