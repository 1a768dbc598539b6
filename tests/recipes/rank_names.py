"""Run by torchrun: trains, then writes the names that this rank has logged.

    rank_names.py OUTPUT BROKEN_RANK -- flags of recipes/dapo_posh.py

On the rank BROKEN_RANK (-1 for none) every judgment fails once training has begun.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from posh_reward import PoSh
from posh_reward.judge.fake import FakeJudge
from posh_reward.reward.trl import PoshReward
from recipes import dapo_posh


class DyingJudge(FakeJudge):
    """Answers its first batch, the check before training, and nothing after it."""

    def __init__(self) -> None:
        super().__init__(lambda request: "no judge on this rank" if "sleep" in self.events else 4.0)


def main() -> None:
    output, broken = Path(sys.argv[1]), int(sys.argv[2])
    rank = int(os.environ["RANK"])
    if rank == broken:
        dapo_posh.make_reward = lambda script: PoshReward(
            PoSh(DyingJudge()), max_failed_calls=script.max_failed_calls
        )
    trainer = dapo_posh.main(sys.argv[4:])
    steps = [line for line in trainer.state.log_history if "reward" in line]
    (output / f"rank{rank}.json").write_text(json.dumps(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
