"""PROVE's two scores: the paper's equations by hand, and what happens where they have no value."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from posh_reward import Prove
from posh_reward.datasets.scenes import caption, generate_scenes
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.prove.prove import ProveScores
from posh_reward.types import Failure
from tests.other_metrics.prove.scripted import questions

ANGLES = {"dress": 0, "dress, red": 30, "dress, crimson": 60, "hat": 90, "hat, blue": 150}
"""Tuples as directions in the plane, in degrees."""
Q, A = "What color is the dress?", "The dress is red."
CAPTION = "A red dress and a hat."
IMAGE = Image.new("RGB", (8, 8), "red")


def plane(texts: list[str]) -> np.ndarray[Any, Any]:
    turns = np.radians([ANGLES.get(text, 0) for text in texts])
    return np.stack([np.cos(turns), np.sin(turns)], axis=1)


def cos(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def sees(chance: float = 0.5, only: str = "") -> FakeModel:
    """Says yes with this probability; fails at statements that hold ``only``, if given."""

    def grade(prompt: Prompt) -> float | Failure:
        if only and only in prompt.suffix:
            return Failure("engine", "it broke")
        return 1 + chance

    return FakeModel(grade, name="seer", sees=True)


def one(prove: Prove, response: str | None, **others: Any) -> ProveScores:
    given = {"answer": A, "question": Q, "caption": CAPTION} | others
    answer, question, caption = ([given[name]] for name in ("answer", "question", "caption"))
    images = [given["image"]] if "image" in given else None
    return prove.score([response], answer, question, caption, images)[0]


def test_helpfulness_is_equation_1_by_hand() -> None:
    """Of the answer (dress), (dress, red) the question has (dress); the rest is 30 degrees away."""
    scores = one(Prove(plane), "The dress is crimson.")
    assert [each.tuple for each in scores.answer_tuples] == [("dress", "red")]
    assert scores.answer_tuples[0].closest in [("dress",), ("dress", "crimson")]
    assert scores.helpfulness == pytest.approx(cos(30))


def test_columns_may_be_read_once_only() -> None:
    prove = Prove(plane)
    columns = [["The dress is crimson."], [A], [Q], [CAPTION]]
    once: Any = [iter(each) for each in columns]
    assert prove.score(*once) == prove.score(*columns)


def test_truthfulness_is_equation_2_by_hand() -> None:
    """The caption holds (dress), (hat), (dress, red): 0 and 60 degrees from the last claim."""
    scores = one(Prove(plane), "The hat is blue.")
    assert [each.tuple for each in scores.claims] == [("hat",), ("hat", "blue")]
    assert [each.closest for each in scores.claims] == [("hat",), ("hat",)]
    assert scores.truthfulness == pytest.approx((1 + cos(60)) / 2)
    assert scores.average == pytest.approx((scores.helpfulness + scores.truthfulness) / 2)  # type: ignore[operator]


def test_the_better_of_caption_and_image_counts() -> None:
    scores = one(Prove(plane, sees(0.7)), "The hat is blue.", image=IMAGE)
    hat, blue = scores.claims
    assert (hat.witness, hat.image) == ("caption", None), "certain already: nobody was asked"
    assert blue.witness == "image"
    assert blue.score == pytest.approx(0.7)
    assert scores.truthfulness == pytest.approx((1 + 0.7) / 2)
    doubter = one(Prove(plane, sees(0.2)), "The hat is blue.", image=IMAGE).claims[1]
    assert doubter.witness == "caption"
    assert doubter.score == pytest.approx(cos(60))
    assert doubter.image == pytest.approx(0.2)


def test_a_failed_judgment_is_no_low_score_and_spares_the_neighbours() -> None:
    prove = Prove(plane, sees(only="blue"))
    responses = ["The hat is blue.", "The dress is red."]
    broken, sound = prove.score(responses, [A] * 2, [Q] * 2, [CAPTION] * 2, [IMAGE] * 2)
    assert broken.truthfulness is None
    assert broken.failure == Failure("engine", "it broke")
    assert broken.helpfulness is not None
    assert sound.truthfulness == pytest.approx(1)
    assert sound.failure is None


def test_an_image_that_cannot_be_read_fails_its_own_item() -> None:
    prove = Prove(plane, sees())
    both = prove.score(["The hat is blue."] * 2, [A] * 2, [Q] * 2, [CAPTION] * 2, [None, IMAGE])
    assert both[0].truthfulness is None
    assert "there is no image" in str(both[0].failure)
    assert both[1].failure is None


def test_an_empty_response_helps_nobody_and_is_neither_true_nor_false() -> None:
    scores = one(Prove(plane), " ")
    assert scores.helpfulness == 0
    assert scores.truthfulness is None
    assert scores.failure == Failure("text", "the response makes no claim")
    assert scores.average is None


def test_an_answer_that_repeats_the_question_has_nothing_to_recall() -> None:
    scores = one(Prove(plane), "The dress is red.", question="Is the red dress here?")
    assert scores.helpfulness is None
    assert "says nothing that the question does not" in str(scores.failure)
    assert scores.truthfulness == pytest.approx(1)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("answer", None, "the answer is missing"),
        ("question", float("nan"), "the question is missing"),
        ("caption", 3, "the caption is not a text but a value of type int"),
    ],
)
def test_what_cannot_be_read_says_which_text_it_is(column: str, value: object, why: str) -> None:
    scores = one(Prove(plane), "The hat is blue.", **{column: value})
    assert scores.failure == Failure("text", why)
    assert (scores.helpfulness is None) == (column != "caption")
    assert (scores.truthfulness is None) == (column == "caption")


def test_without_a_caption_only_the_image_counts() -> None:
    assert "no caption" in str(one(Prove(plane), "A hat.", caption=None).failure)
    scores = one(Prove(plane, sees(0.6)), "A hat.", caption=None, image=IMAGE)
    assert scores.truthfulness == pytest.approx(0.6)


def test_neither_order_nor_company_changes_a_score() -> None:
    responses = ["A red dress.", "The hat is blue.", "", "Two dogs run on the beach."]
    n = len(responses)

    def scored(texts: Sequence[str], size: int) -> list[ProveScores]:
        return Prove(items_at_once=size).score(texts, [A] * n, [Q] * n, [CAPTION] * n)

    together = scored(responses, 64)
    assert scored(responses, 1) == together
    assert scored(responses[::-1], 3)[::-1] == together


REPLY = 'Here they are: [["dress"], ["dress", "red"], ["Dress", "red"]]'


@pytest.mark.parametrize(
    "reply",
    ["no list", "[1, 2]", "[[]]", '[["a", "b", "c", "d"]]', '[["a", ""]]', "[" * 9999,
     '[["a"', '{"a": 1}', str([["a", str(i)] for i in range(999)]).replace("'", '"')],
)  # fmt: skip
def test_a_models_reply_without_tuples_is_a_failure(reply: str) -> None:
    prove = Prove(plane, tuples=FakeModel(writer=lambda prompt: reply))
    scores = one(prove, "The dress is red.")
    assert scores.failure is not None
    assert scores.failure.kind == "reply"
    assert scores.failure.detail.startswith("the response has no tuples: the model")


def test_tuples_may_come_from_a_model_asked_once_and_kept(tmp_path: Path) -> None:
    model = FakeModel(writer=lambda prompt: REPLY, name="writer")
    prove = Prove(plane, tuples=model, store=tmp_path / "store.sqlite")
    scores = one(prove, "The dress is red.")
    assert [each.tuple for each in scores.claims] == [("dress",), ("dress", "red")]
    assert len(model.prompts) == 3, "response and answer are the same text"
    assert "Text: The dress is red." in {p.suffix.splitlines()[0] for p in model.prompts}
    assert "|tuples:writer|wording:1|" in prove.signature
    again = FakeModel(writer=lambda prompt: REPLY, name="writer")
    assert one(Prove(plane, tuples=again, store=tmp_path / "store.sqlite"), A) == scores
    assert again.prompts == []


def test_true_answers_score_above_lies_on_both_counts() -> None:
    asked = [(q, caption(s)) for s in generate_scenes("validation", 12) for q in questions(s)]
    prove = Prove()
    answers, captions = [q.answer for q, _ in asked], [caption for _, caption in asked]
    texts = [q.question for q, _ in asked]
    true = prove.score(answers, answers, texts, captions)
    lies = prove.score([q.lie for q, _ in asked], answers, texts, captions)
    assert len(asked) > 20
    assert {(each.helpfulness, each.truthfulness) for each in true} == {(1.0, 1.0)}
    for each in lies:
        assert each.helpfulness is not None
        assert each.truthfulness is not None
        assert max(each.helpfulness, each.truthfulness) < 0.9


@pytest.mark.slow
def test_planted_mistakes_cost_truth_and_omissions_help(shared_data: Path) -> None:
    works = json.loads((shared_data / "data" / "planted" / "planted_dev.json").read_text("utf-8"))
    references = [work["reference"] for work in works]
    prove = Prove()

    def scored(key: str) -> list[ProveScores]:
        texts = [work[key] for work in works]
        return prove.score(texts, references, [""] * len(works), references)

    faithful, mistaken, omitting = map(scored, ("faithful", "mistaken_text", "omitting"))
    truer = [
        f.truthfulness > m.truthfulness
        for f, m in zip(faithful, mistaken, strict=True)
        if f.truthfulness is not None and m.truthfulness is not None
    ]
    fuller = [
        f.helpfulness > o.helpfulness
        for f, o in zip(faithful, omitting, strict=True)
        if f.helpfulness is not None and o.helpfulness is not None
    ]
    assert len(truer) == len(fuller) == len(works)
    assert sum(truer) >= 0.8 * len(works)
    assert all(fuller)
