"""Grades to credit, and characters to tokens."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import PoSh
from posh_reward.training.dapo.credit import Decode, compute_credits, token_spans
from posh_reward.types import Element, Failure, Scores, Span
from recipes.demo import tiny_qwen
from tests.models.tokenizers_here import qwen_tokenizer

Encode = Callable[[str], list[int]]

# Grades to credit, with one token a character.

TEXT = "  A red dog and a blue hat.\n"


def letters(ids: Any) -> str:
    return "".join(map(chr, ids))


def scores(*details: tuple[str, float], failure: Failure | None = None) -> Scores:
    generation = TEXT.strip()
    elements = tuple(
        Element("precision", "attribute", said, grade, (span_of(said, generation),), said)
        for said, grade in details
    )
    missed = Element("recall", "entity", "cat", 1.0, ((0, 3),), "cat")
    return Scores(0.5, 0.5, 0.5, "", (*elements, missed), failure, generation=generation)


def span_of(said: str, text: str) -> Span:
    start = text.index(said)
    return start, start + len(said)


def by_character(*details: tuple[str, float]) -> dict[str, float]:
    """Credit of the first character of each detail."""
    found = compute_credits([*map(ord, TEXT)], scores(*details), letters)
    assert found is not None
    return {said: found[TEXT.index(said)] for said, _ in details}


def test_the_invented_detail_pays_and_the_true_one_gains() -> None:
    given = by_character(("red", 5.0), ("blue", 1.0))
    assert given["red"] == pytest.approx(4 / 7)  # 3 characters of quality 1, 4 of quality 0
    assert given["blue"] == pytest.approx(-3 / 7)


def test_only_the_tokens_of_details_have_credit_and_it_sums_to_zero() -> None:
    found = compute_credits([*map(ord, TEXT)], scores(("red", 5.0), ("blue", 1.0)), letters)
    assert found is not None
    assert {at for at, value in enumerate(found) if value} == {
        *range(4, 7), *range(TEXT.index("blue"), TEXT.index(" hat")),
    }  # fmt: skip
    assert math.isclose(sum(found), 0, abs_tol=1e-12)


def test_a_token_of_two_details_has_the_mean_of_their_grades() -> None:
    given = by_character(("red", 5.0), ("red dog", 1.0), ("hat", 3.0))
    assert given["red"] == given["hat"]


def test_credit_is_for_the_answer_and_not_for_what_was_thought() -> None:
    graded = scores(("red", 5.0), ("blue", 1.0))
    alone = compute_credits([*map(ord, graded.generation)], graded, letters)
    thoughts = f"<think>{graded.generation}</think> "
    found = compute_credits([*map(ord, thoughts + graded.generation)], graded, letters)
    assert alone is not None
    assert found == [0.0] * len(thoughts) + alone


@pytest.mark.parametrize(
    "without",
    [
        scores(("red", 5.0), failure=Failure("engine", "gone")),
        Scores(0.5, 0.5, 0.5, "", generation="another text"),
    ],
)
def test_without_scores_of_this_text_there_is_no_credit(without: Scores) -> None:
    assert compute_credits([*map(ord, TEXT)], without, letters) is None


def test_a_failed_grade_is_left_out() -> None:
    graded = scores(("red", 5.0), ("blue", 1.0))
    failed = Element("precision", "entity", "hat", None, ((20, 23),), "hat")
    more = Scores(0.5, 0.5, 0.5, "", (*graded.elements, failed), generation=graded.generation)
    assert compute_credits([*map(ord, TEXT)], more, letters) == compute_credits(
        [*map(ord, TEXT)], graded, letters
    )


# Characters to tokens.

HARD = (
    "plain words",
    "  two leading spaces",
    "a\n\n new line\tand a tab ",
    "👩🏽‍🎨 paints 🇫🇷 flags",
    "e\u0301 and n\u0303 are combining marks",  # two characters each
    "漢字とかな",
    "\u00a0no-break\u2003em space",
    "\ufffd a replacement character",
    "",
)
TEXTS = st.one_of(
    st.sampled_from(HARD), st.text(max_size=40), st.text("ab é👩‍🎨\u0301漢 \n", max_size=30)
)


def coders(tokenizer: Any) -> tuple[Encode, Decode]:
    return (
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
    )


@pytest.fixture(scope="module", params=["tiny", "qwen"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """The tiny byte-level one, and Qwen2.5-VL's own where it is at hand."""
    if request.param == "tiny":
        return tiny_qwen.make_tokenizer()
    return qwen_tokenizer(request.getfixturevalue("shared_data"))


def check_cover(ids: list[int], decode: Decode) -> None:
    """Spans are in order, leave no character out, and overlap only within a character."""
    text, spans = decode(ids), token_spans(ids, decode)
    assert len(spans) == len(ids)
    assert {at for first, end in spans for at in range(first, end)} == set(range(len(text)))
    for (first, end), (following, _) in pairwise(spans):
        assert first <= end
        assert end - 1 <= following <= end


@given(text=TEXTS)
def test_every_character_belongs_to_the_tokens_that_write_it(tokenizer: Any, text: str) -> None:
    encode, decode = coders(tokenizer)
    ids = encode(text)
    check_cover(ids, decode)
    assert all(
        decode([token]) == decode(ids)[slice(*span)]
        for token, span in zip(ids, token_spans(ids, decode), strict=True)
        if "\ufffd" not in decode([token])
    )


@given(data=st.data())
def test_any_ids_at_all_get_their_spans(tokenizer: Any, data: st.DataObject) -> None:
    """A policy samples bytes that are no character, and special tokens in the middle."""
    _, decode = coders(tokenizer)
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=25))
    text, spans = decode(ids), token_spans(ids, decode)
    assert len(spans) == len(ids)
    assert all(0 <= first <= end <= len(text) for first, end in spans)
    assert max((end for _, end in spans), default=0) == len(text)


def test_real_grades_land_on_the_words_they_are_about(tokenizer: Any) -> None:
    encode, decode = coders(tokenizer)
    text = " A woman in a red dress holds a green umbrella."
    [score] = PoSh().score([text], ["A woman in a red dress holds a basket."])
    ids = [*encode(text), tokenizer.convert_tokens_to_ids("<|im_end|>")]
    found = compute_credits(ids, score, decode)
    assert found is not None
    value = {
        text[slice(*s)].strip(): c for s, c in zip(token_spans(ids, decode), found, strict=True)
    }
    assert value["dress"] > 0 > value["green"]
    assert found[-1] == 0
    assert math.isclose(sum(found), 0, abs_tol=1e-9)
