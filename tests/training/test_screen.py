"""A screen is never silent for long, and an interrupt ends what was started."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest

from posh_reward.training import screen
from posh_reward.training.screen import WaitingStream, lively, show


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_silence_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    written = StringIO()
    WaitingStream(written).tick()
    assert written.getvalue() == "  ... 0 s\n"


def test_a_commands_output_is_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lively():
        status = show(
            [sys.executable, "-c", "import sys; print('é'); sys.exit(3)"],
            dict(os.environ),
            tmp_path,
        )
    assert (status, capsys.readouterr().out) == (3, "é\n")


def test_an_interrupt_ends_the_command(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    def interrupt() -> None:
        while not pid.exists() or not pid.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        show([sys.executable, "-c", code], dict(os.environ), tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
