"""Studies of coreference, of the cascade and of the witness: their figures by hand."""

import pytest

from posh_reward import PoSh
from posh_reward.datasets.scenes import Scene, Subject, draw_scene, uneven_caption
from research.eval_cascade import GradedQuestion, agreement, choose
from research.eval_coref import b_cubed, ceaf_e, muc, read_conll
from research.witness_study.__main__ import NEVER, at_bar, images, oracle, precision, study, table
from research.witness_study.scene_texts import TEXTS_PER_IMAGE, scene_texts, truth


def test_scores_of_a_worked_example() -> None:
    """The example of Pradhan et al. (2014), with the figures that they print."""
    gold = [frozenset("abc"), frozenset("defg")]
    found = [frozenset("ab"), frozenset("cd"), frozenset("fghi")]
    assert muc(gold, found).f1 == pytest.approx(0.40, abs=0.005)
    assert b_cubed(gold, found).precision == pytest.approx(0.50, abs=0.005)
    assert b_cubed(gold, found).recall == pytest.approx(0.4167, abs=0.005)
    assert ceaf_e(gold, found).precision == pytest.approx(0.4333, abs=0.005)
    assert ceaf_e(gold, found).recall == pytest.approx(0.65, abs=0.005)


def test_conll_columns_are_read() -> None:
    rows = [
        "#begin document (x); part 0",
        *(f"x\t0\t0\t{w}\t_\t{c}" for w, c in (("The", "(1"), ("cat", "1)"), (".", "_"))),
        "",
        "x\t0\t0\tIt\t_\t(1)",
    ]
    words, starts, clusters = read_conll("\n".join(rows))
    assert words == ["The", "cat", ".", "It"]
    assert starts == [True, False, False, True]
    assert clusters == [[(0, 1), (3, 3)]]


def test_agreement_is_about_what_is_settled_alone() -> None:
    asked = [
        GradedQuestion("entity", "same", 4.9, 4.0),
        GradedQuestion("entity", "same", 4.0, 1.0),
        GradedQuestion("entity", "none", 1.5, 3.0),
        GradedQuestion("attribute", "none", 1.0, 3.0),
    ]
    found = agreement(asked, 2.0, 4.5)
    assert (found.questions, found.saved, found.agreed) == (4, 0.5, 0.5)
    assert agreement(asked, 1.0, 5.1).saved == 0


def test_the_widest_thresholds_that_agree_are_chosen() -> None:
    asked = [
        GradedQuestion("entity", "none", 1.6, 1.2),
        GradedQuestion("entity", "none", 2.3, 4.0),
        GradedQuestion("entity", "same", 4.6, 1.0),
        GradedQuestion("relation", "same", 4.75, 4.0),
    ]
    assert choose(asked) == (2.25, 4.7)


WOMAN = Subject("woman", "red", pose="stands", held="fan", held_color="blue")


def test_the_truth_of_a_text_is_the_share_of_its_details_that_are_drawn() -> None:
    shown = Scene("shown", (WOMAN, None, Subject("bird", "black", count=2)))
    told = Scene("told", (Subject("woman", "green", pose="stands"), None, None))
    assert truth(shown, shown) == 1.0
    assert truth(told, shown) == pytest.approx(2 / 3)


def test_the_scores_at_a_bar_are_those_of_a_metric_with_that_bar() -> None:
    [scene] = images(1, seed=3)
    texts = [each.text for each in scene_texts([scene])[:3]]
    references, shown = [uneven_caption(scene)] * 3, [draw_scene(scene)] * 3
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
    assert len(cases[0].texts) == 12 * TEXTS_PER_IMAGE
    rows = {tuple(row[:3]): row for row in table(cases).rows}
    more_tau, more_rho = (rows["uneven", "0 %", "3"][place].split()[0] for place in (6, 8))
    assert float(more_tau) > 0.1
    assert float(more_rho) > 0.1
    assert abs(float(rows["full", "0 %", "3"][6].split()[0])) < 0.1
