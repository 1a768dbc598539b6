"""A screen is never silent for long, and an interrupt ends what was started."""

from __future__ import annotations

import os
import signal
import subprocess
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


def test_on_a_terminal_it_goes_when_there_is_more_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    written = Terminal()
    watched = WaitingStream(written)
    watched.write("50 %")
    watched.tick()
    watched.write("\r60 %")
    assert written.getvalue() == "50 %\0337  ... 0 s\0338\033[K\r60 %"


def test_a_talkative_stream_is_left_alone() -> None:
    written = StringIO()
    watched = WaitingStream(written)
    watched.write("A line.\n")
    watched.tick()
    assert written.getvalue() == "A line.\n"


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


def test_the_demo_says_one_line_after_an_interrupt(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    demo = subprocess.Popen(
        [sys.executable, "recipes/demo.py", "--output", str(tmp_path / "demo")],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert demo.stdout is not None
    while not demo.stdout.readline().startswith("$ python"):
        pass
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode != 0
    assert said.strip().startswith("stopped; finished stages are kept")
    assert "Traceback" not in said
