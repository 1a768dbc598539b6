"""The coreference metrics and the reader of CoNLL columns."""

import pytest

from research.eval_coref import b_cubed, ceaf_e, muc, read_conll


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
