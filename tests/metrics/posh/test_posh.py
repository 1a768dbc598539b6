"""The metric as its users call it, with the parser and resolver that ship."""

from __future__ import annotations

import math
import pickle
import random
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import InputError, PoSh, Scores
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.types import Failure, Question, Verdict

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


def test_a_description_matches_itself(posh: PoSh) -> None:
    scores = posh.score([REFERENCE], [REFERENCE])[0]
    assert scores.f1 is not None
    assert scores.f1 > 0.9


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


def test_an_edited_wording_is_in_the_signature() -> None:
    assert "|preset:prefix-first|wording:2|" in PoSh(preset="prefix-first").signature


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


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_references_get_a_score_or_a_reason(posh: PoSh, text: str) -> None:
    odd = posh.score([FAITHFUL], [text])[0]
    assert (odd.f1 is None) == (odd.failure is not None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("word " * 10_000, "is longer than the 20,000 characters that are read"),
        (None, "the generation is missing"),
        (math.nan, "the generation is missing"),
        (["a"], "is not a text but a value of type list"),
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


def test_an_empty_reference_is_a_failure(posh: PoSh) -> None:
    failure = posh.score(["A dog."], [" "])[0].failure
    assert failure == Failure("text", "the reference is empty")


def test_several_references_are_one_text_of_sentences(posh: PoSh) -> None:
    several, same, one = posh.score(
        ["A dog sleeps."] * 3, [["A dog", "A red hat. "], "A dog. A red hat.", ["A dog."]]
    )
    assert (several.reference, several.elements) == (same.reference, same.elements)
    assert "|references:joined|" in several.signature
    assert several.signature.replace("|references:joined", "") == same.signature == one.signature


@pytest.mark.parametrize("references", [[], ["A dog.", None], [3]])
def test_a_list_with_anything_but_texts_is_no_reference(posh: PoSh, references: list[str]) -> None:
    failed, sound = posh.score(["A dog."] * 2, [references, "A dog."])
    assert failed.f1 is None
    assert "the reference" in str(failed.failure)
    assert sound.f1 is not None


def test_lists_must_match(posh: PoSh) -> None:
    with pytest.raises(InputError, match="2 generations but 1 references"):
        posh.score(["a", "b"], ["c"])
    with pytest.raises(InputError, match="one string"):
        posh.score("a", "b")  # a string is a sequence of strings, so only this check can tell


@pytest.mark.parametrize("wrong", [{"judge": "gpt"}, {"coref": "magic"}, {"preset": "new"}])
def test_unknown_names_list_the_known_ones(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"embedded|rules|released"):
        PoSh(**wrong)  # type: ignore[arg-type]


def test_one_failed_judgment_fails_its_direction_and_no_other_pair() -> None:
    def grader(question: Question) -> float | Failure:
        return Failure("engine", "broken pipe") if question.source.text == MISTAKEN else 3.0

    posh = PoSh(FakeJudge(grader))
    bad, good = posh.score([MISTAKEN, FAITHFUL], [REFERENCE, REFERENCE])
    assert (bad.precision, bad.f1, str(bad.failure)) == (None, None, "broken pipe")
    assert bad.recall is not None
    assert good.failure is None


class OddJudge(FakeJudge):
    """Of a unicorn its replies are not what a ``Verdict`` says: they break what counts them."""

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        return [
            replace(verdict, unparsed="no") if "unicorn" in question.source.text else verdict  # type: ignore[arg-type]
            for question, verdict in zip(questions, super().grade(questions), strict=True)
        ]


def test_a_pair_that_breaks_the_scoring_fails_alone() -> None:
    texts = [MISTAKEN, FAITHFUL, "A unicorn sleeps.", FAITHFUL + " It barks.", MISTAKEN + " Cats."]
    scores = PoSh(OddJudge()).score(texts, [REFERENCE] * 5)
    assert [score.failure is not None for score in scores] == [False, False, True, False, False]
    assert "TypeError" in str(scores[2].failure)
    assert scores[2].f1 is None
    assert scores[:2] == PoSh(FakeJudge()).score(texts[:2], [REFERENCE] * 2)


def test_a_judge_that_raises_fails_only_the_pair_that_it_stumbled_over() -> None:
    def grader(question: Question) -> float:
        return 1 / (question.source.text != MISTAKEN) + 2.0

    bad, good = PoSh(FakeJudge(grader)).score([MISTAKEN, FAITHFUL], [REFERENCE, REFERENCE])
    assert str(bad.failure) == "the judge raised ZeroDivisionError: division by zero"
    assert good.failure is None


def test_order_batch_and_repeats_do_not_matter() -> None:
    texts = [FAITHFUL, MISTAKEN, REFERENCE, "A dog.", FAITHFUL]
    expected = dict(zip(texts, PoSh().score(texts, [REFERENCE] * 5), strict=True))
    shuffled = random.Random(1).sample(texts, 5)
    one_by_one = PoSh(pairs_at_once=1).score(shuffled, [REFERENCE] * 5)
    assert one_by_one == [expected[text] for text in shuffled]


def test_references_are_parsed_once() -> None:
    posh = PoSh(FakeJudge())
    posh.score(["A dog."], [REFERENCE])
    first = posh.reader.read([REFERENCE])[0]
    posh.score(["A cat."], [REFERENCE])
    assert posh.reader.read([REFERENCE])[0] is first


def test_the_metric_pickles(posh: PoSh) -> None:
    posh.score(["A dog."], ["A dog."])
    copy = pickle.loads(pickle.dumps(posh))
    assert copy.score([FAITHFUL], [REFERENCE]) == posh.score([FAITHFUL], [REFERENCE])


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
