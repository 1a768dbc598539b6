from __future__ import annotations

from spacy.tokens import Doc

from posh_reward.graph.rules.components import read_syntax, sentences
from tests.parses import VOCAB, parse


def test_annotations_are_copied() -> None:
    syntax = read_syntax(
        parse("Dogs/NOUN/nsubj/1 bark/VERB/ROOT/1", "We/PRON/nsubj/1 run/VERB/ROOT/1")
    )
    assert syntax.text == ("Dogs", "bark", "We", "run")
    assert syntax.lemma == ("dogs", "bark", "we", "run")
    assert syntax.pos == ("NOUN", "VERB", "PRON", "VERB")
    assert syntax.dep == ("nsubj", "ROOT", "nsubj", "ROOT")
    assert syntax.head == (1, 1, 3, 3)
    assert syntax.sentence == (0, 0, 1, 1)
    assert syntax.span == ((0, 4), (5, 9), (10, 12), (13, 16))
    assert syntax.children == ((), (0,), (), (2,))


def test_a_root_has_no_parent() -> None:
    syntax = read_syntax(parse("Dogs/NOUN/nsubj/1 bark/VERB/ROOT/1"))
    assert syntax.parent_pos(0) == "VERB"
    assert syntax.parent_pos(1) == ""


def test_a_doc_without_annotations_is_one_sentence_of_roots() -> None:
    syntax = read_syntax(Doc(VOCAB, words=["some", "words"]))
    assert syntax.sentence == (0, 0)
    assert syntax.head == (0, 1)
    assert syntax.pos == ("", "")


def test_an_empty_doc_is_empty() -> None:
    assert len(read_syntax(Doc(VOCAB, words=[]))) == 0


def test_the_first_token_starts_the_first_sentence_whatever_it_says() -> None:
    assert sentences([None, None, True, False]) == (0, 0, 1, 1)
    assert sentences([True, False]) == sentences([False, False]) == (0, 0)


def test_equal_words_of_two_texts_are_one_object() -> None:
    """References are kept by the thousand."""
    first = read_syntax(parse("women/NOUN/ROOT/0"))
    second = read_syntax(parse("two/NUM/nummod/1 women/NOUN/ROOT/1"))
    assert first.text[0] is second.text[1]
    assert first.dep[0] is second.dep[1]
