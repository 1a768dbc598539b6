"""Run by torchrun: trains, then writes the names that this rank has logged.

    rank_names.py OUTPUT CASE -- flags of recipes/dapo_posh.py

CASE is "well", or what is wrong on rank 1: its judge "dies" once training has begun, or is
"unlike" that of rank 0.
"""

import json
import os
import sys
from pathlib import Path

from posh_reward import PoSh
from posh_reward.posh.fake_judge import FakeJudge, shared_words
from posh_reward.reward.trl import PoshReward
from posh_reward.types import Failure
from recipes import dapo_posh

GONE = Failure("engine", "no judge on this rank")


class DyingJudge(FakeJudge):
    """Answers its first batch, the check before training, and nothing after it."""

    def __init__(self) -> None:
        super().__init__(lambda each: GONE if "sleep" in self.events else shared_words(each))


def judge(case: str, rank: int) -> FakeJudge:
    if case == "dies":
        return DyingJudge() if rank == 1 else FakeJudge()
    return FakeJudge(name=f"fake-of-rank-{rank}")


def main() -> None:
    output, case = Path(sys.argv[1]), sys.argv[2]
    rank = int(os.environ["RANK"])
    if case != "well":
        dapo_posh.make_reward = lambda script: PoshReward(
            PoSh(judge(case, rank)), max_failed_calls=script.max_failed_calls
        )
    trainer = dapo_posh.main(sys.argv[4:])
    steps = [line for line in trainer.state.log_history if "reward" in line]
    (output / f"rank{rank}.json").write_text(json.dumps(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
