from __future__ import annotations

from spacy.tokens import Doc

from posh_reward.graph.components import find_components, read_syntax
from tests.parses import VOCAB, parse


def test_a_doc_without_annotations_is_one_sentence_of_roots() -> None:
    syntax = read_syntax(Doc(VOCAB, words=["some", "words"]))
    assert syntax.sentence == (0, 0)
    assert syntax.head == (0, 1)
    assert syntax.pos == ("", "")


def test_sentences_are_numbered_from_their_first_tokens() -> None:
    doc = Doc(VOCAB, words=list("abcd"), sent_starts=[False, False, True, False])
    assert read_syntax(doc).sentence == (0, 0, 1, 1)


def components(sentence: str) -> list[tuple[str, str]]:
    """Kind and text of each component."""
    syntax = read_syntax(parse(sentence))
    return [(part.kind, syntax.phrase(part.tokens)) for part in find_components(syntax)]


def test_nouns_pronouns_and_names_are_nouns() -> None:
    assert components(
        "We/PRON/nsubj/1 see/VERB/ROOT/1 Rome/PROPN/dobj/1 and/CCONJ/cc/2 hills/NOUN/conj/2"
    ) == [("noun", "We"), ("verb", "see"), ("noun", "Rome"), ("noun", "hills")]


def test_a_noun_that_describes_a_noun_is_an_adjective() -> None:
    assert components("the/DET/det/2 market/NOUN/compound/2 square/NOUN/ROOT/2") == [
        ("adjective", "market"),
        ("noun", "square"),
    ]


def test_a_compound_after_a_pronoun_belongs_to_it() -> None:
    assert components("her/PRON/ROOT/0 ladyship/NOUN/compound/0") == [("noun", "her ladyship")]


def test_possessives_are_adjectives() -> None:
    assert components("the/DET/det/1 man/NOUN/poss/3 's/PART/case/1 hat/NOUN/ROOT/3") == [
        ("adjective", "man"),
        ("noun", "hat"),
    ]


def test_numbers_participles_and_adverbs_of_nouns_are_adjectives() -> None:
    assert components(
        "two/NUM/nummod/2 carved/VERB/amod/2 doors/NOUN/ROOT/2 above/ADV/advmod/2"
    ) == [("adjective", "two"), ("adjective", "carved"), ("noun", "doors"), ("adjective", "above")]


def test_whatever_is_joined_to_an_adjective_is_an_adjective() -> None:
    assert components("brown/ADJ/ROOT/0 and/CCONJ/cc/0 carved/VERB/conj/0 gold/NOUN/conj/0") == [
        ("adjective", "brown"),
        ("adjective", "carved"),
        ("adjective", "gold"),
    ]


def test_a_verb_takes_the_particles_and_adverbs_after_it() -> None:
    assert components(
        "slowly/ADV/advmod/1 holds/VERB/ROOT/1 it/PRON/dobj/1 up/ADP/prt/1 high/ADV/advmod/1"
    ) == [("adverb", "slowly"), ("verb", "holds up high"), ("noun", "it")]
