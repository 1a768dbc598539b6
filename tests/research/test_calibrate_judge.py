"""The weights: the fit sees what the metric sees, its slopes are right, signs are as they say."""

import json
from pathlib import Path

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.embedded.judge.features import WEIGHTS
from posh_reward.graph.reader import Reader
from posh_reward.tables.statistics import pearson
from research.calibrate_judge import shipped_weights
from research.calibration.examples import (
    Examples,
    add_artwork,
    add_false_sentences,
    changes,
    fold_of,
)
from research.calibration.objective import AGAINST, CONTRADICTIONS, FREE, OF_KINDS, Objective
from research.calibration.people import Ratings, share_above, tau_c
from research.calibration.questions import Questions, Recorder, answers, ask_about

pytestmark = pytest.mark.slow

ARTWORKS = Path(__file__).parents[2] / "research" / "calibration" / "artworks.json"
DOG = "A white dog runs on the grass."


@pytest.fixture(scope="module")
def found() -> Examples:
    """Two artworks and a few captions."""
    examples = Examples()
    captions = [
        ("A dog runs.", DOG), ("A man sleeps.", DOG), ("A black dog runs.", DOG), (DOG, DOG),
    ]  # fmt: skip
    numbers = np.array([examples.add(pair, str(i)) for i, pair in enumerate(captions)])
    people = {side: np.array([3.0, 1.0, 2.0, 4.0]) for side in ("precision", "recall", "f1")}
    images = ["a", "b", "c", "d"]
    for name, measure in (("Flickr8k-Expert", tau_c), ("THumB", pearson)):
        ratings = Ratings(name, captions, np.arange(4), images, people, measure)
        examples.ratings[name] = ratings, numbers
    corrected = {"precision": np.array([0.0, 1.0])}
    foil = Ratings("DiscourseFOIL", captions[2:], np.arange(2), images[2:], corrected, share_above)
    examples.ratings["DiscourseFOIL"] = foil, numbers[2:]
    examples.marks.append((2, "foil", changes(captions[2][0], "A dog runs.")))
    for item in json.loads(ARTWORKS.read_text(encoding="utf-8"))[:2]:
        add_artwork(examples, item)
        add_false_sentences(examples, item, Reader())
    examples.truth = dict.fromkeys([*OF_KINDS, "entailment"], numbers)
    return examples


@pytest.fixture(scope="module")
def questions(found: Examples) -> Questions:
    """All questions about them."""
    return ask_about(PoSh(judge=Recorder()), found.pairs)


def test_the_fit_sees_the_scores_that_the_metric_gives(
    found: Examples, questions: Questions
) -> None:
    given = answers(questions, shipped_weights()).means
    scores = PoSh().score([g for g, _ in found.pairs], [r for _, r in found.pairs])
    metric = np.array([[s.precision, s.recall, s.f1] for s in scores], dtype=float)
    # Not exactly: rules answer few questions, and present entities can change what others are
    # called.
    assert np.abs(given - metric).mean() < 0.02


def test_slopes_are_those_of_the_loss(found: Examples, questions: Questions) -> None:
    objective = Objective(found, questions, np.ones(len(found.pairs), dtype=bool))
    rng = np.random.default_rng(0)
    point = rng.normal(0, 0.3, sum(map(len, WEIGHTS.values())) + 3)
    _, slopes = objective(point)
    for index in rng.choice(len(point), 12, replace=False).tolist():
        step = np.zeros(len(point))
        step[index] = 1e-6
        measured = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
        assert slopes[index] == pytest.approx(measured, abs=2e-3)


def test_no_fact_speaks_against_its_sense() -> None:
    for weights in WEIGHTS.values():
        for name, weight in weights.items():
            if name in AGAINST:
                assert weight <= CONTRADICTIONS.get(name, 0.0), name
            elif name not in FREE:
                assert weight >= 0, name


def test_what_a_correction_leaves_out_is_marked() -> None:
    text = "A red dog sits."
    assert [text[a:b] for a, b in changes(text, "A dog sits.")] == ["red"]
    assert changes(text, text) == []


def test_an_image_is_always_in_the_same_fold() -> None:
    assert fold_of("ca01") == fold_of("ca01")
    assert {fold_of(f"ca{i}") for i in range(40)} == {0, 1, 2, 3, 4}
