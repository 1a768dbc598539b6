"""Any table of rated texts: its rows, references, raters, and the figures."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.judgment_files import read_flickr8k, read_thumb
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.study.agreement.ratings import RatingColumns, ratings_report, read_ratings
from tests.cli.running import write_rows
from tests.study.agreement.judgment_rows import Row

QUIET = AgreementSettings(resamples=20, quiet=True)
NAMES = RatingColumns(generation="caption", ratings={"overall": "ratings"})


class Length:
    """Characters of the text, less those of the reference."""

    name = signature = "length"

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        return [AxisScores.same(len(p.generation) - len(p.reference)) for p in pairs]


def rows() -> list[Row]:
    """Three texts of two images, with two raters."""
    return [
        {"image": "a", "references": ["aa", "a"], "caption": "aaaa", "ratings": [3, 4]},
        {"image": "a", "references": ["aa", "a"], "caption": "a", "ratings": [1, 1]},
        {"image": "a", "references": ["aa", "a"], "caption": "aa", "ratings": [1, 3]},
        {"image": "b", "references": ["b"], "caption": "bbb", "ratings": [2, 2]},
    ]


def test_pairwise_accuracy_by_hand() -> None:
    # Of image a: texts 1, 2, 3 are rated 3.5, 1, 2. A metric that gives 3, 0, 0 orders
    # (1, 2) and (1, 3) right, and ties on (2, 3). Image b has no second text.
    judged = read_ratings(
        [{**row, "mine": mine} for row, mine in zip(rows(), (3, 0, 0, 9), strict=True)],
        replace(NAMES, raters="mean"),
        "rows",
    )
    [line] = ratings_report(judged, replace(QUIET, columns=["mine"])).lines
    assert line.cells["overall pairs"].estimate.value == pytest.approx(2 / 3)


def test_the_figures_are_scipys() -> None:
    judged = read_ratings(rows(), NAMES, "rows")
    [line] = ratings_report(judged, replace(QUIET, measures=[Length()])).lines
    scores = np.array([-2, -2, -5, -5, -4, -4, 2, 2])  # the references are "aa. a." and "b"
    people = judged.people["overall"]
    found = {key: cell.estimate.value for key, cell in line.cells.items()}
    assert found["overall tau_b"] == pytest.approx(kendalltau(scores, people).statistic)
    tau_c = kendalltau(scores, people, variant="c").statistic
    assert found["overall tau_c"] == pytest.approx(tau_c)
    assert found["overall rho"] == pytest.approx(spearmanr(scores, people).statistic)
    assert found["overall r"] == pytest.approx(pearsonr(scores, people).statistic)
    assert line.cells["overall r"].p == pytest.approx(pearsonr(scores, people).pvalue)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ratings": "good"}, "row 1: ratings is 'good', not a number"),
        ({"ratings": [1, {}]}, "row 1: ratings is '{}', not a number"),
        ({"ratings": "1e999"}, "row 1: ratings is '1e999', not a finite number"),
        ({"caption": None}, "row 1: caption is missing"),
        ({"references": []}, "row 1: references is missing"),
        ({"references": ["a", 3]}, "row 1: references has 3 as item 2, which is not a text"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named(change: Row, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_ratings([{**rows()[0], **change}], NAMES, "rows")


def test_a_correlation_is_inside_its_interval_where_rows_share_images() -> None:
    """Five systems on each of 20 images, and an image effect that people do not see.

    In a resample, pairs of rows within an image are twice as many as in the sample, and here they
    agree best. Uncorrected, tau_b of .804 had the interval [.805, .811].
    """
    rng = np.random.default_rng(1)
    table = [
        {"image": image, "references": ["x"], "caption": f"{image} {system}",
         "ratings": 1 + (system > 1) + (system > 3), "mine": system + effect + noise}
        for image, effect in zip("abcdefghijklmnopqrst", rng.normal(0, 0.3, 20), strict=True)
        for system, noise in enumerate(rng.normal(0, 0.05, 5))
    ]  # fmt: skip
    choices = replace(QUIET, columns=["mine"], resamples=300)
    [line] = ratings_report(read_ratings(table, NAMES, "rows"), choices).lines
    for name in ("tau_b", "rho", "r"):
        found = line.cells[f"overall {name}"].estimate
        assert found.low < found.value < found.high


AXES = ("mistakes", "omissions", "overall")


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_flickr8k(tmp_path: Path) -> None:
    judgments = [
        {"image_path": "x.jpg", "caption": "A  cat .", "rating": 1.0},
        {"image_path": "x.jpg", "caption": "A dog .", "rating": float("nan")},
    ]
    image = {"image_path": "images/a.jpg", "ground_truth": ["A dog .", "Dogs  run ."],
             "human_judgement": judgments}  # fmt: skip
    rows = read_flickr8k(written(tmp_path / "flickr8k.json", {"a": image}))
    ratings = read_ratings(rows, RatingColumns(ratings={"overall": "rating"}), "flickr8k")
    assert [text.generation for text in ratings.texts] == ["A cat .", "A dog ."]
    assert ratings.texts[0].references == ("A dog .", "Dogs run .")
    assert ratings.texts[0].image == "images/a.jpg"
    assert ratings.people["overall"][0] == 1
    with pytest.raises(InputError, match="is not an object of images"):
        read_flickr8k(written(tmp_path / "list.json", [image]))
    with pytest.raises(InputError, match="'a' has no list 'human_judgement'"):
        read_flickr8k(written(tmp_path / "bare.json", {"a": {}}))


@pytest.mark.parametrize("by_segment", [True, False])
def test_thumb(tmp_path: Path, by_segment: bool) -> None:
    """References are found by segment, or in the order of the segments."""
    rows = [
        {"SYS": "Up-Down", "seg_id": "974", "set_id": 5, "hyp": "An elephant.", "image": "a.jpg",
         "P": 4.0, "R": 3.0, "Fl": -0.0, "Inc": -0.0, "Con": -0.0, "human_score": 3.5},
        {"SYS": "Human", "seg_id": "2453", "set_id": 24, "hyp": "A bench.", "image": "b.jpg",
         "P": 5.0, "R": 4.0, "Fl": -0.3, "Inc": -0.0, "Con": -0.0, "human_score": 4.2},
    ]  # fmt: skip
    refs = [{"seg_id": "974", "refs": ["A man.", "A ride."]}, {"seg_id": "2453", "refs": ["x"]}]
    refs = refs[::-1] if by_segment else [{"refs": each["refs"]} for each in refs]
    file = write_rows(tmp_path / "mscoco_THumB-1.0.jsonl", rows)
    others = write_rows(tmp_path / "mscoco_references.jsonl", refs)
    found = read_thumb(file, others)
    columns = RatingColumns(ratings={axis: axis for axis in AXES})
    ratings = read_ratings(found, columns, "thumb")
    assert [text.references for text in ratings.texts] == [("A man.", "A ride."), ("x",)]
    assert [ratings.people[axis].tolist() for axis in AXES] == [[4, 5], [3, 4], [3.5, 4.2]]
    with pytest.raises(InputError, match="--reference-file"):
        read_thumb(file)
    with pytest.raises(InputError, match=r"no references of segment '974'|1 rows without seg_id"):
        read_thumb(file, write_rows(tmp_path / "few.jsonl", [refs[0]]))
