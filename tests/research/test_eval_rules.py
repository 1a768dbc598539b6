"""What the reward's rules cost is counted per text, on both sides of the tolerance."""

from __future__ import annotations

from research.eval_rules import row


def test_a_text_counts_if_it_moved_by_more_than_the_tolerance() -> None:
    """Losses of .004 and .1: one of two counts; means .7 and .648."""
    line = row("captions", [(0.6, 0.596), (0.8, 0.7)])
    assert line == "| captions | 0.700 | 0.648 | -0.100 | 1 of 2 |"
