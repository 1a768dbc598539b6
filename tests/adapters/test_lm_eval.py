"""The metric in an evaluation by lm-evaluation-harness, with a model that knows its replies."""

import json
from pathlib import Path

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, scores

pytestmark = pytest.mark.adapters
TASK = """
task: captions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: prompt
doc_to_target: reference
process_results: !function posh.process_results
metric_list:
  - {{metric: posh_f1, aggregation: mean, higher_is_better: true}}
  - {{metric: failed, aggregation: mean, higher_is_better: false}}
"""
POSH = """
from posh_reward.adapters.evaluators import lm_eval_scorer

process_results = lm_eval_scorer("tests.adapters.groups:REWARD")
"""


def test_means_are_over_documents_that_could_be_judged(tmp_path: Path) -> None:
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Replies(LM):  # type: ignore[misc]
        def generate_until(self, requests: list) -> list[str]:  # type: ignore[type-arg]
            return [TEXTS[int(request.args[0].split()[-1])] for request in requests]

        def loglikelihood(self, requests: list) -> list:  # type: ignore[type-arg]
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    rows = [{"prompt": f"Image {i}", "reference": REFERENCE} for i in range(4)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "posh.py").write_text(POSH)
    (tmp_path / "captions.yaml").write_text(TASK.format(data=data))
    output = lm_eval.simple_evaluate(
        Replies(),
        tasks=["captions"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        bootstrap_iters=0,
    )
    result = output["results"]["captions"]
    direct = [score.f1 for score in scores() if score.f1 is not None]
    assert result["posh_f1,none"] == pytest.approx(sum(direct) / 3)
    assert result["failed,none"] == 0.25
    samples = sorted(output["samples"]["captions"], key=lambda each: each["doc_id"])
    assert "posh_f1" not in samples[FAILED]
    assert samples[0]["posh_f1"] == scores()[0].f1
