"""``score`` under real kills, full disks, closed pipes and broken judges."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from posh_reward.cli import (
    EXIT_INCOMPLETE,
    EXIT_JUDGE_FAILED,
    EXIT_OK,
    EXIT_OUTPUT_CLOSED,
    EXIT_UNUSABLE,
    EXIT_UNWRITABLE,
    main,
)
from posh_reward.errors import JudgeError
from posh_reward.posh import load_judge
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.tables.tables import Journal
from posh_reward.types import Failure, Question, Verdict
from tests.cli.running import COMMAND, ROOT, pairs, rows_in, run, write_rows
from tests.cli.two_writers import many_pairs
from tests.processes import start
from tests.stores import rows_by_kind


class Counted(FakeJudge):
    """The fake judge under its own name; remembers across instances what it was asked."""

    asked: list[Question] = []  # noqa: RUF012 - meant to be shared

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        self.asked.extend(requests)
        return super().grade(requests)


class Failing(FakeJudge):
    """Fails by values, as a server does, at the pairs with so many spots."""

    at: ClassVar[Collection[int]] = ()

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        down = Verdict(None, Failure("engine", "the server does not answer"))
        return [
            down if spots_of(request) in self.at else verdict
            for request, verdict in zip(requests, super().grade(requests), strict=True)
        ]


def spots_of(request: Question) -> int:
    generation = request.source if request.direction == "precision" else request.target
    return int(generation.text.split()[3])


class Broken(FakeJudge):
    """Works for two batches and then no more."""

    calls = 0

    def wake(self) -> None:
        Broken.calls += 1
        if Broken.calls > 2:
            raise JudgeError("the endpoint is gone: start it again")


@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_rows(tmp_path / "in.jsonl", pairs(40))
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    journal = tmp_path / "out.csv.journal.jsonl"
    flags = ("score", str(table), "--id", "id", "--elements", "--batch", "1", "--judge", "fake")
    kill_once_it_has_written(journal, [*COMMAND, *flags, "-o", str(out)])
    done = [json.loads(line)["generation"] for line in journal.read_bytes().splitlines()]
    assert 3 <= len(done) < 40
    assert not out.exists()
    with journal.open("ab") as file:
        file.write(b'{"id": "p39", "gen')  # what a kill in the middle of a write leaves

    monkeypatch.setitem(load_judge.JUDGES, "fake", "tests.cli.test_faults:Counted")
    Counted.asked.clear()
    assert main([*flags, "-o", str(out)]) == EXIT_OK
    assert f"{len(done)} of 40 pairs were scored before" in capsys.readouterr().err
    judged = {r.source.text for r in Counted.asked if r.direction == "precision"}
    assert judged == {pair["generation"] for pair in pairs(40)} - set(done)
    assert main([*flags, "-o", str(whole)]) == EXIT_OK
    assert out.read_bytes() == whole.read_bytes()
    assert not journal.exists()


def kill_once_it_has_written(journal: Path, command: list[str]) -> None:
    process = start(*command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b"\n") >= 3:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.002)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_second_process_with_the_same_output_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    out = tmp_path / f"out.{ending}"
    journal = out if ending == "jsonl" else tmp_path / f"out.{ending}.journal.jsonl"
    for flags in ((), ("--overwrite",)):
        with closing(Journal(journal)):
            assert run("score", table, "-o", out, *flags) == EXIT_UNUSABLE
        assert f"another process writes {str(journal)!r}: wait" in capsys.readouterr().err
    assert run("score", table, "-o", out) == EXIT_OK
    assert "5 pairs" in capsys.readouterr().err
    assert not journal.with_name(journal.name + ".part").exists()


@pytest.mark.slow
def test_two_processes_with_one_output_lose_nothing(pytestconfig: pytest.Config) -> None:
    """``--examples 200`` for two hundred pairs."""
    seen = many_pairs(pytestconfig.getoption("--examples"), seed=0)
    assert not [what for what in seen if what.startswith("fault")], seen


def test_an_input_that_shrinks_meanwhile_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = write_rows(tmp_path / "in.jsonl", pairs(400)), tmp_path / "out.csv"
    size = sum(map(len, table.read_bytes().splitlines(keepends=True)[:200]))
    grade = FakeJudge.grade

    def shrink(self: FakeJudge, questions: Sequence[Question]) -> list[Verdict]:
        os.truncate(table, size)
        return grade(self, questions)

    monkeypatch.setattr(FakeJudge, "grade", shrink)
    assert run("score", table, "-o", out, "--batch", 8) == EXIT_UNUSABLE
    assert "the input had 400 rows and now has 200" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("zeros", [1, 4096])
def test_zeros_that_a_power_cut_leaves_are_dropped(table: Path, tmp_path: Path, zeros: int) -> None:
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    assert run("score", table, "-o", whole) == EXIT_OK
    first, second, *_ = whole.read_bytes().splitlines(keepends=True)
    for left in (first, first + second[:50], whole.read_bytes()):
        for rest in (b"", b'"signature": "posh"}\n'):  # the block after the zeros was written
            out.write_bytes(left + b"\0" * zeros + rest)
            assert run("score", table, "-o", out) == EXIT_OK
            assert out.read_bytes() == whole.read_bytes()


def test_a_judge_that_breaks_keeps_what_was_scored(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(load_judge.JUDGES, "fake", "tests.cli.test_faults:Broken")
    monkeypatch.setattr(Broken, "calls", 0)
    out = tmp_path / "out.jsonl"
    assert run("score", table, "-o", out, "--batch", 2) == EXIT_JUDGE_FAILED
    assert "the judge could not work: the endpoint is gone" in capsys.readouterr().err
    assert len(rows_in(out)) == 4
    monkeypatch.undo()
    assert run("score", table, "-o", out) == EXIT_OK
    assert len(rows_in(out)) == 5


def test_a_judge_that_dies_by_values_keeps_what_was_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out, whole = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    write_rows(table, pairs(20))
    flags = ("score", table, "--batch", 2)
    monkeypatch.setitem(load_judge.JUDGES, "fake", "tests.cli.test_faults:Failing")
    monkeypatch.setattr(Failing, "at", range(5, 20))
    assert run(*flags, "-o", out) == EXIT_JUDGE_FAILED
    said = capsys.readouterr().err
    assert "the judge could not work: it failed on every pair of 3 consecutive batches" in said
    assert "(the server does not answer)" in said
    assert [row["failure"] is None for row in rows_in(out)] == [True] * 5 + [False]
    monkeypatch.setattr(Failing, "at", [5])
    assert run(*flags, "-o", out) == EXIT_INCOMPLETE
    assert run(*flags, "-o", whole) == EXIT_INCOMPLETE
    assert out.read_bytes() == whole.read_bytes()


def test_a_judge_that_answered_nothing_is_asked_again(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    monkeypatch.setitem(load_judge.JUDGES, "fake", "tests.cli.test_faults:Failing")
    monkeypatch.setattr(Failing, "at", range(20))
    assert run("score", table, "-o", out) == EXIT_JUDGE_FAILED  # fewer rows than three batches
    assert "it failed on every pair (the server does not answer)" in capsys.readouterr().err
    assert not rows_in(out)
    monkeypatch.setattr(Failing, "at", [4])
    assert run("score", table, "-o", out, "--batch", 4) == EXIT_INCOMPLETE  # one row alone is kept
    assert [row["failure"] is None for row in rows_in(out)] == [True] * 4 + [False]


def test_a_judge_that_comes_back_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pairs(12)
    for number in (1, 3, 4, 5, 6):
        rows[number]["generation"] = None  # whose batches say nothing of the judge
    out = tmp_path / "out.jsonl"
    flags = ("score", write_rows(tmp_path / "in.jsonl", rows), "-o", out, "--id", "id")
    monkeypatch.setitem(load_judge.JUDGES, "fake", "tests.cli.test_faults:Failing")
    monkeypatch.setattr(Failing, "at", [2, 7, 8])
    assert run(*flags, "--batch", 1) == EXIT_JUDGE_FAILED
    assert [row["id"] for row in rows_in(out)] == ["p0", "p1"]
    monkeypatch.setattr(Failing, "at", [2, 7, 10, 11])
    assert run(*flags, "--batch", 1) == EXIT_INCOMPLETE
    assert [row["id"] for row in rows_in(out)] == [row["id"] for row in rows]
    unscored = [number for number, row in enumerate(rows_in(out)) if row["failure"]]
    assert unscored == [1, 2, 3, 4, 5, 6, 7, 10, 11]


def test_it_goes_on_only_with_what_it_began(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert run("score", table, "-o", out) == EXIT_OK
    before = out.read_bytes()
    changed = write_rows(tmp_path / "changed.jsonl", pairs(5)[::-1])
    for arguments, why in (
        ((table, "--preset", "paper"), "not as posh|preset:paper"),
        ((table, "--elements"), "was written without --elements"),
        ((changed,), "row 1 of"),
        ((out,), "is the input"),
    ):
        assert run("score", *arguments, "-o", out) == EXIT_UNUSABLE
        assert why in capsys.readouterr().err
        assert out.read_bytes() == before
    assert run("score", changed, "-o", out, "--overwrite") == EXIT_OK
    assert rows_in(out)[0]["generation"] == pairs(5)[-1]["generation"]


@pytest.mark.parametrize("theirs", ['{"a": 1}', '{"a": 1}\n', "notes\n", "notes"])
def test_a_file_of_somebody_else_stays_as_it_was(
    table: Path, tmp_path: Path, theirs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("out.jsonl", "out.csv"):
        (tmp_path / name).write_text(theirs)
        assert run("score", table, "-o", tmp_path / name) == EXIT_UNUSABLE
        assert name in capsys.readouterr().err
        assert (tmp_path / name).read_text() == theirs


FAULTS = """
import resource, sys
from posh_reward.cli import main
table, out, limit = sys.argv[1:]
flags = ["score", table, "--judge", "fake", "--batch", "1", "-o"]
unread = main([*flags, "-"])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
full = main([*flags, out])
print(unread, full, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_closed_pipe_and_a_full_disk_are_no_tracebacks(table: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert run("score", table, "-o", whole) == EXIT_OK
    limit = len(whole.read_bytes()) * 3 // 4
    read, write = os.pipe()
    os.close(read)  # as `head` does when it has seen enough
    command = [sys.executable, "-c", FAULTS, str(table), str(out), str(limit)]
    with os.fdopen(write, "wb") as unread:
        ran = subprocess.run(command, cwd=ROOT, stdout=unread, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[-1] == f"{EXIT_OUTPUT_CLOSED} {EXIT_UNWRITABLE}"
    assert "posh-reward: could not write: [Errno 27]" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert run("score", table, "-o", out) == EXIT_OK
    assert out.read_bytes() == whole.read_bytes()


TEXTS = [*COMMAND, "packets", "texts"]
"""The quickest command: it loads no metric."""


def test_a_full_device_is_no_traceback(
    table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "full.jsonl"
    full.symlink_to("/dev/full")
    assert run("score", table, "-o", full) == EXIT_UNWRITABLE
    os.write(1, b"still here")
    print(", and here")
    assert capfd.readouterr().out == "still here, and here\n"
    with open("/dev/full", "w") as device:
        ran = subprocess.run(TEXTS, cwd=ROOT, stdout=device, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == EXIT_UNWRITABLE
    assert ran.stderr.startswith("posh-reward: could not write: [Errno 28] No space left on device")
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_a_folder_that_cannot_be_written_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("score", table, "-o", table / "out.jsonl") == EXIT_UNWRITABLE
    assert f"could not write: [Errno 20] Not a directory: '{table}" in capsys.readouterr().err
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    command = [*TEXTS, "-o", str(locked / "texts.yaml")]
    if os.geteuid() == 0:  # root may write anywhere, unless it lays that right down
        if not shutil.which("setpriv"):
            pytest.skip("run by root, without setpriv")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == EXIT_UNWRITABLE
    assert "no permission to read or write" in ran.stderr


@pytest.mark.slow
def test_rows_of_a_stream_are_written_as_they_are_scored() -> None:
    command = (*COMMAND, "score", "-", "--judge", "fake", "--batch", "1", "--quiet")
    process = start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
    assert process.stdin is not None
    assert process.stdout is not None
    for pair in pairs(3):
        process.stdin.write(json.dumps(pair) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == pair["id"]  # no more is sent yet
    process.stdin.close()
    assert process.stdout.read() == ""
    assert process.wait() == EXIT_OK


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("packets texts", EXIT_UNWRITABLE),
        ("packets texts -o out.yaml", EXIT_OK),
        pytest.param("score in.jsonl --judge fake", EXIT_UNWRITABLE, marks=pytest.mark.slow),
        pytest.param("score in.jsonl --judge fake -o out.jsonl", EXIT_OK, marks=pytest.mark.slow),
        pytest.param("explain a 'A dog.' --judge fake", EXIT_UNWRITABLE, marks=pytest.mark.slow),
        pytest.param("report in.jsonl", EXIT_UNUSABLE, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("closed", [">&-", pytest.param("<&- >&- 2>&-", marks=pytest.mark.slow)])
def test_a_closed_output_is_no_traceback(
    table: Path, command: str, status: int, closed: str
) -> None:
    shell = f"{' '.join(COMMAND)} {command} {closed}"
    ran = subprocess.run(
        ["sh", "-c", shell], cwd=table.parent, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == status, ran.stderr
    assert "Traceback" not in ran.stderr
    told = status == EXIT_UNWRITABLE and "2>" not in closed
    assert ("standard output is closed" in ran.stderr) == told
    assert not ran.stdout


def test_a_closed_input_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after <&-
    assert run("score", "-") == EXIT_UNUSABLE
    assert capsys.readouterr().err == "posh-reward: standard input is closed: name a file\n"


def score(table: Path, out: Path, *flags: object) -> int:
    return main(["score", str(table), "-o", str(out), *map(str, flags)])


@pytest.fixture
def store(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "store.sqlite"
    assert score(table, tmp_path / "a.jsonl", "--judge", "fake-model", "--store", path) == EXIT_OK
    capsys.readouterr()
    return path


def test_a_second_run_adds_nothing(
    table: Path, tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows_by_kind(store)
    config = tmp_path / "metric.json"
    config.write_text(json.dumps({"judge": {"name": "fake-model"}, "store": str(store)}))
    assert score(table, tmp_path / "b.jsonl", "--metric", config) == EXIT_OK
    assert rows_by_kind(store) == before
    assert before.keys() == {"graph", "verdict", "rewrite"}  # the check asks for rewrites, too
    assert before["graph"] == 7  # the table's five texts, and the two of the check
    assert rows_in(tmp_path / "a.jsonl") == rows_in(tmp_path / "b.jsonl")


def test_a_run_goes_on_without_a_damaged_store(
    table: Path, tmp_path: Path, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write_bytes(b"nonsense" * 1000)
    assert score(table, tmp_path / "b.jsonl", "--judge", "fake-model", "--store", store) == EXIT_OK
    assert rows_in(tmp_path / "a.jsonl") == rows_in(tmp_path / "b.jsonl")
    assert [f"rm {store}*" in record.getMessage() for record in caplog.records] == [True]


def test_a_store_that_cannot_be_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere" / "store.sqlite"
    assert (
        score(table, tmp_path / "a.jsonl", "--judge", "fake", "--store", nowhere) == EXIT_UNUSABLE
    )
    assert f"no folder {str(nowhere.parent)!r} for the store" in capsys.readouterr().err
