"""Run by torchrun: chooses from a batch on two ranks, trains, and writes what each rank saw.

two_ranks.py FOLDER    (FOLDER has the tiny model)
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from trl import GRPOTrainer

from posh_reward import PoSh, PoshReward
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.training.dapo.sampling import DynamicSampling
from tests.training.dapo.tiny import Speaks, flat_or_wide, make, rows

FLAT = (0, 3, 5, 6)
"""Each rank generates four images' groups, of which two are flat."""
KEPT = {0: [1, 2], 1: [4, 7]}

SAID = ["a red hat", "a green dog", "two blue birds", "a red hat and a blue coat"]


def differing(folder: Path, rank: int) -> dict[str, Any]:
    """Where the chosen batch is not the batch that TRL makes of the kept groups alone."""
    ours = make(folder, reward=flat_or_wide(FLAT), dynamic_sampling=DynamicSampling(2))
    trl = make(folder, GRPOTrainer, reward=flat_or_wide(FLAT))
    for trainer in (ours, trl):
        Speaks(trainer, SAID)
        trainer.model.train()
    own = range(4) if rank == 0 else range(4, 8)
    batch = ours._generate_and_score_completions(rows(ours, [*own]))
    alone = trl._generate_and_score_completions(rows(trl, KEPT[rank]))
    here = int(batch["completion_mask"].sum())
    return {
        "differing": [name for name, value in alone.items() if not same(batch[name], value)],
        "tokens": here,
        "items": int(batch["num_items_in_batch"]),
        "dropped": ours._metrics["train"]["dynamic_sampling/groups_dropped"],
    }


def same(ours: Any, theirs: Any) -> bool:
    return torch.equal(ours, theirs) if torch.is_tensor(ours) else bool(ours == theirs)


def main() -> None:
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    result = differing(folder, rank)
    trainer = make(
        folder, reward=PoshReward(PoSh(FakeJudge())), dynamic_sampling=DynamicSampling(2),
        span_credit=0.5, max_steps=1, per_device_train_batch_size=4, learning_rate=1e-3,
        ddp_find_unused_parameters=False,
    )  # fmt: skip
    trainer.train()
    result["log"] = {
        name: value
        for line in trainer.state.log_history
        for name, value in line.items()
        if name.startswith(("dynamic_sampling/", "span_credit/"))
    }
    result["weights"] = sum(float(p.double().sum()) for p in trainer.model.parameters())
    (folder / f"rank{rank}.json").write_text(json.dumps(result), encoding="utf-8")
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
