"""Where people and a metric disagree: by hand, and on the page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posh_reward.pages.html import LocalImages
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.judged_items import (
    disagree_on_pairs,
    disagree_on_ratings,
    list_judged_pairs,
    list_judged_texts,
)
from posh_reward.study.agreement.judged_marks import disagree_on_marks, list_marked_items
from posh_reward.study.agreement.judged_page import judged_page
from posh_reward.study.agreement.localisation import SpanColumns, read_marks
from posh_reward.study.agreement.metric_scores import KindScores, PoshMeasure, TextPair
from posh_reward.study.agreement.preferences import (
    PairColumns,
    preferences_report,
    read_preferences,
)
from posh_reward.study.agreement.ratings import RatingColumns, ratings_report, read_ratings
from tests.chromium import Browser, axe, violations
from tests.study.agreement.judgment_rows import Quality, Row

SETTINGS = AgreementSettings(resamples=0, quiet=True, measures=[Quality("quality")])
COLUMNS = PairColumns("a", "b", "reference", "image", {"overall": "label"})


def test_disagreement_by_hand() -> None:
    labels, differences = np.array([2.0, 0.0, -1.0]), np.array([-0.3, 0.1, -0.2])
    assert disagree_on_pairs(labels, differences) == pytest.approx([1, -1 / 6, 0])
    assert disagree_on_pairs(-labels, -differences) == pytest.approx([-1, 1 / 6, 0])
    ratings, scores = np.array([1.0, 3.0, 5.0]), np.array([0.9, 0.5, 0.7])
    assert disagree_on_ratings(ratings, scores) == pytest.approx([-1, 0.5, 0.5])


def test_a_side_without_a_number_is_no_disagreement() -> None:
    labels, differences = np.array([2.0, np.nan, 1.0]), np.array([0.1, 0.2, np.nan])
    assert disagree_on_pairs(labels, differences) == pytest.approx([0, np.nan, np.nan], nan_ok=True)


def pair(first: float, second: float, label: object, image: str = "one", **more: object) -> Row:
    return {"a": f"Quality {first}", "b": f"Quality {second}", "reference": "A dog.",
            "label": label, "image": image, **more}  # fmt: skip


ROWS = [
    pair(1, 2, "2_slightly_better", "agreed", model1="sft", model2="dapo"),
    pair(9, 3, "2_much_better", "disputed", rater="rater-01", comment="<b>no</b> dog"),
    pair(3, 9, "1_much_better", "disputed", rater="rater-02", comment=""),  # the other way round
]


def test_answers_to_both_orders_are_judgments_of_one_pair() -> None:
    preferences = read_preferences(ROWS, COLUMNS, "rows")
    judged = list_judged_pairs(preferences, preferences_report(preferences, SETTINGS))
    first, second = judged.items
    assert (first.name, second.name) == ("disputed", "agreed")
    [axis] = first.axes
    assert axis.judgments == ("0", "0", "0", "0", "2")  # both find "Quality 3" much better
    assert (axis.people, axis.scores) == (-2, (9, 3))
    assert axis.disagreement == pytest.approx(-1)
    assert first.comments == ("rater-01: <b>no</b> dog",)
    assert second.models == ("sft", "dapo")
    assert second.axes[0].disagreement == 0


def test_ratings_of_a_text_are_listed() -> None:
    rows = [{"generation": f"Quality {n}", "references": "A dog.", "rating": rating}
            for n, rating in ((3, [1, 2]), (1, [5]))]  # fmt: skip
    ratings = read_ratings(rows, RatingColumns(ratings={"overall": "rating"}), "rows")
    judged = list_judged_texts(ratings, ratings_report(ratings, SETTINGS))
    assert [item.axes[0].judgments for item in judged.items] == [("1, 2",), ("5",)]
    assert [item.axes[0].disagreement for item in judged.items] == [-1, 1]


def test_the_page_shows_labels_and_comments(chromium: Browser, tmp_path: Path) -> None:
    preferences = read_preferences(ROWS, COLUMNS, "rows")
    report = preferences_report(preferences, SETTINGS)
    judged = list_judged_pairs(preferences, report)
    html = judged_page(judged, replace(report, title="<i>Title"), {}, LocalImages([tmp_path], 64))
    assert "disputed: disagreement -1.00 on overall" in html
    assert "rater-01: &lt;b&gt;no&lt;/b&gt; dog" in html
    assert "<i>" not in html
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    chromium.open(path)
    assert violations(chromium, axe()) == []


def test_disagreement_on_marks_by_hand() -> None:
    people, metric = (np.array(marks, dtype=bool) for marks in ([1, 1, 0, 0, 0], [0, 1, 1, 1, 0]))
    assert disagree_on_marks(people, metric) == 3 / 4
    nothing = np.zeros(5, dtype=bool)
    assert disagree_on_marks(nothing, nothing) == 0


def test_marks_of_several_raters_stand_beside_poshs() -> None:
    """Two of three raters mark "red", as POSH does; one marks "dog sleeps"."""
    from posh_reward import PoSh

    row = {"generation": "A red dog sleeps.", "reference": "A brown dog sleeps.", "omissions": []}
    mistakes: list[list[list[int]]] = [[[2, 5]], [[2, 5]], [[6, 16]]]
    rows = [{**row, "mistakes": spans} for spans in mistakes]
    marks = read_marks(rows, SpanColumns(), "rows")
    [item] = list_marked_items(marks, PoshMeasure(PoSh(processes=1)))
    side, other = item.sides
    assert side.stretches == (("A ", 0), ("red", 2), (" ", 0), ("dog sleeps", 1), (".", 0))
    assert (side.raters, side.people, side.metric, side.both) == (3, 1, 1, 1)
    assert side.disagreement == 0
    assert (other.people, other.metric, other.disagreement) == (0, 1, 1)  # POSH misses "brown"
    assert item.dispute is other


def test_scores_by_kind_are_of_its_elements_alone() -> None:
    """The colour is wrong, the dog is right: attributes are worse than entities."""
    from posh_reward import PoSh

    measure = PoshMeasure(PoSh(processes=1))
    text = TextPair("A red dog sleeps.", ("A brown dog sleeps.",))
    [entities] = KindScores(measure, "entity").score([text])
    [attributes] = KindScores(measure, "attribute").score([text])
    [relations] = KindScores(measure, "relation").score([text])
    assert entities.mistakes is not None
    assert attributes.mistakes is not None
    assert attributes.mistakes < 0.6 < entities.mistakes
    assert relations.mistakes is None  # neither text has any
    assert KindScores(measure, "entity").name == "POSH entities"
