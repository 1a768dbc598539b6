"""What can be said of the Slurm scripts without a Slurm."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "slurm").glob("*.sh"))
JOBS = [path for path in SCRIPTS if "#SBATCH" in path.read_text(encoding="utf-8")]


def bash(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"source {ROOT}/slurm/common.sh; {code}"],
        cwd=folder, env={**os.environ, **variables}, text=True, capture_output=True, check=False,
    )  # fmt: skip


def command(folder: Path, name: str, code: str) -> None:
    """A program of that name for the scripts to find."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/usr/bin/env bash\n{code}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_shellcheck_finds_nothing() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not here: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", "--external-sources", *map(str, SCRIPTS)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.name)
def test_a_job_survives_its_time_limit(job: Path) -> None:
    text = job.read_text(encoding="utf-8")
    assert {"--requeue", "--open-mode=append"} <= set(re.findall(r"#SBATCH (\S+)", text))
    [output] = re.findall(r"#SBATCH --output=(\S+)", text)
    assert "/" not in output, "Slurm makes no folder for it, and the job would end without a word"


def test_gpus_that_admit_one_process_are_refused_by_name(tmp_path: Path, path: str) -> None:
    command(tmp_path / "bin", "nvidia-smi", "printf 'Default\\nExclusive_Process\\n'")
    done = bash("require_shared_gpus", tmp_path, PATH=path)
    assert done.returncode == 1
    assert "EXCLUSIVE_PROCESS" in done.stderr
    assert "slurm/dapo_judge_server.sh" in done.stderr


@pytest.mark.parametrize("told", ["echo Default", "exit 9"])
def test_other_gpus_and_none_are_accepted(tmp_path: Path, path: str, told: str) -> None:
    command(tmp_path / "bin", "nvidia-smi", told)
    assert bash("require_shared_gpus; echo on", tmp_path, PATH=path).stdout == "on\n"


@pytest.mark.parametrize(
    ("launcher", "recipe", "ends", "requeued"),
    [(0, None, 0, False), (1, "75", 75, True), (1, "1", 1, False), (137, None, 137, False)],
)
def test_only_a_run_that_stopped_early_is_queued_again(
    tmp_path: Path, path: str, launcher: int, recipe: str | None, ends: int, requeued: bool
) -> None:
    command(tmp_path / "bin", "scontrol", 'echo "$@" >>asked')
    command(tmp_path / "bin", "sleep", "")
    status = tmp_path / "status"
    if recipe is not None:
        status.write_text(recipe)
    done = bash(
        f"leave {launcher}", tmp_path, PATH=path, POSH_STATUS_FILE=str(status), SLURM_JOB_ID="7"
    )
    assert done.returncode == ends
    asked = tmp_path / "asked"
    assert (asked.read_text() if asked.exists() else "") == ("requeue 7\n" if requeued else "")
    assert not status.exists()


FLAGS = "recipes/x.py --resume_from_checkpoint latest --config a.yaml --model_name_or_path b"


@pytest.mark.parametrize("fetched", [True, False])
def test_the_ranks_are_offline_once_all_is_fetched(
    tmp_path: Path, path: str, fetched: bool
) -> None:
    """``posh-reward fetch`` gets the recipe's flags, which may name another model."""
    code = f'echo "$@" >>{tmp_path / "asked"}; exit {0 if fetched else 2}'
    command(tmp_path / "bin", "posh-reward", code)
    command(tmp_path / "bin", "accelerate", f"env >{tmp_path / 'environment'}")
    command(tmp_path / "bin", "scontrol", "echo here")
    slurm = {
        "SLURM_CPUS_PER_TASK": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0",
        "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "here",
    }  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    subprocess.run(
        ["bash", str(ROOT / "slurm/node.sh"), *FLAGS.split()],
        cwd=ROOT, env=environment | slurm | {"PATH": path}, check=True,
    )  # fmt: skip
    assert (tmp_path / "asked").read_text().split() == (
        "fetch --check --config a.yaml -- --model_name_or_path b --resume_from_checkpoint latest"
    ).split()
    assert ("HF_HUB_OFFLINE=1\n" in (tmp_path / "environment").read_text()) == fetched
