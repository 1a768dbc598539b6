"""Any table of read_ratings texts: its rows, references, raters, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from posh_reward.errors import InputError
from posh_reward.metrics.metric import joined_references
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.judgment_files import read_rows
from posh_reward.study.agreement.metric_scores import (
    AxisScores,
    Combine,
    TextPair,
    score_texts,
)
from posh_reward.study.agreement.ratings import (
    RatingColumns,
    WithinImages,
    ratings_report,
    read_ratings,
)
from posh_reward.study.statistics import Floats, Ints, resampled_rows
from tests.cli.running import write_rows
from tests.study.agreement.judgment_rows import Row

QUIET = AgreementSettings(resamples=20, quiet=True)
NAMES = RatingColumns(candidate="caption", ratings={"overall": "ratings"})


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
    # Of image a: texts 1, 2, 3 are read_ratings 3.5, 1, 2. A metric that gives 3, 0, 0 orders
    # (1, 2) and (1, 3) right, and ties on (2, 3). Image b has no second text.
    judged = read_ratings(
        [{**row, "mine": mine} for row, mine in zip(rows(), (3, 0, 0, 9), strict=True)],
        replace(NAMES, raters="mean"),
        "rows",
    )
    [line] = ratings_report(judged, replace(QUIET, columns=["mine"])).lines
    assert line.cells["overall pairs"].estimate.value == pytest.approx(2 / 3)


def test_each_rating_is_a_row_or_their_mean_is() -> None:
    each = read_ratings(rows(), NAMES, "rows")
    assert each.text_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert each.people["overall"].tolist() == [3, 4, 1, 1, 1, 3, 2, 2]
    assert each.groups == ["a"] * 6 + ["b"] * 2
    mean = read_ratings(rows(), replace(NAMES, raters="mean"), "rows")
    assert mean.people["overall"].tolist() == [3.5, 1, 2, 2]


def test_the_figures_are_scipys() -> None:
    judged = read_ratings(rows(), NAMES, "rows")
    [line] = ratings_report(judged, replace(QUIET, measures=[Length()], combine="best")).lines
    scores = np.array([3, 3, 0, 0, 1, 1, 2, 2])
    people = judged.people["overall"]
    found = {key: cell.estimate.value for key, cell in line.cells.items()}
    assert found["overall tau_b"] == pytest.approx(kendalltau(scores, people).statistic)
    assert found["overall tau_c"] == pytest.approx(
        kendalltau(scores, people, variant="c").statistic
    )
    assert found["overall rho"] == pytest.approx(spearmanr(scores, people).statistic)
    assert found["overall r"] == pytest.approx(pearsonr(scores, people).statistic)
    assert line.cells["overall r"].p == pytest.approx(pearsonr(scores, people).pvalue)


def pair_by_pair(images: Ints, items: Ints, scores: Floats, people: Floats, rows: Ints) -> float:
    drawn = np.bincount(rows, minlength=len(people))
    right = asked = 0
    for one, other in combinations(np.flatnonzero(drawn).tolist(), 2):
        if images[one] == images[other] and items[one] != items[other]:
            order = np.sign(people[one] - people[other])
            asked += drawn[one] * bool(order)
            right += drawn[one] * bool(order) * (np.sign(scores[one] - scores[other]) == order)
    return float(right / asked)


@pytest.mark.parametrize(("images", "levels"), [(12, 3), (1, 3), (1, 500)])
def test_pairwise_accuracy_is_counted_as_if_pair_by_pair(images: int, levels: int) -> None:
    rng = np.random.default_rng(levels)
    of = np.sort(rng.integers(0, 60, 140))  # about two ratings for each text
    image = of * images // 60
    scores = np.round(rng.normal(0, 1, 60), 1)[of]  # some texts tie
    people = rng.integers(0, levels, 140).astype(float)
    scores[of % 7 == 0] = np.nan
    usable = np.flatnonzero(~np.isnan(scores))
    draws = [
        usable,
        *(r[~np.isnan(scores[r])] for r in resampled_rows(image.tolist(), resamples=5)),
    ]
    expected = [pair_by_pair(image, of, scores, people, rows) for rows in draws]
    found = WithinImages.of(image.tolist(), of).accuracies(scores, people, draws)
    assert found == pytest.approx(expected, abs=1e-12)


def test_one_image_may_have_thousands_of_texts() -> None:
    """Two hundred million pairs: listed, they would not fit into the memory."""
    count = 20_000
    order = np.random.default_rng(0).permutation(count).astype(float)
    within = WithinImages.of([0] * count, np.arange(count))
    assert within.accuracy(order, order, np.arange(count)) == 1
    assert within.accuracy(-order, order, np.arange(count)) == 0


@pytest.mark.parametrize(
    ("combine", "score"),
    [("native", 4 - len("aa. a.")), ("join", 4 - len("aa. a.")), ("best", 3), ("mean", 2.5)],
)
def test_several_references(combine: Combine, score: float) -> None:
    column = score_texts(Length(), read_ratings(rows(), NAMES, "rows").texts, combine)
    assert column.scores["overall"][0] == score


def test_references_become_sentences_of_one_text() -> None:
    assert joined_references(["a dog runs", "A dog . "]) == "a dog runs. A dog."


def test_a_column_of_rows_is_unfolded(tmp_path: Path) -> None:
    texts = [{"caption": "y", "ratings": [1]}, {"caption": "z", "ratings": [2]}]
    nested = [{"image": "a", "references": ["x"], "texts": texts}]
    path = write_rows(tmp_path / "in.jsonl", nested)
    assert [row["caption"] for row in read_rows(str(path), unfold="texts")] == ["y", "z"]
    with pytest.raises(InputError, match="row 1: 'references' is not a list of rows to unfold"):
        read_rows(str(path), unfold="references")
    with pytest.raises(InputError, match="row 1: 'none' is not a list of rows"):
        read_rows(str(path), unfold="none")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ratings": "good"}, "row 1: ratings is 'good', not a number"),
        ({"ratings": [1, {}]}, "row 1: ratings is '{}', not a number"),
        ({"ratings": "1e999"}, "row 1: ratings is '1e999', not a finite number"),
        ({"caption": None}, "row 1: caption is missing"),
        ({"references": []}, "row 1: references is .*, not a list of texts"),
        ({"references": [3]}, "row 1: references is .*, not a list of texts"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named(change: Row, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_ratings([{**rows()[0], **change}], NAMES, "rows")


def test_a_text_without_a_rating_is_left_out() -> None:
    judged = read_ratings([{**rows()[0], "ratings": None}, *rows()[1:]], NAMES, "rows")
    [line] = ratings_report(judged, replace(QUIET, measures=[Length()])).lines
    assert line.cells["overall r"].rows == 6


def test_the_mean_of_raters_is_over_those_who_rated() -> None:
    some = rows()
    some[0]["ratings"] = [3, None]
    some[1]["ratings"] = [None, float("nan")]
    people = read_ratings(some, replace(NAMES, raters="mean"), "set").people["overall"]
    assert people[0] == 3
    assert np.isnan(people[1])
