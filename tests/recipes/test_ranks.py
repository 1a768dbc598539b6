"""Two real processes over gloo: the same names on both ranks, also when one has no judge."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posh_reward.posh.means import figures
from posh_reward.reward.trl import CALL_FIGURES
from recipes.demo import tiny_qwen

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def launch(folder: Path, case: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Trains on two ranks."""
    tiny_qwen.build(folder / "tiny", warm_up_steps=0, pretrain_steps=0)
    command = [
        sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node", "2",
        "tests/recipes/rank_names.py", str(folder), case, "--",
        "--config", "configs/smoke/dapo.yaml", "--model_name_or_path", str(folder / "tiny"),
        "--output_dir", str(folder / "dapo"), "--dataset_name", "scenes:train=8:heldout=4",
        "--per_device_train_batch_size", "8", "--max_steps", "2", "--max_completion_length", "16",
        "--mask_truncated_completions", "false",  # an untrained model never ends its text
        *flags,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def train(folder: Path, case: str) -> list[list[dict[str, Any]]]:
    """What each rank logged, step by step."""
    done = launch(folder, case)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


NAMES = {f"posh/{name}" for name in (*figures([]), *CALL_FIGURES, "lowered_share")}


def posh_names(line: dict[str, Any]) -> set[str]:
    return {name for name in line if name.startswith("posh/")}


def test_both_ranks_log_the_same_names(tmp_path: Path) -> None:
    ranks = train(tmp_path, case="well")
    assert [len(steps) for steps in ranks] == [2, 2]
    assert all(posh_names(line) == NAMES for steps in ranks for line in steps)
    assert ranks[0][0]["reward"] == ranks[1][0]["reward"], "rewards are gathered"


def test_a_rank_without_a_judge_neither_hangs_nor_hides(tmp_path: Path) -> None:
    ranks = train(tmp_path, case="dies")
    assert all(posh_names(line) == NAMES for steps in ranks for line in steps)
    assert all(line["posh/failed_share"] == 0.5 for line in ranks[0])
    assert all(line["reward"] > 0 for line in ranks[0]), "the other rank's rewards count"


def test_a_run_without_rewards_stops_on_both_ranks_with_a_checkpoint(tmp_path: Path) -> None:
    done = launch(
        tmp_path, "dies", "--max_steps", "6", "--max_failed_calls", "2", "--save_steps", "100"
    )
    assert done.returncode != 0
    assert "most completions could not be judged in 2 calls in a row" in done.stderr
    assert "another rank's judge failed" in done.stderr
    assert [path.name for path in (tmp_path / "dapo").glob("checkpoint-*")] == ["checkpoint-2"]


def test_ranks_that_do_not_judge_alike_do_not_train(tmp_path: Path) -> None:
    done = launch(tmp_path, "unlike")
    assert done.returncode != 0
    assert "the ranks score differently" in done.stderr
    assert "judge:fake-of-rank-0|" in done.stderr
