"""Long waits are named, short ones are not."""

import time

import pytest

from posh_reward.process import progress


def test_a_long_wait_says_what_it_waits_for_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.2)
    with progress.say_while_waiting("still fetching x"):
        pass
    time.sleep(0.3)
    assert capsys.readouterr().err == "", "the wait was over before a line was due"
    with progress.say_while_waiting("still fetching x"):
        time.sleep(0.7)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 3
    assert set(lines) <= {"still fetching x (0 s)", "still fetching x (1 s)"}
