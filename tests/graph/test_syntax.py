from __future__ import annotations

from spacy.tokens import Doc

from posh_reward.graph.components import read_syntax, sentences
from tests.parses import VOCAB


def test_a_doc_without_annotations_is_one_sentence_of_roots() -> None:
    syntax = read_syntax(Doc(VOCAB, words=["some", "words"]))
    assert syntax.sentence == (0, 0)
    assert syntax.head == (0, 1)
    assert syntax.pos == ("", "")


def test_the_first_token_starts_the_first_sentence_whatever_it_says() -> None:
    assert sentences([None, None, True, False]) == (0, 0, 1, 1)
    assert sentences([True, False]) == sentences([False, False]) == (0, 0)
