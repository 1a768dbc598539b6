"""The metric in lighteval's own application and aggregation of metrics."""

import math

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, scores

pytestmark = pytest.mark.adapters


def test_means_are_over_replies_that_could_be_judged() -> None:
    from lighteval.metrics import apply_metric
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    from posh_reward.adapters.evaluators import lighteval_metrics

    docs = [Doc(query="Describe.", choices=[REFERENCE], gold_index=0) for _ in TEXTS]
    responses = [ModelResponse(text=[text]) for text in TEXTS]
    metrics = lighteval_metrics("tests.adapters.groups:REWARD")
    rows = apply_metric(responses, docs, [metrics])
    for row, score in zip(rows, scores(), strict=True):
        if score.f1 is not None:
            assert (row["posh_f1"], row["failed"]) == (score.f1, 0)
    assert math.isnan(rows[FAILED]["posh_f1"])
    means = {
        name: function([row[name] for row in rows])
        for name, function in metrics.get_corpus_aggregations().items()
    }
    direct = [score.f1 for score in scores() if score.f1 is not None]
    assert means["posh_f1"] == pytest.approx(sum(direct) / 3)
    assert means["failed"] == 0.25
