"""POSH as a metric in capevalkit's own evaluation, on people's ratings in its layout."""

import json
from pathlib import Path
from typing import Any

import pytest

from posh_reward import JudgeError, PoSh
from posh_reward.adapters.evaluators import capeval_metric
from tests.adapters.groups import FAILED, METRIC, REFERENCE, TEXTS

pytestmark = pytest.mark.adapters
RATINGS = [3.0, 4.0, 1.0, 2.0]


def write_flickr8k(root: Path, images: list[dict[str, Any]]) -> Path:
    """The file that capevalkit reads from ``data_root``; each rating is a sample."""
    content = {
        each["image"]: {
            "image_path": f"{each['image']}.jpg",
            "ground_truth": each["references"],
            "human_judgement": [
                {"caption": one["caption"], "rating": rating}
                for one in each["candidates"]
                for rating in one["ratings"]
            ],
        }
        for each in images
    }
    (root / "flickr8k.json").write_text(json.dumps(content))
    return root


def test_scores_are_those_of_a_direct_call(tmp_path: Path) -> None:
    from capevalkit.api import evaluate_metric

    pairs = zip(TEXTS, RATINGS, strict=True)
    candidates = [{"caption": text, "ratings": [rating]} for text, rating in pairs]
    image = {"image": "a", "references": [REFERENCE], "candidates": candidates}
    root = write_flickr8k(tmp_path, [image])
    settings = {"benchmark": "flickr8k-ex", "data_root": str(root), "metric_name": "POSH"}
    result = evaluate_metric(
        metric=capeval_metric("tests.adapters.groups:REWARD", fallback=0.2), **settings
    )
    found = [each["score"] for each in result["raw_metric_output"]["POSH"]["per_item"].values()]
    direct = METRIC.score(TEXTS, [REFERENCE] * 4)
    expected = [0.2 if each.f1 is None else each.f1 for each in direct]
    assert sorted(found) == pytest.approx(sorted(expected))
    assert direct[FAILED].f1 is None
    assert result["correlations"]["kendall_tau_b"] == pytest.approx(100)  # all six pairs agree
    with pytest.raises(JudgeError, match="1 captions could not be judged"):
        evaluate_metric(metric=capeval_metric("tests.adapters.groups:REWARD"), **settings)


def test_its_correlation_with_people_is_ours(tmp_path: Path, shared_data: Path) -> None:
    """On Flickr8k-Expert's ratings, through capevalkit and through SciPy."""
    from capevalkit.api import evaluate_metric
    from scipy.stats import kendalltau

    lines = (shared_data / "data" / "human" / "flickr8k_expert_dev.jsonl").read_text().splitlines()
    images = [json.loads(line) for line in lines[:100]]
    root = write_flickr8k(tmp_path, images)
    result = evaluate_metric(
        benchmark="flickr8k-ex", data_root=str(root), metric=capeval_metric(), metric_name="POSH"
    )
    rows = [
        (one["caption"], each["references"], rating)
        for each in images
        for one in each["candidates"]
        for rating in one["ratings"]
    ]
    texts, references, ratings = zip(*rows, strict=True)
    clean = [[" ".join(text.split()) for text in some] for some in references]
    scores = PoSh().score([" ".join(text.split()) for text in texts], clean)
    tau = kendalltau([each.f1 for each in scores], ratings, variant="c").statistic
    print(result["num_samples"], result["correlations"])
    assert result["correlations"]["kendall_tau_c"] == pytest.approx(100 * tau)
