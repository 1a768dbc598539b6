"""Dynamic sampling and span credit in two real processes over gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_each_rank_chooses_from_its_own_and_the_loss_counts_both(tiny: Path) -> None:
    command = [
        sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node", "2",
        "-m", "tests.training.dapo.two_ranks", str(tiny),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tiny / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    for rank in ranks:
        assert rank["differing"] == []
        assert rank["items"] == sum(each["tokens"] for each in ranks)
        assert rank["dropped"] == [4]
    assert ranks[0]["log"] == ranks[1]["log"]
    assert ranks[0]["log"].keys() >= {"span_credit/size", "dynamic_sampling/spread_kept"}
    assert ranks[0]["weights"] == ranks[1]["weights"]
