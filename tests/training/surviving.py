"""A run to be interrupted, which notes what it trains on and what its judge is asked.

    surviving.py NOTES -- flags of recipes/dapo_posh.py

Each rank appends to NOTES/RANK.jsonl: at first its process's id, then what its judge is asked, and
after each call of the reward the step and the references. The store, NOTES/RANK.sqlite, is the
rank's own: ranks that share one may ask the same at the same time.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posh_reward import PoSh, PoshReward
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.judge import PromptJudge
from posh_reward.store import Store
from posh_reward.training.launch import run
from posh_reward.types import Reply, Verdict
from recipes import dapo_posh


def note(path: Path, *lines: object) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def notes(path: Path) -> list[Any]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class NotingModel(FakeModel):
    """Keeps what it was asked, also after a kill."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        note(self.path, *({"asked": prompt.text} for prompt in prompts))
        return super().choose(prompts, labels)

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        note(self.path, *({"asked": prompt.text} for prompt in prompts))
        return super().write(prompts, max_tokens)


class NotingReward(PoshReward):
    """Notes each call's step and references."""

    def __init__(self, path: Path, posh: PoSh) -> None:
        super().__init__(posh)
        self.path = path
        self.observe: Callable[[int], object] = lambda step: None
        """Is told the step after each call."""

    def __call__(self, *args: Any, trainer_state: Any = None, **columns: Any) -> list[float | None]:
        rewards = super().__call__(*args, **columns)
        note(self.path, {"step": trainer_state.global_step, "references": columns["reference"]})
        self.observe(trainer_state.global_step)
        return rewards


def reward(folder: Path) -> NotingReward:
    rank = os.environ.get("RANK", "0")
    path = folder / f"{rank}.jsonl"
    note(path, {"pid": os.getpid()})
    store = Store(folder / f"{rank}.sqlite")
    return NotingReward(path, PoSh(PromptJudge(NotingModel(path), store=store), store=store))


def main() -> None:
    dapo_posh.make_reward = lambda script: reward(Path(sys.argv[1]))
    dapo_posh.main(sys.argv[3:])


if __name__ == "__main__":
    run(main)
