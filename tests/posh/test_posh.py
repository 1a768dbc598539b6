"""The metric as its users call it, with the parser and resolver that ship."""

import gc
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import ConfigError, InputError, PoSh, Scores
from posh_reward.posh.batch import OBJECTS_PER_COLLECTION, fewer_collections
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.means import Weights, harmonic_mean, mean_score
from posh_reward.types import Element, Failure, Kind, Question


def element(grade: float | None, kind: Kind = "entity") -> Element:
    return Element("precision", kind, "x", grade, ((0, 1),), "x")


def test_a_score_is_the_mean_grade_over_five_and_f1_the_harmonic_mean() -> None:
    assert mean_score([element(5), element(3), element(1)]) == pytest.approx(0.6)
    assert mean_score([]) == 1.0, "nothing to find is nothing missing"
    assert mean_score([element(5), element(None)]) is None
    assert harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
    assert harmonic_mean(None, 0.5) is None


def test_weights_count_kinds_differently() -> None:
    elements = [element(5), element(1, "relation")]
    assert mean_score(elements, Weights(relation=3)) == pytest.approx((5 + 3) / 4 / 5)
    with pytest.raises(ConfigError, match="all 0: set one above 0"):
        Weights(entity=0, attribute=0, relation=0)


REFERENCE = (
    "A tall woman in a red dress stands to our left, holding a yellow basket. To her right, a "
    "small brown dog sleeps under a wooden table. The woman looks at us."
)
FAITHFUL = "On the left is a tall woman in a red dress. A small brown dog sleeps under a table."
MISTAKEN = "On the left is a short man in a green dress. A large black cat sits on a table."

ODD = {
    "empty": "",
    "blank": " \n\t ",
    "one word": "Dog",
    "Russian": "Высокая женщина в красном платье стоит слева и держит корзину.",
    "Chinese": "左边站着一位穿红裙子的高个子女人。",
    "emoji": "🖼️🐶🐱🏠",
    "control characters": "A dog\x00 sits\x07 by\x1b[31m a cat\x7f.",
    "right to left": "كلب بني صغير ينام تحت طاولة خشبية.",
    "repeated": "dog " * 1000,
    "no spaces": "x" * 10_000,
    "punctuation": "?!,.;:-()" * 200,
    "markup": "<script>alert('a')</script> {identifier} \"quoted\" %s",
}


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


def test_a_faithful_description_beats_a_mistaken_one(posh: PoSh) -> None:
    faithful, mistaken = posh.score([FAITHFUL, MISTAKEN], [REFERENCE, REFERENCE])
    assert faithful.precision > mistaken.precision  # type: ignore[operator]
    assert faithful.recall > mistaken.recall  # type: ignore[operator]
    assert faithful.f1 > mistaken.f1  # type: ignore[operator]


def test_spans_point_at_the_words_of_their_element(posh: PoSh) -> None:
    scores = posh.score(["  A red dog sleeps.\n"], ["A brown dog."])[0]
    spans = {
        (e.direction, e.kind): [
            (scores.generation if e.direction == "precision" else scores.reference)[a:b]
            for a, b in e.spans
        ]
        for e in scores.elements
    }
    assert spans["precision", "entity"] == ["dog"]
    assert spans["recall", "attribute"] == ["brown"]


def test_a_score_says_what_made_it(posh: PoSh) -> None:
    signature = posh.score(["A dog."], ["A cat."])[0].signature
    for part in ("preset:released", "judge:embedded", "parser:embedded", "coref:rules", "version:"):
        assert part in signature


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_generations_get_a_score_or_a_reason_and_spare_their_neighbours(
    posh: PoSh, text: str
) -> None:
    start = time.monotonic()
    odd, neighbour = posh.score([text, FAITHFUL], [REFERENCE, REFERENCE])
    assert time.monotonic() - start < 30
    assert (odd.f1 is None) == (odd.failure is not None)
    assert odd.f1 is None or 0.2 <= odd.f1 <= 1
    assert neighbour == posh.score([FAITHFUL], [REFERENCE])[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("word " * 10_000, "is longer than the 20,000 characters that are read"),
        (None, "the generation is missing"),
        (math.nan, "the generation is missing"),
        (["a", "b"], "is a list of 2 texts, where one is meant"),
        ({"a": "b"}, "is not a text but a mapping with the keys 'a'"),
        (b"a", "is not a text but a value of type bytes"),
        ("half \ud800", "surrogate"),
    ],
)
def test_unusable_texts_fail_their_own_pair_with_a_reason(
    posh: PoSh, text: str, reason: str
) -> None:
    bad, good = posh.score([text, FAITHFUL], [REFERENCE, REFERENCE])
    assert bad.f1 is None
    assert reason in str(bad.failure)
    assert good.f1 is not None


def test_several_references_are_one_text_of_sentences(posh: PoSh) -> None:
    several, same, one = posh.score(
        ["A dog sleeps."] * 3, [["A dog", "A red hat. "], "A dog. A red hat.", ["A dog."]]
    )
    assert (several.reference, several.elements) == (same.reference, same.elements)
    assert "|references:joined|" in several.signature
    assert several.signature.replace("|references:joined", "") == same.signature == one.signature


def test_one_failed_judgment_fails_its_direction_and_no_other_pair() -> None:
    def grader(question: Question) -> float | Failure:
        return Failure("engine", "broken pipe") if question.source.text == MISTAKEN else 3.0

    posh = PoSh(FakeJudge(grader))
    bad, good = posh.score([MISTAKEN, FAITHFUL], [REFERENCE, REFERENCE])
    assert (bad.precision, bad.f1, str(bad.failure)) == (None, None, "broken pipe")
    assert bad.recall is not None
    assert good.failure is None


def test_a_judge_that_raises_fails_only_the_pair_that_it_stumbled_over() -> None:
    def grader(question: Question) -> float:
        return 1 / (question.source.text != MISTAKEN) + 2.0

    bad, good = PoSh(FakeJudge(grader)).score([MISTAKEN, FAITHFUL], [REFERENCE, REFERENCE])
    assert str(bad.failure) == "the judge raised ZeroDivisionError: division by zero"
    assert good.failure is None


WORDS = (
    "the a an another man woman men dog dogs red tall left right hat shirt's holds wears sits "
    'in behind to our of two three it him her itself who there is are and , . - " focusing'
)
SENTENCES = st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join)


def swapped(scores: Scores) -> tuple[float | None, float | None]:
    return scores.recall, scores.precision


@given(st.one_of(SENTENCES, st.text(max_size=80)), SENTENCES.filter(bool))
def test_any_text_scores_within_bounds_and_roles_are_symmetric(
    posh: PoSh, generation: str, reference: str
) -> None:
    scores = posh.score([generation], [reference])[0]
    assert scores.failure is None
    for value in (scores.precision, scores.recall, scores.f1):
        assert value is None or 0.2 - 1e-9 <= value <= 1 + 1e-9
    for element in scores.elements:
        text = scores.generation if element.direction == "precision" else scores.reference
        assert element.spans
        assert all(0 <= start < end <= len(text) for start, end in element.spans)
        assert list(element.spans) == sorted(element.spans)
    if generation.strip():
        back = posh.score([reference], [generation])[0]
        assert (back.precision, back.recall) == pytest.approx(swapped(scores))


def test_a_judge_sees_each_text_as_it_was_given_and_spans_point_into_the_stripped_one() -> None:
    judge = FakeJudge(lambda question: 4.0)
    (scores,) = PoSh(judge).score(["  A dog.\n"], ["A dog."])
    assert {(r.source.original, r.target.original) for r in judge.questions} == {
        ("  A dog.\n", None),
        (None, "  A dog.\n"),
    }
    assert scores.generation == "A dog."


def failing_batch(threshold: int) -> None:
    with fewer_collections():
        assert gc.get_threshold()[0] == threshold
        raise ZeroDivisionError


@pytest.mark.parametrize("chosen", [700, 0, OBJECTS_PER_COLLECTION * 2])
def test_it_is_put_back_even_after_an_error(chosen: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(chosen, 10, 10)
    try:
        with pytest.raises(ZeroDivisionError):
            failing_batch(OBJECTS_PER_COLLECTION if chosen == 700 else chosen)
        assert gc.get_threshold() == (chosen, 10, 10)
    finally:
        gc.set_threshold(*before)


def test_series_are_not_paired_against_their_indexes(posh: PoSh) -> None:
    pandas = pytest.importorskip("pandas")
    texts = pandas.Series({"one": "A dog.", "two": "A cat."})
    assert posh.score(texts, texts)[1].f1 == pytest.approx(posh.score(["A cat."], ["A cat."])[0].f1)
    with pytest.raises(
        InputError, match=r"align them, as with references\.loc\[generations\.index\]"
    ):
        posh.score(texts, texts[::-1])


def test_a_metric_is_shown_without_loading_its_parser() -> None:
    assert "parser=en_core_web_trf" in repr(PoSh(parser="en_core_web_trf"))
