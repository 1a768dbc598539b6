"""Guards between processes: two writers of one file, and a fork while others score."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoSh
from posh_reward.distill.judge_runs import JudgeChoice, RunSettings
from posh_reward.distill.question_set import collect_answers
from posh_reward.errors import BusyError, ForkError
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.judge import PromptJudge
from posh_reward.process import locks
from posh_reward.process.locks import keep_folder, open_alone, whole_file
from posh_reward.tables.tables import Journal
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

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


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
            collect_answers(JudgeChoice("fake", "fake", "released"), rows, tmp_path, RunSettings())
        with pytest.raises(BusyError):
            keep_folder(tmp_path)


def test_a_run_is_not_trained_by_two_processes(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from posh_reward.training.output_folder import enter_output

    with open_alone(tmp_path / ".lock"):
        with pytest.raises(BusyError):
            enter_output(Rank(str(tmp_path), 0))
        enter_output(Rank(str(tmp_path), 1))


@dataclass
class Rank:
    """Settings of a run that begins, as far as they are read."""

    output_dir: str
    process_index: int
    resume_from_checkpoint: str | None = None


FINE, REFUSED, ELSE = 0, 7, 9


def in_fork(work: Callable[[], object]) -> int:
    """The exit status of a fork that does some work; -9 if it took more than ten seconds."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(FINE)
        except ForkError:
            os._exit(REFUSED)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(ELSE)
    for _ in range(1000):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -9


def test_a_fork_while_another_thread_scores_is_refused() -> None:
    scoring, ready = threading.Event(), threading.Event()

    def grade(_: Prompt) -> float:
        scoring.set()
        assert ready.wait(30)
        return 3.0

    slow = PoSh(PromptJudge(FakeModel(grade)))
    thread = threading.Thread(target=slow.score, args=(["A dog."], ["A red dog."]))
    thread.start()
    assert scoring.wait(30)
    fresh = PoSh()  # another metric shares the locks of classes and libraries
    try:
        assert in_fork(lambda: fresh.score(["A cat."], ["A cat."])) == REFUSED
    finally:
        ready.set()
        thread.join()
    assert in_fork(lambda: fresh.score(["A cat."], ["A cat."])) == FINE, "between two calls"


def test_the_thread_that_forks_while_it_scores_goes_on() -> None:
    with locks.at_work():
        assert in_fork(lambda: PoSh().score(["A cat."], ["A cat."])) == FINE
