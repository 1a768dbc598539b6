"""The metric as a module of evaluate."""

from __future__ import annotations

import math

import pytest

from posh_reward.adapters.hf_evaluate import TextModule
from tests.adapters.groups import REASON, REFERENCE, REWARD, TEXTS, scores


def test_means_are_those_of_a_direct_call_without_the_failed() -> None:
    computed = TextModule(REWARD).compute(predictions=TEXTS, references=[REFERENCE] * 4, rows=True)
    f1 = [score.f1 for score in scores()]
    assert computed["rows"]["posh_f1"] == f1
    assert computed["posh_f1"] == pytest.approx(sum(x for x in f1 if x is not None) / 3)
    assert computed["failed"] == 1
    assert REASON in computed["failures"][0]
    assert computed["signature"] == REWARD.signature


def test_batches_add_up() -> None:
    module = TextModule(REWARD)
    for text in TEXTS:
        module.add(prediction=text, reference=REFERENCE)
    whole = TextModule(REWARD).compute(predictions=TEXTS, references=[REFERENCE] * 4)
    assert module.compute() == whole


def test_without_texts_there_are_no_means() -> None:
    computed = TextModule(REWARD).compute(predictions=[], references=[])
    assert math.isnan(computed["posh_f1"])
    assert computed["failed"] == 0
