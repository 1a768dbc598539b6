"""One process at a time writes a file, whatever the writers do."""

import errno
import fcntl
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.errors import BusyError
from posh_reward.process.locks import keep_folder, open_alone
from posh_reward.study.judges.judge_runs import JudgeChoice, RunSettings
from posh_reward.study.judges.question_set import collect
from posh_reward.study.rows.tables import Journal, whole_file
from posh_reward.training.generation import GenerationSettings, generate

HOLD = """
import sys
from pathlib import Path
from posh_reward.process.locks import open_alone
file = open_alone(Path(sys.argv[1]))
file.write(b"mine")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_lasts_as_long_as_its_process_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE,
                          stdin=subprocess.PIPE) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=r"another process writes '.*rows.jsonl': wait"):
            open_alone(path)
        assert path.read_bytes() == b"mine"
        other.kill()
    with open_alone(path) as file:
        assert file.read() == b"mine"


def test_a_file_that_was_deleted_before_its_lock_was_had_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process ends, deleting its journal, just as another opens it."""
    path, flock = tmp_path / "journal", fcntl.flock
    calls: list[int] = []

    def flock_late(file: Any, how: int) -> None:
        if not calls:
            path.unlink()
        calls.append(how)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    with open_alone(path) as file:
        file.write(b"a")
    assert path.read_bytes() == b"a"
    assert len(calls) == 2


def test_without_locks_there_is_a_warning_and_a_change_by_another_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    path = tmp_path / "rows.jsonl"
    first, second = Journal(path), Journal(path)
    assert "let no other process write it" in caplog.text
    first.append([{"id": 1}])
    with pytest.raises(BusyError, match=r"another process changed .*10 bytes instead of 0"):
        second.append([{"id": 2}])
    first.append([{"id": 3}])
    assert path.read_text() == '{"id": 1}\n{"id": 3}\n'
    first.close()
    second.close()


def test_a_whole_file_is_not_written_by_two(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with whole_file(path) as file:
        file.write(b"first")
        with pytest.raises(BusyError), whole_file(path) as other:
            other.write(b"second")
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_every_writer_refuses_what_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The places where work is resumed, besides tables of scores."""
    lock, said = tmp_path / ".lock", tmp_path / "said.jsonl"
    with open_alone(lock), open_alone(said):
        with pytest.raises(BusyError):
            generate(GenerationSettings({"a": "no model"}, said, "scenes:train=2:plain=1"))
        with pytest.raises(BusyError):
            Journal(said)
        rows = [(None, f"A dog with {number} spots.") for number in range(60)]
        with pytest.raises(BusyError):
            collect(JudgeChoice("fake", "fake", "released"), rows, tmp_path, RunSettings())
        with pytest.raises(BusyError):
            keep_folder(tmp_path)


def test_a_run_is_not_trained_by_two_processes(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from posh_reward.training.launch import enter_output

    with open_alone(tmp_path / ".lock"):
        run = Namespace(output_dir=str(tmp_path), process_index=0)
        with pytest.raises(BusyError):
            enter_output(run)
        enter_output(Namespace(output_dir=str(tmp_path), process_index=1))
