"""Runs without white space are tokenized in linear time; ordinary texts get spaCy's tokens."""

from __future__ import annotations

import random
import string
import time
from functools import lru_cache

import pytest

from posh_reward.graph.parser.parse import load_parser, parse
from posh_reward.graph.parser.tokens import LONGEST_RUN, tokenized
from posh_reward.graph.read import MAX_CHARACTERS
from tools.bench.exponents import FAMILIES

HOSTILE = sorted(FAMILIES.keys() - {"ordinary"})
SLOWEST = 15
"""Times what an ordinary text takes; without pieces, bangs took four hundred times as long."""


def seconds(text: str) -> float:
    start = time.process_time()
    tokenized(load_parser(), text)
    return time.process_time() - start


@lru_cache(maxsize=1)
def ordinary_seconds() -> float:
    """For a text of as many characters whose words the tokenizer has not seen before."""
    load_parser()
    letters = random.Random(0)
    words = ["".join(letters.choices(string.ascii_lowercase, k=5)) for _ in range(3_333)]
    return seconds(" ".join(words))


@pytest.mark.parametrize("family", HOSTILE)
def test_no_text_takes_much_longer_than_an_ordinary_one(family: str) -> None:
    assert seconds(FAMILIES[family](MAX_CHARACTERS)) < SLOWEST * ordinary_seconds()


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_spell_the_text(family: str) -> None:
    text = FAMILIES[family](3 * LONGEST_RUN + 7)
    doc = tokenized(load_parser(), text)
    assert doc.text == text
    assert all(text[token.idx :].startswith(token.text) for token in doc)


@pytest.mark.parametrize(
    "text",
    ["A woman can't sit (or stand) here.", f"See {'a' * LONGEST_RUN} and {'!' * LONGEST_RUN}"],
)
def test_short_runs_get_the_tokens_of_spacy(text: str) -> None:
    nlp = load_parser()
    assert [t.text for t in tokenized(nlp, text)] == [t.text for t in nlp.make_doc(text)]


def test_words_stay_whole_where_spaces_after_commas_are_missing() -> None:
    nlp, text = load_parser(), "a-woman,a-man,their-dogs," * 20
    assert [t.text for t in tokenized(nlp, text)] == [t.text for t in nlp.make_doc(text)]


def test_a_long_run_changes_nothing_in_the_words_around_it() -> None:
    nlp, around = load_parser(), "A woman can't sit here."
    doc = tokenized(nlp, f"{around} {'!' * 1000} {around}")
    known = [(token.text, token.norm_, token.whitespace_) for token in nlp.make_doc(f"{around} ")]
    assert [(t.text, t.norm_, t.whitespace_) for t in doc[: len(known)]] == known
    assert [(t.text, t.norm_) for t in doc[-len(known) :]] == [pair[:2] for pair in known]


def test_the_pipeline_reads_long_runs() -> None:
    (doc,) = parse(load_parser(), ["A dog sleeps. " + "*" * 500])
    assert doc[1].dep_ == "nsubj"
    assert len(doc) == 504
