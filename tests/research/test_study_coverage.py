"""The alternative to a study's intervals, by hand."""

import numpy as np
import pytest

from research.study_coverage import two_way_half_widths


def test_two_way_cluster_robust_half_width() -> None:
    # Deviations over six: items -2/6, 0, 2/6, squared 2/9, times 3/2; raters -1/4 and 1/4, squared
    # 1/8, times 2; less 5.5/36 of the answers, times 6/5: 0.4. Times t(1) = 12.706.
    items, raters = np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)
    [half_width] = two_way_half_widths(np.array([[0.0, 1, 1, 2, 2, 3]]), items, raters)
    assert half_width == pytest.approx(12.706 * 0.4**0.5, abs=0.001)
