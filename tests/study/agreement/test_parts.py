"""Where errors are found, scene graphs, answered questions: cases by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement.answers import answered, best_f1s
from posh_reward.study.agreement.baselines.random import Random
from posh_reward.study.agreement.graphs import graph_figures, placed_gold, placed_graph
from posh_reward.study.agreement.items import Pair
from posh_reward.study.agreement.localise import Alerts, Localiser, counts
from posh_reward.study.agreement.marks import MarkColumns, Marked, marked
from posh_reward.study.agreement.measures import PoshMeasure
from posh_reward.study.agreement.parts import answers_report, graphs_report, spans_report
from posh_reward.types import Failure
from tests.study.agreement.judged import Row

# Tokens of one character; people marked the first two.
TEXT = "a b c d e f"
JUDGED = Marked("set", [Pair(TEXT, TEXT)], {"mistakes": [[(0, 3)]], "omissions": [[]]}, ["i"])


def at(*scores: float) -> list[Alerts | Failure]:
    """Scores of the first tokens, for mistakes."""
    spans = [((2 * i, 2 * i + 1), score) for i, score in enumerate(scores)]
    return [{"mistakes": spans, "omissions": []}]


def test_macro_f1_by_hand() -> None:
    found = counts(JUDGED, "mistakes", at(1, 4, 2, 5))
    whole = np.ones((1, 1))
    values = dict(zip(found.thresholds.tolist(), found.macro_f1(whole)[0].tolist(), strict=True))
    # Below 2 one alert, on a marked token: F1 2/3 of marked, 8/9 of unmarked ones.
    assert values[2] == pytest.approx((2 / 3 + 8 / 9) / 2)
    # Below 5: three alerts, two of them right. 4/5 and 6/7.
    assert values[5] == pytest.approx((4 / 5 + 6 / 7) / 2)
    # No alert: 0 and 8/10. Tokens that no span covers never raise one.
    assert values[1] == pytest.approx(0.4)
    assert found.macro_f1(whole)[0, -1] == pytest.approx((4 / 6 + 4 / 6) / 2)
    assert found.at(2) == 1
    assert found.at(1.5) == found.at(2)


def test_where_nobody_marked_anything_no_metric_is_perfect() -> None:
    found = counts(JUDGED, "omissions", at())
    assert np.isnan(found.macro_f1(np.ones((1, 1)))).all()


def test_one_image_has_no_interval_and_no_held_out_figure() -> None:
    judged = marked(marked_rows(2), MarkColumns(), "set")  # two rows of one image
    report = spans_report(judged, [Knows("exact", 0.0), Random()], resamples=50, quiet=True)
    exact, chance = report.lines
    best = exact.cells["mistakes best"].estimate
    assert best.value == 1
    assert isnan(best.low)
    assert isnan(best.p)
    assert isnan(chance.differences["mistakes best"].p)
    assert isnan(exact.cells["mistakes held out"].estimate.value)
    assert "too narrow for so few images (1)" in report.notes[-1]


def test_questions_that_the_judge_or_people_left_open() -> None:
    """An element without a grade is not among the rows; F1 of a class that is not there is none."""
    rows = [
        {"id": n, "direction": "mistakes", "grade": grade, "answer": True}
        for n, grade in enumerate([5, 4, None])
    ]
    report = answers_report(answered(rows, "answer", "id", "set"), "set", resamples=10)
    cells = report.lines[0].cells
    assert (cells["mistakes f1"].rows, cells["overall f1"].rows) == (2, 2)
    assert cells["mistakes f1"].estimate.value == 1
    assert isnan(cells["mistakes f1 absent"].estimate.value)
    assert isnan(cells["mistakes f1 macro"].estimate.value)
    rows[1]["grade"] = 9
    with pytest.raises(InputError, match="set, row 2: the grade 9 is not one from 1 to 5"):
        answered(rows, "answer", "id", "set")


class Knows:
    """Knows what people marked, up to noise, in every second text on another scale."""

    signature = "knows"
    threshold = 0.5

    def __init__(self, name: str, noise: float) -> None:
        self.name = name
        self._rng = np.random.default_rng(0)
        self._noise = noise

    def alerts(self, pairs: Sequence[Pair]) -> list[Alerts | Failure]:
        return [self._alerts(pair.generation) for pair in pairs]

    def _alerts(self, text: str) -> Alerts | Failure:
        if "fail" in text:
            return Failure("text", "no luck")
        spans = [
            ((i, i + 1), float(c != "x") + self._rng.normal(0, self._noise))
            for i, c in enumerate(text)
            if c != " "
        ]
        return {"mistakes": spans, "omissions": spans}


def marked_rows(count: int) -> list[Row]:
    rng = np.random.default_rng(4)
    rows = []
    for number in range(count):
        text = " ".join(rng.choice(["a", "b", "x"], 20))
        spans = [[i, i + 1] for i, c in enumerate(text) if c == "x"]
        rows.append({"uuid": f"i{number // 2}", "generation": text, "reference": text,
                     "mistakes": spans, "omissions": str(spans)})  # fmt: skip
    return rows


def test_a_better_localiser_is_told_from_a_worse_one() -> None:
    judged = marked(marked_rows(30), MarkColumns(), "set")
    measures: list[Localiser] = [Knows("exact", 0.0), Knows("noisy", 0.8), Random()]
    report = spans_report(
        judged, measures, [("SGEmbed", "pip install x")], resamples=100, quiet=True
    )
    exact, noisy, chance, missing = report.lines
    for axis in ("mistakes", "omissions"):
        for kind in ("best", "fixed", "held out"):
            key = f"{axis} {kind}"
            assert exact.cells[key].estimate.value == 1
            assert 0.5 < noisy.cells[key].estimate.value < 0.9
            assert noisy.differences[key].high < 0
            assert noisy.cells[key].estimate.low < noisy.cells[key].estimate.value
        best, crossed = (noisy.cells[f"{axis} {k}"].estimate.value for k in ("best", "held out"))
        assert crossed <= best
        assert 0.35 < chance.cells[f"{axis} held out"].estimate.value < 0.6
    assert missing.missing == "pip install x"
    assert report.published[0].name == "Random"


def test_a_failed_text_is_left_out_for_that_metric() -> None:
    rows = [*marked_rows(4), {**marked_rows(1)[0], "generation": "fail", "mistakes": []}]
    judged = marked(rows, MarkColumns(), "set")
    [line] = spans_report(judged, [Knows("exact", 0.0)], resamples=10, quiet=True).lines
    assert line.failures == {"no luck": 1}
    assert line.cells["mistakes best"].rows == 4
    assert line.cells["mistakes best"].estimate.value == 1


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ("all", "row 1: mistakes is 'all', not a list of spans"),
        ([[0]], r"row 1: mistakes has \[0\], not \[start, end\]"),
        ([[0, 99]], "row 1: mistakes has 0 to 99, not within a text of 39 characters"),
        ([[3, 3]], "has 3 to 3, not within"),
    ],
)
def test_spans_that_cannot_be_used_are_named(spans: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        marked([{**marked_rows(1)[0], "mistakes": spans}], MarkColumns(), "set")


def test_posh_grades_its_spans_in_the_text_as_given() -> None:
    pair = Pair("  A green dog sleeps.", "A brown dog sleeps.")
    alerts, failed = PoshMeasure(PoSh()).alerts([pair, Pair("A dog.", "")])
    assert not isinstance(alerts, Failure)
    grades = {pair.generation[slice(*span)]: grade for span, grade in alerts["mistakes"]}
    assert grades["green"] < grades["dog"]
    assert isinstance(failed, Failure)


SENTENCE = "A brown dog chases a cat. The dog barks."
DOG, CAT, AGAIN, BROWN, CHASES, BARKS = [8, 11], [21, 24], [30, 33], [2, 7], [12, 18], [34, 39]


def gold(**changes: Any) -> dict[str, Any]:
    return {
        "entities": [{"mentions": [DOG, AGAIN]}, {"mentions": [CAT]}],
        "attributes": [{"spans": [BROWN], "entity": 0}, {"spans": [BARKS], "entity": 0}],
        "relations": [{"spans": [CHASES], "subject": 0, "object": 1}],
    } | changes


def test_our_graph_of_a_plain_sentence_is_the_drawn_one() -> None:
    [read] = Reader().read([SENTENCE])
    assert not isinstance(read, Failure)
    figures = graph_figures(placed_graph(read.graph, SENTENCE), placed_gold(gold(), SENTENCE, "g"))
    assert all(value == 1 for value in figures.values())


def test_graph_figures_by_hand() -> None:
    apart = gold(entities=[{"mentions": [DOG]}, {"mentions": [CAT]}, {"mentions": [AGAIN]}])
    swapped = gold(
        attributes=[{"spans": [BROWN], "entity": 1}, {"spans": [BARKS], "entity": 1}],
        relations=[{"spans": [CHASES], "subject": 1, "object": 0}],
    )
    placed = [placed_gold(each, SENTENCE, "g") for each in (gold(), apart, swapped)]
    found = graph_figures(placed[1], placed[0])  # the second dog is taken for another one
    assert found["entities f1"] == 1
    assert found["entities coref"] == pytest.approx(2 / 3)
    assert found["relations head"] == 1
    found = graph_figures(placed[2], placed[0])
    assert (found["attributes f1"], found["attributes head"]) == (1, 0)
    assert (found["relations f1"], found["relations head"], found["relations tail"]) == (1, 0, 0)
    nothing = placed_gold({"entities": [], "attributes": [], "relations": []}, SENTENCE, "g")
    found = graph_figures(nothing, placed[0])
    assert found["entities recall"] == found["entities f1"] == 0
    assert isnan(found["entities precision"])
    assert isnan(found["entities coref"])


def test_a_report_on_graphs() -> None:
    report = graphs_report([{"text": SENTENCE, **gold()}], Reader(), "set", resamples=5)
    assert report.lines[0].cells["relations tail"].estimate.value == 1
    assert report.published[0].figures["entities f1"] == 0.909
    broken = gold(attributes=[{"spans": [BROWN], "entity": 9}])
    with pytest.raises(InputError, match=r"row 1: not a scene graph .*is not the number of an ent"):
        graphs_report([{"text": SENTENCE, **broken}], Reader(), "set", resamples=5)


def test_best_f1_by_hand() -> None:
    grades, present = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0])
    present_f1, absent_f1, macro = best_f1s(grades, present)
    assert present_f1 == pytest.approx(4 / 5)  # from grade 2 on: three found, two right
    assert absent_f1 == pytest.approx(4 / 5)  # below grade 4: three found, two right
    assert macro == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_best_f1_of_many_different_grades_takes_no_table_of_all_by_all() -> None:
    draws = np.random.default_rng(0)
    grades, present = draws.uniform(1, 5, 100_000), draws.integers(0, 2, 100_000).astype(float)
    assert best_f1s(grades, present)[0] == pytest.approx(2 / 3, abs=0.01)  # all are found


def test_a_report_on_answers() -> None:
    rows = [
        {"id": 1, "direction": "precision", "grade": 4.5, "answer": True},
        {"id": 1, "direction": "mistakes", "grade": "1.5", "answer": "no"},
        {"id": 2, "direction": "omissions", "grade": None, "answer": "yes"},
        {"id": 2, "direction": "recall", "grade": 2, "answer": "1"},
    ]
    report = answers_report(answered(rows, "answer", "id", "set"), "set", resamples=5)
    [line] = report.lines
    assert line.cells["mistakes f1"].estimate.value == 1
    assert line.cells["overall f1 macro"].estimate.value == 1
    assert line.failures == {"the judge gave no grade": 1}
    for change, why in (({"answer": "maybe"}, "answer 'maybe' is neither one of true"),
                        ({"direction": "up"}, "direction 'up' is neither mistakes"),
                        ({"grade": "high"}, "grade is 'high', not a number")):  # fmt: skip
        with pytest.raises(InputError, match=why):
            answered([{**rows[0], **change}], "answer", "id", "set")
