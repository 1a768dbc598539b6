"""Texts of known truth, and scores at any bar from one run."""

import pytest

from posh_reward import PoSh
from posh_reward.datasets.scenes import Scene, Subject, draw, uneven_caption
from research.witness_study.__main__ import NEVER, at_bar, images, oracle, precision, study, table
from research.witness_study.scene_texts import TEXTS, scene_texts, truth

WOMAN = Subject("woman", "red", pose="stands", held="fan", held_color="blue")


def test_the_truth_of_a_text_is_the_share_of_its_details_that_are_drawn() -> None:
    shown = Scene("shown", (WOMAN, None, Subject("bird", "black", count=2)))
    told = Scene("told", (Subject("woman", "green", pose="stands"), None, None))
    assert truth(shown, shown) == 1.0
    assert truth(told, shown) == pytest.approx(2 / 3)


def test_the_scores_at_a_bar_are_those_of_a_metric_with_that_bar() -> None:
    [scene] = images(1, seed=3)
    texts = [each.text for each in scene_texts([scene])[:3]]
    references, shown = [uneven_caption(scene)] * 3, [draw(scene)] * 3
    whole = PoSh(witness=oracle(1, 3), supported=5).score(texts, references, shown)
    for bar in (2.0, 3.0):
        posh = PoSh(witness=oracle(1, 3), supported=bar)
        wanted = [each.precision for each in posh.score(texts, references, shown)]
        assert [precision(at_bar(each, bar)) for each in whole] == wanted
    blind = [each.precision for each in PoSh().score(texts, references)]
    assert [precision(at_bar(each, NEVER)) for each in whole] == blind


@pytest.mark.slow
def test_with_the_witness_precision_ranks_texts_by_truth_better() -> None:
    cases = study(12, seed=0)
    assert len(cases[0].texts) == 12 * TEXTS
    rows = {tuple(row[:3]): row for row in table(cases).rows}
    more_tau, more_rho = (rows["uneven", "0 %", "3"][place].split()[0] for place in (6, 8))
    assert float(more_tau) > 0.1
    assert float(more_rho) > 0.1
    assert abs(float(rows["full", "0 %", "3"][6].split()[0])) < 0.1
