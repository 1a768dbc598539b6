"""A run that is killed or stopped at any step goes on as if nothing had happened.

Also kept: what its judge has answered. The quick tests have one rank, the slow ones two.
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posh_reward.training.stopping import TRY_AGAIN, StoppedEarlyError
from recipes import dapo_posh
from tests.processes import alive, soon, start
from tests.training import surviving
from tests.training.surviving import notes

ROOT = Path(__file__).resolve().parents[2]
STEPS = 6


def flags(tiny: Path, output: Path, *more: str) -> list[str]:
    return [
        "--config", str(ROOT / "configs/smoke/dapo.yaml"), "--model_name_or_path", str(tiny),
        "--output_dir", str(output), "--dataset_name", "scenes:train=8:heldout=4",
        "--per_device_train_batch_size", "8", "--max_completion_length", "8",
        "--mask_truncated_completions", "false",
        "--max_steps", str(STEPS), "--resume_from_checkpoint", "latest", *more,
    ]  # fmt: skip


def steps(rank: Path) -> list[tuple[int, str]]:
    """Step and references of each call of the reward, in order; the check's has no step."""
    return [
        (line["step"], json.dumps(line["references"])) for line in notes(rank) if "step" in line
    ]


def runs(rank: Path) -> list[list[dict[str, Any]]]:
    """A rank's notes, for each of its processes."""
    found: list[list[dict[str, Any]]] = []
    for line in notes(rank):
        if "pid" in line:
            found.append([])
        found[-1].append(line)
    return found


def judged_twice(rank: Path) -> set[str]:
    """What was asked again although a call that asked it had returned before the kill."""
    *earlier, last = runs(rank)
    paid: set[str] = set()
    for lines in earlier:
        returned = [number for number, line in enumerate(lines) if "step" in line]
        paid |= {line["asked"] for line in lines[: returned[-1]] if "asked" in line}
    return paid & {line["asked"] for line in last if "asked" in line}


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_the_same_data_and_pays_nothing_twice(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(
        dapo_posh, "make_reward", lambda script: surviving.reward(tmp_path / "whole")
    )
    four = ("--max_steps", "4")
    dapo_posh.main(flags(tiny, tmp_path / "whole", *four))

    def stopping_at_step_2(script: object) -> surviving.NotingReward:
        made = surviving.reward(tmp_path / "stopped")
        made.observe = lambda step: os.kill(os.getpid(), signal.SIGUSR1) if step == 1 else None
        return made

    monkeypatch.setattr(dapo_posh, "make_reward", stopping_at_step_2)
    with pytest.raises(StoppedEarlyError, match="after step 2 of 4"):
        dapo_posh.main(flags(tiny, tmp_path / "stopped", *four))
    resumed = dapo_posh.main(flags(tiny, tmp_path / "stopped", *four))
    assert resumed.state.global_step == 4
    assert steps(tmp_path / "stopped/0.jsonl") == steps(tmp_path / "whole/0.jsonl")
    assert judged_twice(tmp_path / "stopped/0.jsonl") == set()


def launch(folder: Path, tiny: Path, *more: str) -> subprocess.Popen[str]:
    """Two ranks."""
    folder.mkdir(exist_ok=True)
    command = [
        sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node", "2",
        "--standalone", "-m", "tests.training.surviving", str(folder), "--",
        *flags(tiny, folder / "dapo", *more),
    ]  # fmt: skip
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
        "POSH_STATUS_FILE": str(folder / "status"),
    }  # fmt: skip
    with (folder / "log").open("ab") as log:
        return start(*command, env=environment, stdout=log, stderr=log)


def wait_for_calls(folder: Path, rank: int, calls: int) -> int:
    """Waits until the reward was called so often on a rank; its process's id."""
    path = folder / f"{rank}.jsonl"
    assert soon(lambda: len(steps(path)) >= calls, 180), (folder / "log").read_text()[-3000:]
    return next(int(line["pid"]) for line in notes(path) if "pid" in line)


def finish(folder: Path, tiny: Path, *more: str) -> None:
    """Launches the run once more, which ends it."""
    assert launch(folder, tiny, *more).wait(300) == 0, (folder / "log").read_text()[-3000:]
    state = json.loads((folder / "dapo/trainer_state.json").read_text())
    assert state["global_step"] == STEPS


def check_as_if_nothing_had_happened(folder: Path, whole: Path) -> None:
    for rank in ("0.jsonl", "1.jsonl"):
        assert dict(steps(folder / rank)) == dict(steps(whole / rank))
        assert set(steps(folder / rank)) == set(steps(whole / rank)), "replayed steps are the same"
        assert judged_twice(folder / rank) == set()


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole")
    finish(folder, tiny)
    return folder


@pytest.mark.slow
def test_two_killed_ranks_go_on_from_the_last_checkpoint(
    tiny: Path, whole: Path, tmp_path: Path
) -> None:
    saving = ("--save_strategy", "steps", "--save_steps", "2")
    launcher = launch(tmp_path, tiny, *saving)
    at = random.randint(1, STEPS)
    ranks = [wait_for_calls(tmp_path, rank, at) for rank in (0, 1)]
    for process in (launcher.pid, *ranks):
        os.kill(process, signal.SIGKILL)
    launcher.wait()
    assert soon(lambda: not any(map(alive, ranks)))
    finish(tmp_path, tiny, *saving)
    check_as_if_nothing_had_happened(tmp_path, whole)


@pytest.mark.slow
def test_a_signal_to_one_of_two_ranks_stops_both(tiny: Path, whole: Path, tmp_path: Path) -> None:
    launcher = launch(tmp_path, tiny)
    os.kill(wait_for_calls(tmp_path, 1, 2), signal.SIGUSR1)
    assert launcher.wait(120) == 1, "whatever the ranks' own status is"
    assert (tmp_path / "status").read_text() == str(TRY_AGAIN)
    [checkpoint] = (tmp_path / "dapo").glob("checkpoint-*")
    step = checkpoint.name.removeprefix("checkpoint-")
    assert (tmp_path / "log").read_text().count(f"stopped after step {step} of {STEPS}") == 2
    finish(tmp_path, tiny)
    check_as_if_nothing_had_happened(tmp_path, whole)


@pytest.mark.slow
def test_sigterm_to_the_launcher_saves_too(tiny: Path, whole: Path, tmp_path: Path) -> None:
    """torchrun passes it on, and allows 30 seconds."""
    launcher = launch(tmp_path, tiny)
    wait_for_calls(tmp_path, 0, 2)
    launcher.terminate()
    assert launcher.wait(120) != 0
    assert len(list((tmp_path / "dapo").glob("checkpoint-*"))) == 1
    finish(tmp_path, tiny)
    check_as_if_nothing_had_happened(tmp_path, whole)
