"""Pairs of processes that score one table into one file, paused and killed at random.

    python -m tests.cli.two_writers 200

Each pair starts the same command twice. A process that ends with status 0 must leave the whole
file; any other status must be a kill or a refusal that says why; what is left must be a beginning
of the whole file; and the command once more must complete it.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.types import Question, Verdict
from tests.cli.running import pairs, run, write_rows

ENDINGS = ("jsonl", "csv", "parquet")
REFUSAL = "another process"
PAUSE = 0.01  # most seconds before each call of the judge
LAG = 0.08  # most seconds between the two starts
LIFE = 0.4  # most seconds until a kill


def start(flags: Sequence[str], said: Path, seed: int) -> int:
    """Fork a process that runs the command with random pauses; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        grade, rng = FakeJudge.grade, random.Random(seed)

        def slowly(self: FakeJudge, questions: Sequence[Question]) -> list[Verdict]:
            time.sleep(rng.uniform(0, PAUSE))
            return grade(self, questions)

        FakeJudge.grade = slowly  # type: ignore[method-assign]
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = os.fdopen(2, "w", 1, closefd=False)  # pytest's goes elsewhere
        os._exit(main(flags))
    finally:
        os._exit(99)


def beginning(path: Path) -> bytes:
    """Whole lines of the file or of its journal."""
    journal = path.with_name(path.name + ".journal.jsonl")
    data = next((each.read_bytes() for each in (journal, path) if each.exists()), b"")
    return data[: data.rfind(b"\n") + 1]


def one_pair(folder: Path, whole: dict[str, bytes], rng: random.Random) -> Counter[str]:
    """Run one pair; return what happened, faults under ``fault: ...``."""
    ending = rng.choice(ENDINGS)
    out = folder / f"out.{ending}"
    flags = ["score", str(folder / "in.jsonl"), "-o", str(out), "--batch", "1", "--judge", "fake",
             "--id", "id", "-q"]  # fmt: skip
    started = time.monotonic()
    said = [folder / "first.txt", folder / "second.txt"]
    pids = []
    for each in said:
        each.touch()
        pids.append(start(flags, each, rng.getrandbits(32)))
        time.sleep(rng.uniform(0, LAG))
    for pid in rng.sample(pids, rng.choice((0, 0, 1, 2))):
        time.sleep(max(0.0, started + rng.uniform(0, LIFE) - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    seen = Counter({f"{ending}: pairs": 1})
    for pid, text in zip(pids, said, strict=True):
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        why = text.read_text()
        if status == EXIT_OK:
            complete = out.exists() and out.read_bytes() == whole[ending]
            seen["complete" if complete else "fault: status 0, rows missing"] += 1
        elif status == EXIT_UNUSABLE and REFUSAL in why:
            seen["refused"] += 1
        else:
            seen["killed" if status == -signal.SIGKILL else f"fault: {status} {why[-300:]}"] += 1
    if not whole["jsonl"].startswith(beginning(out)) and not out.exists():
        seen["fault: the rows are no beginning of the whole"] += 1
    if not (ending != "jsonl" and out.exists() and out.read_bytes() == whole[ending]):
        status = main(flags)
        if status != EXIT_OK or out.read_bytes() != whole[ending]:
            seen[f"fault: not completed by another run, status {status}"] += 1
    for each in folder.glob("out.*"):
        if each != out:
            seen[f"fault: {each.name} is left"] += 1
        each.unlink()
    for each in said:
        each.unlink()
    return seen


def many_pairs(count: int, seed: int) -> Counter[str]:
    """Run so many pairs."""
    rng = random.Random(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = write_rows(folder / "in.jsonl", pairs(16))
        whole = {}
        for ending in ENDINGS:
            path = folder / f"whole.{ending}"
            assert run("score", table, "-o", path, "--id", "id", "-q") == EXIT_OK
            whole[ending] = path.read_bytes()
        return sum((one_pair(folder, whole, rng) for _ in range(count)), Counter())


if __name__ == "__main__":
    seen = many_pairs(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 0)
    print("\n".join(f"{count:4} {what}" for what, count in sorted(seen.items())))
    sys.exit(any(what.startswith("fault") for what in seen))
