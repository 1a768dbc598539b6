"""The metric as a scorer in an evaluation by inspect_ai, with its mock model."""

import math
from pathlib import Path

import pytest

from tests.adapters.groups import FAILED, REASON, REFERENCE, TEXTS, scores

pytestmark = pytest.mark.adapters


def test_an_evaluation_counts_what_could_not_be_judged(tmp_path: Path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    from posh_reward.adapters.evaluators import inspect_scorer

    samples = [Sample(input=f"Describe image {i}.", target=REFERENCE) for i in range(4)]
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in TEXTS]
    for output in outputs:
        output.usage = ModelUsage()  # counting tokens would download an encoding
    task = Task(
        dataset=samples, solver=generate(), scorer=inspect_scorer("tests.adapters.groups:REWARD")
    )
    [log] = eval(
        task,
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(tmp_path),
        display="none",
        max_samples=1,  # the mock model gives its outputs in this order
    )
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.samples is not None
    means = {each.name: each for each in log.results.scores}
    direct = scores()
    f1 = [score.f1 for score in direct if score.f1 is not None]
    assert means["posh_f1"].metrics["mean"].value == pytest.approx(sum(f1) / 3)
    assert (means["posh_f1"].scored_samples, means["posh_f1"].unscored_samples) == (3, 1)
    rows = [sample.scores["text_scorer"] for sample in log.samples if sample.scores]
    for row, score in zip(rows, direct, strict=True):
        if score.failure is None:
            assert row.value == {
                "posh_precision": score.precision,
                "posh_recall": score.recall,
                "posh_f1": score.f1,
            }
            assert row.metadata["elements"][0]["kind"] == "entity"
    assert math.isnan(rows[FAILED].as_float())
    assert REASON in str(rows[FAILED].explanation)
    assert rows[FAILED].reason == "grader_failed"
