"""HarmonicEval on a fake model that sees."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from posh_reward import HarmonicEval, InputError
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.harmonic_eval import (
    CRITERIA,
    IMAGE_CRITERIA,
    criterion_score,
    harmonic_weights,
    mean_and_sigma,
    weighted_mean,
)
from posh_reward.types import Failure, Verdict


def test_mean_and_sigma_of_a_distribution() -> None:
    assert mean_and_sigma([0, 0, 0, 0, 1]) == (5, 0)
    assert mean_and_sigma([0.5, 0, 0, 0, 0.5]) == (3, 2)
    assert mean_and_sigma([0, 0, 0.25, 0.5, 0.25]) == pytest.approx((4, 0.5**0.5))
    assert mean_and_sigma([0, 0, 0, 0, 0.9995]) == (5, 0), "which rounding makes of 1"


def test_the_papers_three_strategies() -> None:
    sigmas = [0.5, 1.0, 2.0]
    assert harmonic_weights(sigmas, 1) == [1 / 3] * 3
    assert harmonic_weights(sigmas, 0.5) == pytest.approx([16 / 21, 4 / 21, 1 / 21])
    assert harmonic_weights(sigmas, 0) == [1, 0, 0]
    assert harmonic_weights(sigmas, 0.01) == pytest.approx([1, 0, 0])


def test_a_gamma_between_them_and_one_near_0() -> None:
    parts = [sigma ** (-2 / 3) for sigma in (0.5, 1.0, 2.0)]  # by hand: -2 (1 - .75) / .75
    expected = [part / sum(parts) for part in parts]
    assert harmonic_weights([0.5, 1.0, 2.0], 0.75) == pytest.approx(expected)
    for gamma in (5e-324, 1e-300, 1e-9):
        assert harmonic_weights([0.3, 0.2, 0.2], gamma) == [0, 0.5, 0.5]
    assert weighted_mean([1.2] * 7, [1 / 7] * 7) == 1.2, "not 1.1999999999999997"


@given(st.lists(st.floats(0, 2), min_size=1, max_size=5), st.floats(0, 1))
def test_weights_are_shares_and_a_surer_criterion_has_no_smaller_one(
    sigmas: list[float], gamma: float
) -> None:
    weights = harmonic_weights(sigmas, gamma)
    assert sum(weights) == pytest.approx(1)
    assert all(0 <= weight <= 1 for weight in weights)
    ordered = [weight for _, weight in sorted(zip(sigmas, weights, strict=True))]
    assert all(more >= less - 1e-12 for more, less in pairwise(ordered))


RED, BLUE = (Image.new("RGB", (8, 8), color) for color in ("red", "blue"))
CAPTION = "A red square."
GONE = Failure("engine", "gone")


def criterion(prompt: Prompt) -> str:
    """The criterion that a prompt asks for."""
    return next(name for name in CRITERIA if f"\n- {name.capitalize()}: " in prompt.text)


def by_criterion(prompt: Prompt) -> float:
    """Correctness 1.5, completeness 2.5, ..., all with sigma 0.5."""
    return CRITERIA.index(criterion(prompt)) + (1.5 if criterion(prompt) != "conciseness" else 0.5)


def judge(grader: Any = by_criterion) -> FakeModel:
    return FakeModel(grader, sees=True)


def test_surer_criteria_count_more() -> None:
    """Gamma 0.5: weights by 1 / sigma squared. Sigmas 1 and 0.5, so weights 1 to 4, of 5.

    Half on 2 and half on 4 is 3 with sigma 1; half on 4 and half on 5 is 4.5 with sigma 0.5:
    (1 x 3 + 4 x 4.5) / 5 = 4.2.
    """
    shares = {"correctness": (0, 0.5, 0, 0.5, 0), "clarity": (0, 0, 0, 0.5, 0.5)}

    class Judge(FakeModel):
        def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
            return [Verdict(shares[criterion(each)]) for each in prompts]

    metric = HarmonicEval(Judge(sees=True), 0.5, criteria=list(shares))
    [score] = metric.score([CAPTION], [RED])
    assert [each.weight for each in score.criteria] == pytest.approx([0.2, 0.8])
    assert score.overall == pytest.approx(4.2)


def test_five_criteria_and_their_mean() -> None:
    [score] = HarmonicEval(judge()).score([CAPTION], [RED])
    assert [each.criterion for each in score.criteria] == list(CRITERIA)
    assert [each.mean for each in score.criteria] == [1.5, 2.5, 3.5, 4.5, 4.5]
    assert [each.sigma for each in score.criteria] == [0.5] * 5
    assert [each.weight for each in score.criteria] == pytest.approx([0.2] * 5)
    assert score.overall == pytest.approx(3.3)
    assert score.failure is None
    assert score.signature.startswith("harmonic|model:fake-model-1|gamma:0.75|replies:")


def test_only_correctness_and_completeness_see_the_image() -> None:
    model = judge()
    HarmonicEval(model).score([CAPTION], [RED])
    assert {criterion(p): len(p.images) for p in model.prompts} == {
        name: int(name in IMAGE_CRITERIA) for name in CRITERIA
    }


def test_the_papers_words() -> None:
    model = judge()
    HarmonicEval(model, criteria=["correctness"]).score([CAPTION], [RED])
    assert model.prompts[0].prefix.startswith(
        "Your task is to rate the candidate caption for the given image on a scale of 1 to 5 on "
        "the following criterion and rating scale.\n\nEvaluation Criterion:\n\n- Correctness: How "
        "accurately does the caption describe the image?\n\nRating Scale:\n\n- 1 Very Low "
    )
    assert "Caption: A red square.\n" in model.prompts[0].suffix


def test_a_failed_criterion_fails_its_text_alone_and_the_others_are_kept() -> None:
    def grader(prompt: Prompt) -> float | Failure:
        return GONE if "Bad" in prompt.suffix and criterion(prompt) == "fluency" else 3.0

    good, bad = HarmonicEval(judge(grader)).score([CAPTION, "Bad."], [RED, RED])
    assert good.overall == 3.0
    assert bad.overall is None
    assert str(bad.failure) == "fluency: gone"
    assert bad.means == dict.fromkeys(CRITERIA, 3.0) | {"fluency": None}
    assert all(each.weight is None for each in bad.criteria)


def test_what_cannot_be_asked_fails_with_its_reason(tmp_path: Path) -> None:
    model = judge()
    scores = HarmonicEval(model).score(
        [CAPTION, None, 7, "\ud800", CAPTION, CAPTION],  # type: ignore[list-item]
        [RED, RED, RED, RED, None, tmp_path / "none.png"],
    )
    assert scores[0].overall is not None
    reasons = ["text is missing", "type int", "surrogate", "no image", "cannot be read"]
    for score, reason in zip(scores[1:], reasons, strict=True):
        assert score.overall is None
        assert reason in str(score.failure)
    assert len(model.prompts) == 5


def test_a_reply_without_a_label_is_a_failure_and_not_a_sure_1() -> None:
    """As ``top-20`` reads it, the lowest label is certain: it would get all the weight."""
    unparsed = Verdict((1.0, 0.0, 0.0, 0.0, 0.0), unparsed=True, mass=0.0)
    score = criterion_score("fluency", unparsed)
    assert (score.mean, score.sigma) == (None, None)
    assert "no label" in str(score.failure)


def test_a_blind_model_is_refused_where_a_criterion_needs_the_image() -> None:
    with pytest.raises(InputError, match="fake-model-1 does not take images"):
        HarmonicEval(FakeModel(by_criterion), criteria=["fluency", "correctness"])
    [score] = HarmonicEval(FakeModel(by_criterion), criteria=["fluency"]).score([CAPTION], [None])
    assert score.overall == 4.5


def test_what_is_in_the_store_is_not_asked(tmp_path: Path) -> None:
    for expected in (5, 0):
        model = judge()
        HarmonicEval(model, store=tmp_path / "store").score([CAPTION], [RED])
        assert len(model.prompts) == expected


def test_neither_order_nor_company_changes_a_score() -> None:
    texts = [f"A {color} square." for color in ("red", "green", "blue")] * 30
    harmonic = HarmonicEval(FakeModel(lambda p: 1 + len(p.text) % 5 / 1.25, sees=True))
    together = harmonic.score(texts, [RED] * 90)
    assert together == [harmonic.score([text], [RED])[0] for text in texts[:3]] * 30


def test_the_model_sleeps_between_calls_and_is_not_woken_for_nothing() -> None:
    model = judge()
    harmonic = HarmonicEval(model)
    harmonic.score([], [])
    harmonic.score([None], [RED])
    assert model.events == []
    harmonic.score([CAPTION] * 100, [RED] * 100)
    assert model.events == ["wake", "sleep"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([CAPTION], []), "1 texts but 0 images"),
        ((CAPTION, [RED]), "texts is one string"),
        (([CAPTION], [RED], "painting"), "task is 'painting': choose one of captioning, vqa"),
        (([CAPTION], [RED], "vqa"), "task vqa needs questions"),
    ],
)
def test_bad_calls_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        HarmonicEval(judge()).score(*arguments)


def test_signatures_tell_what_changes_scores() -> None:
    signatures = {
        HarmonicEval(judge()).signature,
        HarmonicEval(judge(), 0.5).signature,
        HarmonicEval(judge(), 0.50000001).signature,
        HarmonicEval(judge(), criteria=IMAGE_CRITERIA).signature,
        HarmonicEval(FakeModel(name="other", sees=True)).signature,
        HarmonicEval(judge()).signature_for("vqa"),
    }
    assert len(signatures) == 6


def test_reasons_are_asked_for_in_the_papers_words() -> None:
    model = FakeModel(by_criterion, lambda prompt: f"Since {criterion(prompt)}.", sees=True)
    [score] = HarmonicEval(model, explain=True).score([CAPTION], [RED])
    assert [each.reason for each in score.criteria] == [f"Since {name}." for name in CRITERIA]
    [prompt] = [p for p in model.prompts if "Why?" in p.text and criterion(p) == "clarity"]
    assert prompt.suffix.endswith("\n\nYour answer was 3.\n\nWhy? Tell me the reason.")
    assert "|reasons:1|" in HarmonicEval(judge(), explain=True).signature


def test_a_missing_reason_costs_no_score() -> None:
    model = FakeModel(by_criterion, lambda prompt: GONE, sees=True)
    [score] = HarmonicEval(model, explain=True).score([CAPTION], [RED])
    assert score.overall == pytest.approx(3.3)
    assert [each.reason for each in score.criteria] == [None] * 5
