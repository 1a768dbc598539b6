"""Weights that are known are found again; where there is nothing to find, nothing is settled."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.errors import InputError
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.reward.shaping import Shaping, shape
from posh_reward.study.agreement.correlation import spearman
from posh_reward.study.agreement.metric_scores import TextPair
from posh_reward.study.agreement.preferences import PairColumns, Preferences, read_preferences
from posh_reward.study.calibration.calibration_set import packet_preferences, preference_set
from posh_reward.study.calibration.fit import EQUAL, PENALTY, Calibration, Fit
from posh_reward.study.calibration.graded_texts import GradeCache, GradeSums, score_missing
from posh_reward.study.calibration.out_of_fold import (
    CalibrationSettings,
    calibrate,
    folds,
    verdict_lines,
)
from posh_reward.study.packets.study_records import PacketKey, RaterAnswer, RaterTask
from posh_reward.types import Element, Failure, Scores
from tests.study.calibration.simulated import AXES, PEOPLE, SIGNATURE, judged, simulated
from tests.study.packets.studies import packet

QUICK = CalibrationSettings(resamples=40, quiet=True)
GENERATION = "A small black dog sits on the left of a wooden table. A man holds a red cup."
REFERENCE = "A small brown dog sleeps under a table. A tall man in a coat holds a cup."


def test_weights_by_hand() -> None:
    """An entity of grade 5, and a relation of grade 1 that counts thrice: (5 + 3 x 1) / 4 / 5."""
    dog = Element("precision", "entity", "dog", 5.0, (), "dog")
    under = replace(dog, kind="relation", text="under", grade=1.0)
    sums = GradeSums.of([Scores(0.6, 1.0, 0.75, SIGNATURE, (dog, under))])
    found = Calibration(relation=3.0).scores(sums)
    assert found["mistakes"].tolist() == pytest.approx([0.4])
    assert found["omissions"].tolist() == [1], "no element of the reference is missing"


def test_scores_under_other_weights_are_those_of_the_metric() -> None:
    """Nothing is asked again, and yet it is what PoSh and Shaping would have given."""
    [scored] = PoSh(judge="fake").score([GENERATION], [REFERENCE])
    found = PEOPLE.scores(GradeSums.of([scored]))
    [weighted] = PoSh(judge="fake", weights=PEOPLE.weights).score([GENERATION], [REFERENCE])
    assert found["mistakes"][0] == pytest.approx(weighted.precision)
    assert found["omissions"][0] == pytest.approx(weighted.recall)
    precision, recall = PEOPLE.precision_and_recall
    shaping = Shaping(precision_weight=precision, recall_weight=recall)
    assert found["overall"][0] == pytest.approx(shape(weighted, shaping))


def test_what_has_no_score_has_none_under_any_weights() -> None:
    dog = Element("precision", "entity", "dog", 5.0, (), "dog")
    lost = replace(dog, kind="relation", grade=None, failure=Failure("reply", "?"))
    scores = [
        Scores(None, 1.0, None, SIGNATURE, (dog, lost)),
        Scores.failed(Failure("text", "the reference is empty"), SIGNATURE),
        Scores(1.0, 1.0, 1.0, SIGNATURE, (dog,)),  # nothing to find in the reference: 1
    ]
    found = PEOPLE.scores(GradeSums.of(scores))
    assert np.isnan(found["mistakes"]).tolist() == [True, True, False]
    assert np.isnan(found["omissions"]).tolist() == [False, True, False]
    assert found["omissions"][[0, 2]].tolist() == [1, 1]


def test_peoples_weights_are_found_again() -> None:
    rows, scores = simulated(50)
    found = calibrate(judged(rows), scores, QUICK)
    for name, (low, high) in found.ranges.items():
        assert low <= getattr(PEOPLE, name) <= high, name
    assert found.holds
    assert found.gain.value > 0.05
    assert "settled" in verdict_lines(found)[1]
    assert {line.name for line in found.report.lines} == {"equal weights", "calibrated"}


@pytest.mark.parametrize(
    ("factor", "offset"), [(1, 1e9), (1e160, 0), (1e-170, 0), (1e300, -1e300), (100, 0)]
)
def test_the_scale_of_ratings_does_not_matter(factor: float, offset: float) -> None:
    rows, scores = simulated(20)
    one = np.ones((1, 20))
    plain = judged(rows)
    people = {axis: values * factor + offset for axis, values in plain.judgments.people.items()}
    moved = replace(plain, judgments=replace(plain.judgments, people=people))
    [expected] = Fit(plain, GradeSums.of(scores)).best(one)
    assert expected != EQUAL
    assert Fit(moved, GradeSums.of(scores)).best(one) == [expected]


def test_ratings_that_are_all_the_same_leave_weights_equal() -> None:
    rows, scores = simulated(20)
    for row in rows:
        row |= dict.fromkeys(("mistakes", "omissions", "overall"), 0.1)
    assert Fit(judged(rows), GradeSums.of(scores)).best(np.ones((1, 20))) == [EQUAL]


def test_people_who_weigh_all_alike_settle_nothing() -> None:
    rows, scores = simulated(40, EQUAL, noise=0.15)
    found = calibrate(judged(rows), scores, QUICK)
    assert not found.holds
    assert "not settled" in verdict_lines(found)[1] or "below 0" in verdict_lines(found)[1]


def test_ratings_that_are_noise_leave_the_weights_equal() -> None:
    rows, scores = simulated(30)
    ratings = np.random.default_rng(0).permutation([row["overall"] for row in rows]).tolist()
    noise = [{**row, **dict.fromkeys(("mistakes", "omissions", "overall"), rating)}
             for row, rating in zip(rows, ratings, strict=True)]  # fmt: skip
    fit = Fit(judged(noise), GradeSums.of(scores))
    [found] = fit.best(np.ones((1, fit.images)))
    assert max(found.attribute, found.relation, found.balance) <= 2
    assert min(found.attribute, found.relation, found.balance) >= 0.5


def test_weights_that_make_no_difference_stay_equal() -> None:
    """Nobody rated overall, so nothing speaks for a balance; all elements are entities."""
    rows, scores = simulated(12)
    things = [
        replace(each, elements=tuple(e for e in each.elements if e.kind == "entity"))
        for each in scores
    ]
    only = [{**row, "omissions": None, "overall": None} for row in rows]
    fit = Fit(judged(only), GradeSums.of(things))
    assert fit.best(np.ones((1, fit.images))) == [EQUAL]
    assert PENALTY.min() == 0


def test_no_image_is_in_two_folds() -> None:
    rows, scores = simulated(11)
    fit = Fit(judged(rows), GradeSums.of(scores))
    assert len(fit.image_of) == 44
    assert fit.images == 11
    parts = folds(fit.images, QUICK)
    assert parts.sum(axis=0).tolist() == [1] * 11
    assert sorted(parts.sum(axis=1).tolist()) == [2, 2, 2, 2, 3]
    unnamed = [{**row, "image": None} for row in rows]  # then the reference says which image
    assert Fit(judged(unnamed), GradeSums.of(scores)).images == 11


def test_the_same_seed_gives_the_same_calibration() -> None:
    rows, scores = simulated(12)
    few = replace(QUICK, resamples=5)
    one, other = (calibrate(judged(rows), scores, few) for _ in range(2))
    assert (one.calibration, one.ranges, one.gain) == (other.calibration, other.ranges, other.gain)


def test_pairs_without_labels_are_fitted_by_which_text_is_better() -> None:
    rows, scores = simulated(40, Calibration(relation=4.0))
    table, by_text = [], []
    for (one, first), (other, second) in zip(
        *(zip(rows[n::2], scores[n::2], strict=True) for n in (0, 1)), strict=True
    ):
        swap = one["mistakes"] < other["mistakes"]
        texts = (other, one) if swap else (one, other)
        by_text += [second, first] if swap else [first, second]
        table.append({"better": texts[0]["candidate"], "worse": texts[1]["candidate"],
                      "reference": one["references"], "image": one["image"]})  # fmt: skip
    columns = PairColumns("better", "worse", "reference", "image", {})
    pairs = preference_set(read_preferences(table, columns, "pairs"))
    people = {"mistakes": pairs.judgments.people["mistakes"]}
    pairs = replace(
        pairs, judgments=replace(pairs.judgments, people=people), figures=pairs.figures[:3]
    )
    found = calibrate(pairs, by_text, QUICK)
    assert found.figure == "acc (mistakes)"
    assert found.calibration.relation >= 2
    assert found.calibration.balance == 1
    assert found.gain.value > 0


def test_one_text_of_a_pair_without_a_score_leaves_the_pair_out() -> None:
    rows, scores = simulated(20)
    scores[3] = Scores.failed(Failure("reply", "no label"), SIGNATURE)
    found = calibrate(judged(rows), scores, replace(QUICK, resamples=0))
    assert found.report.lines[0].failures == {"no label": 1}
    assert found.report.lines[1].cells["overall rho"].rows == 79
    assert isnan(found.gain.low)
    assert not found.holds


def test_folds_need_images() -> None:
    rows, scores = simulated(3)
    with pytest.raises(InputError, match="5 folds of 3 images"):
        calibrate(judged(rows), scores, QUICK)
    with pytest.raises(InputError, match="5 folds of 0 images"):
        calibrate(
            preference_set(Preferences("unrated", [], {"overall": np.array([])}, [])), [], QUICK
        )
    nobody = [{**row, "mistakes": None, "omissions": None, "overall": None} for row in rows]
    with pytest.raises(InputError, match="nothing to fit to"):
        calibrate(judged(nobody), scores, replace(QUICK, folds=2))


def test_texts_are_not_graded_with_a_witness_whose_images_are_not_at_hand() -> None:
    metric = PoSh(judge="fake", witness=FakeJudge())
    with pytest.raises(InputError, match="leave the witness out"):
        score_missing([TextPair("A dog.", ("A cat.",))], GradeCache(), lambda: metric)


def test_scores_that_run_against_people_settle_nothing_however_much_weights_gain() -> None:
    rows, scores = simulated(50)
    inverted = [row | {axis: 1 - row[axis] for axis in AXES} for row in rows]
    found = calibrate(judged(inverted), scores, QUICK)
    assert found.agreement.high < 0 < found.gain.low
    assert not found.holds
    assert (
        "disagrees with these judgments: make sure that higher numbers are better"
        in verdict_lines(found)[-1]
    )


def test_ratings_that_are_all_alike_are_refused() -> None:
    rows, scores = simulated(6)
    alike = [row | {"overall": 3} for row in rows]
    with pytest.raises(InputError, match=r"all ratings are alike \(overall\)"):
        calibrate(judged(alike), scores, QUICK)


def test_the_agreement_of_a_packet_does_not_depend_on_which_model_is_named_first() -> None:
    """Raters always prefer the later model, by 1 or by 2, and so does the metric.

    Named first in every pair, it would have positive numbers only, which hardly vary: rho of 1s and
    2s with differences that do not tell them apart is 0, though the sides agree in all pairs.
    """
    key = packet(48, coarse=1).key
    answers = [
        RaterAnswer(task, rater, dict.fromkeys(AXES, towards(key, task, 1 + number % 2)), None)
        for rater in key.raters
        for number, task in enumerate(key.raters[rater].tasks)
    ]
    preferences = packet_preferences(answers, key)
    later = key.models[1]
    first = [
        key.items[text.image_id or ""].texts[later] == text.generation
        for text in preferences.texts[::2]
    ]
    assert 12 < sum(first) < 36, "the draw names either model first"
    people = preferences.people["overall"]
    assert (np.sign(people) == np.where(first, 1, -1)).all()
    again = packet_preferences(answers[::-1], key)
    assert sorted(text.generation for text in again.texts[::2]) == sorted(
        text.generation for text in preferences.texts[::2]
    )
    rng = np.random.default_rng(0)
    scores = np.where(first, 1.0, -1.0) * rng.uniform(0.1, 0.2, len(people))
    assert spearman(scores, people) > 0.6
    assert abs(spearman(np.abs(scores), np.abs(people))) < 0.4


def towards(key: PacketKey, task: RaterTask, value: int) -> int:
    """A preference for the later model, whichever side it is on."""
    return value if task.models[0] == key.models[1] else -value
