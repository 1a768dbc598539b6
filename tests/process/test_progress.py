"""Progress in a log file: lines, few of them, and none for short work."""

import sys
from io import StringIO

import pytest

from posh_reward.process import progress
from posh_reward.process.progress import progress_bar


def go(monkeypatch: pytest.MonkeyPatch, stream: StringIO, total: int | None) -> str:
    """Everything that counting to three shows."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("score", total, "pair") as bar:
        for _ in range(3):
            bar.update()
            bar.set_postfix_str("judging", refresh=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("total", "line"),
    [(3, "score: 2 of 3 pairs after 00:00, 00:00 left, judging"),
     (None, "score: 2 pairs after 00:00, judging")],
)  # fmt: skip
def test_long_work_has_lines(monkeypatch: pytest.MonkeyPatch, total: int | None, line: str) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    said = go(monkeypatch, StringIO(), total)
    assert line in said.splitlines()
    assert "\r" not in said
    assert all(said.splitlines())
