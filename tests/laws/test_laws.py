"""Laws of texts: whatever the text, these hold for the embedded judge and the default reward.

By default a sample, in seconds; with ``--run-slow`` all of the repository's sentences, and with
``../shared`` those of people, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import PoSh, PoshReward
from posh_reward.embedded.english.word_classes import spell, split_words
from posh_reward.reward.texts import clean_completion, clean_reference
from posh_reward.types import Description, Element, Scores
from tests.laws.texts import FORMS, draw, load_peoples_texts, load_sentences, split_sentences

MIN_CLEAR_GRADE = 4.0
MIN_OWN_REWARD = 0.95
MAX_MEAN_CHANGE = 0.005
MAX_CHANGE = 0.03
MAX_SHARE_OF_OTHER_READINGS = 0.02
"""Of people's texts: lines wrapped before a capital letter, for example, may be a list's items."""
LONGER = ("written", "by grammar")
"""Kinds of texts of several sentences."""
BATCH = 32


@cache
def metric() -> PoSh:
    return PoSh(processes=1)


@cache
def reward() -> PoshReward:
    return PoshReward(metric())


def pay(texts: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the rewards of texts; none may fail."""
    paid: list[float] = []
    for start in range(0, len(texts), BATCH):
        some = slice(start, start + BATCH)
        for each in reward()([], list(texts[some]), reference=list(references[some])):
            assert each is not None
            paid.append(each)
    return paid


def list_unclear(scores: Scores) -> list[Element]:
    """List the elements below ``MIN_CLEAR_GRADE``."""
    assert scores.failure is None
    return [each for each in scores.elements if (each.grade or 0) < MIN_CLEAR_GRADE]


def check_identity(texts: Sequence[str]) -> None:
    for text, own in zip(texts, pay(texts, texts), strict=True):
        [scores] = metric().score([text], [text])
        unclear = list_unclear(scores)
        assert not unclear, (text, [(each.kind, each.text, each.grade) for each in unclear])
        assert own >= MIN_OWN_REWARD, text


@pytest.mark.parametrize("kind", load_sentences())
def test_a_text_is_its_own_best_description(kind: str) -> None:
    check_identity(draw(load_sentences()[kind], 12))


@pytest.mark.slow
@pytest.mark.parametrize("kind", load_sentences())
def test_each_text_is_its_own_best_description(kind: str) -> None:
    check_identity(load_sentences()[kind])


@pytest.mark.slow
def test_peoples_texts_are_their_own_best_descriptions(shared_data: Path) -> None:
    check_identity(draw(load_peoples_texts(shared_data), 400))


@cache
def base_pairs(each_kind: int) -> tuple[list[str], list[str], list[float]]:
    """Draw texts and references, and what the texts are paid: themselves, and half of themselves.

    Against half of itself a text is neither worth everything nor nothing.
    """
    texts: list[str] = []
    references: list[str] = []
    for kind, some in load_sentences().items():
        for text in draw(some, each_kind):
            texts.append(text)
            references.append(text)
            if kind in LONGER:
                texts.append(text)
                references.append(" ".join(split_sentences(text)[::2]))
    return texts, references, pay(texts, references)


def check_form(name: str, each_kind: int) -> None:
    texts, references, before = base_pairs(each_kind)
    written = list(map(FORMS[name], texts)), list(map(FORMS[name], references))
    for ours, theirs in ((written[0], references), (texts, written[1])):
        changes = [a - b for a, b in zip(pay(ours, theirs), before, strict=True)]
        worst = max(range(len(changes)), key=lambda i: abs(changes[i]))
        assert abs(fmean(changes)) <= MAX_MEAN_CHANGE
        assert abs(changes[worst]) <= MAX_CHANGE, (ours[worst], theirs[worst], changes[worst])


@pytest.mark.parametrize("name", FORMS)
def test_the_same_words_in_another_form_are_the_same_text(name: str) -> None:
    """So they earn the same, as a description and as a reference."""
    for some in load_sentences().values():
        for text in draw(some, 12):
            assert clean_completion(FORMS[name](text)) == clean_completion(text)
            assert clean_reference(FORMS[name](text)) == clean_reference(text)


def test_the_same_words_in_another_form_earn_the_same() -> None:
    check_form("soft hyphens", each_kind=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_many_texts_in_another_form_earn_the_same(name: str) -> None:
    check_form(name, each_kind=20)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_peoples_texts_in_another_form_are_the_same_text(name: str, shared_data: Path) -> None:
    texts = load_peoples_texts(shared_data)
    changed = [t for t in texts if clean_completion(FORMS[name](t)) != clean_completion(t)]
    assert len(changed) <= MAX_SHARE_OF_OTHER_READINGS * len(texts), changed[:5]


def check_order(texts: Sequence[str]) -> None:
    rng = random.Random(1)
    shuffled = [" ".join(rng.sample(own := split_sentences(text), len(own))) for text in texts]
    before = pay(texts, texts)
    for ours, theirs in ((shuffled, texts), (texts, shuffled)):
        changes = [a - b for a, b in zip(pay(ours, theirs), before, strict=True)]
        assert abs(fmean(changes)) <= MAX_MEAN_CHANGE


def test_the_order_of_sentences_does_not_matter() -> None:
    check_order(draw(load_sentences()["by grammar"], 20))


@pytest.mark.slow
def test_the_order_of_peoples_sentences_does_not_matter(shared_data: Path) -> None:
    texts = [text for text in load_peoples_texts(shared_data) if text.count(". ") > 2]
    check_order(draw(texts, 60))


WHOLE_WORDS = (
    "O'Keeffe", "O'Hare", "d'Alembert", "AT&T", "B&O", "U.S.", "U.K.", "24/7", "St.", "10:30",
    "9:05", "p.m.", "1,500", "2.75", "caf\u00e9", "Dvo\u0159\u00e1k", "\u00c9mile",
)  # fmt: skip
"""Words that the tokenizer keeps whole, marks and all."""


@pytest.mark.parametrize("word", WHOLE_WORDS)
def test_a_word_is_what_the_tokenizer_keeps_whole(word: str) -> None:
    """It is found in another sentence, too, where nothing else helps."""
    text = f"The {word} sign is red."
    [description] = metric().graph_reader.read([text])
    assert isinstance(description, Description)
    assert word in [token.text for token in description.tokens]
    [scores] = metric().score([text], [f"A man in a coat looks at the {word} sign, with a dog."])
    said = [each for each in scores.elements if spell(word) in split_words(each.text)]
    assert said
    assert not [each for each in said if (each.grade or 0) < MIN_CLEAR_GRADE], scores.elements


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)))
def test_words_of_joined_tokens_are_the_tokens(tokens: list[str]) -> None:
    assert split_words(" ".join(tokens)) == [word for word in map(spell, tokens) if word]
