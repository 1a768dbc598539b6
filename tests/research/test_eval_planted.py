"""The planted mistakes are measured as `posh-reward agreement spans` measures people's marks."""

from __future__ import annotations

from math import inf

import pytest

from research.eval_planted import TextMarks, best_threshold, macro_f1


def test_no_threshold_is_passed_over() -> None:
    """Grades that differ by less than a step of 0.05 are told apart."""
    texts = [TextMarks((2.01, 2.04, 3.0, inf), (True, False, False, False))]
    threshold = best_threshold(texts)
    assert threshold == pytest.approx(2.04)
    assert macro_f1(texts, threshold) == 1
    assert macro_f1(texts, 2.1) == pytest.approx((2 / 3 + 4 / 5) / 2)
