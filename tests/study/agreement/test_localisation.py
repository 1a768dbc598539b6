"""Errors located in texts: cases by hand."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.study.agreement import localisation
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.baselines import Random
from posh_reward.study.agreement.metric_scores import Alerts, PoshMeasure, TextPair
from posh_reward.types import Failure
from tests.study.agreement.judgment_rows import Row


def settings(resamples: int) -> AgreementSettings:
    return AgreementSettings(resamples=resamples, quiet=True)


# Tokens of one character; people marked the first two.
TEXT = "a b c d e f"
JUDGED = localisation.SpanAnnotations(
    "set", [TextPair(TEXT, (TEXT,))], {"mistakes": [[(0, 3)]], "omissions": [[]]}, ["i"]
)


def at(*scores: float) -> list[Alerts | Failure]:
    """Scores of the first tokens, for mistakes."""
    spans = [((2 * i, 2 * i + 1), score) for i, score in enumerate(scores)]
    return [{"mistakes": spans, "omissions": []}]


def test_macro_f1_by_hand() -> None:
    found = localisation.count_alerts(JUDGED, "mistakes", at(1, 4, 2, 5))
    whole = np.ones((1, 1))
    values = dict(zip(found.thresholds.tolist(), found.macro_f1(whole)[0].tolist(), strict=True))
    # Below 2 one alert, on a read_marks token: F1 2/3 of read_marks, 8/9 of unmarked ones.
    assert values[2] == pytest.approx((2 / 3 + 8 / 9) / 2)
    # Below 5: three alerts, two of them right. 4/5 and 6/7.
    assert values[5] == pytest.approx((4 / 5 + 6 / 7) / 2)
    # No alert: 0 and 8/10. Tokens that no span covers never raise one.
    assert values[1] == pytest.approx(0.4)
    assert found.macro_f1(whole)[0, -1] == pytest.approx((4 / 6 + 4 / 6) / 2)
    assert found.threshold_index(2) == 1
    assert found.threshold_index(1.5) == found.threshold_index(2)


def test_one_image_has_no_interval_and_no_held_out_figure() -> None:
    of_one_image = marked_rows(2)
    judged = localisation.read_marks(of_one_image, localisation.SpanColumns(), "set")
    report = localisation.spans_report(judged, [Knows("exact", 0.0), Random()], settings(50))
    exact, chance = report.lines
    best = exact.cells["mistakes best"].estimate
    assert best.value == 1
    assert isnan(best.low)
    assert isnan(best.p)
    assert isnan(chance.differences["mistakes best"].p)
    assert isnan(exact.cells["mistakes held out"].estimate.value)
    assert "too narrow for so few images (1)" in report.notes[-1]


class Knows:
    """Knows what people marked, up to noise, in every second text on another scale."""

    signature = "knows"
    threshold = 0.5

    def __init__(self, name: str, noise: float) -> None:
        self.name = name
        self._rng = np.random.default_rng(0)
        self._noise = noise

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
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
    judged = localisation.read_marks(marked_rows(30), localisation.SpanColumns(), "set")
    measures: list[localisation.Localiser] = [Knows("exact", 0.0), Knows("noisy", 0.8), Random()]
    missing_encoder = replace(settings(100), missing=[("SGEmbed", "pip install x")])
    report = localisation.spans_report(judged, measures, missing_encoder)
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
    assert report.paper[0].name == "Random"


def test_a_failed_text_is_left_out_for_that_metric() -> None:
    rows = [*marked_rows(4), {**marked_rows(1)[0], "generation": "fail", "mistakes": []}]
    judged = localisation.read_marks(rows, localisation.SpanColumns(), "set")
    [line] = localisation.spans_report(judged, [Knows("exact", 0.0)], settings(10)).lines
    assert line.failures == {"no luck": 1}
    assert line.cells["mistakes best"].rows == 4
    assert line.cells["mistakes best"].estimate.value == 1


def test_posh_grades_its_spans_in_the_text_as_given() -> None:
    pair = TextPair("  A green dog sleeps.", ("A brown dog sleeps.",))
    alerts, failed = PoshMeasure(PoSh()).alerts([pair, TextPair("A dog.", ("",))])
    assert not isinstance(alerts, Failure)
    grades = {pair.generation[slice(*span)]: grade for span, grade in alerts["mistakes"]}
    assert grades["green"] < grades["dog"]
    assert isinstance(failed, Failure)
