"""The metric as a torchmetrics module."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from PIL import Image

from posh_reward import HarmonicEval, HarmonicReward
from posh_reward.adapters.torchmetrics import TextMetric
from posh_reward.models.fake_model import FakeModel
from tests.adapters.groups import METRIC, REFERENCE, REWARD, TEXTS, scores


def test_means_are_those_of_a_direct_call_without_the_failed() -> None:
    metric = TextMetric(REWARD)
    for text in TEXTS:
        metric.update([text], [REFERENCE])
    f1 = [score.f1 for score in scores() if score.f1 is not None]
    assert len(f1) == 3
    computed = metric.compute()
    assert computed["posh_f1"].item() == pytest.approx(sum(f1) / 3)
    assert computed["failed_share"].item() == 0.25


def test_texts_are_scored_as_written() -> None:
    """An evaluation is of the metric: what a reward blanks out or cuts stays in the text."""
    text = "<think>A man.</think> A dog·cat in a red dress."
    metric = TextMetric(REWARD)
    metric.update([text], [REFERENCE])
    [score] = METRIC.score([text], [REFERENCE])
    assert metric.compute()["posh_precision"].item() == pytest.approx(score.precision)


def test_states_add_up_over_ranks_and_pickle() -> None:
    whole, one, other = (TextMetric(REWARD) for _ in range(3))
    whole.update(TEXTS, [REFERENCE] * 4)
    one.update(TEXTS[:1], [REFERENCE])
    other.update(TEXTS[1:], [REFERENCE] * 3)
    one.merge_state(pickle.loads(pickle.dumps(other)))
    for name, value in whole.compute().items():
        assert one.compute()[name].item() == pytest.approx(value.item())
    whole.reset()
    whole.update(TEXTS[2:3], [REFERENCE])
    assert math.isnan(whole.compute()["posh_f1"])


def test_a_sibling_comes_along() -> None:
    reward = HarmonicReward(HarmonicEval(FakeModel(sees=True)))
    metric = TextMetric(reward)
    images = [Image.new("RGB", (32, 32), "red")]
    metric.update(TEXTS[:1], image=images)
    [score] = reward.metric.score(TEXTS[:1], images)
    assert torch.isfinite(metric.compute()["harmonic_overall"])
    assert metric.compute()["harmonic_overall"].item() == pytest.approx(score.overall)


def test_a_single_text_is_one_text() -> None:
    one, listed = TextMetric(REWARD), TextMetric(REWARD)
    one.update(TEXTS[0], REFERENCE)
    listed.update([TEXTS[0]], [REFERENCE])
    assert one.compute()["posh_f1"] == listed.compute()["posh_f1"]
