"""`train`: no step too many, no image unseen, one short line a step, tables that W&B takes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOTrainer

from posh_reward import PoshReward
from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import Shaping
from posh_reward.training import launch
from posh_reward.training.launch import train
from tests.training.dapo.tiny import make


class Steps(TrainerCallback):  # type: ignore[misc]
    """Counts the steps of a run."""

    def __init__(self) -> None:
        self.count = 0

    def on_step_begin(self, *arguments: Any, **more: Any) -> None:
        self.count += 1


@pytest.mark.slow
def test_a_finished_run_takes_no_further_step(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"output_dir": str(tmp_path), "save_strategy": "steps", "save_steps": 1}
    settings |= {"max_steps": 1, "resume_from_checkpoint": "latest"}
    trainer = make(tiny, GRPOTrainer, **settings)
    train(trainer)
    again = make(tiny, GRPOTrainer, **settings)
    steps = Steps()
    again.add_callback(steps)
    train(again)
    assert steps.count == 0
    assert again.state.global_step == 1
    assert "nothing left to train" in capsys.readouterr().out
    one, other = trainer.model.state_dict(), again.model.state_dict()
    assert all((one[name] == value).all() for name, value in other.items())


@pytest.mark.slow
def test_images_in_another_column_are_noticed(tiny: Path) -> None:
    trainer = make(tiny, GRPOTrainer)
    trainer.train_dataset = trainer.train_dataset.rename_column("image", "img")
    with pytest.raises(ConfigError, match=r"it has 'img'.*rename_column\(\.\.\., 'image'\)"):
        train(trainer)


def brevity(completions: list[Any], **_: Any) -> list[float]:
    return [-float(len(each)) for each in completions]


@pytest.mark.parametrize(
    ("references", "message"),
    [
        (list(range(8)), "'reference' holds int64"),
        (["A hat."] * 6 + [None, " "], r"2 of 8 rows, such as row 6, .*filter\(lambda"),
        ([["A hat."]] * 7 + [[]], "1 of 8 rows, such as row 7"),
    ],
)
@pytest.mark.parametrize("objective", ["f1", "separate"])
def test_references_that_cannot_be_read_are_said_before_the_first_step(
    objective: Any, references: list[Any], message: str
) -> None:
    """Also if other functions stand between the trainer and the reward."""
    dataset = Dataset.from_dict({"reference": references})
    functions = PoshReward(shaping=Shaping(objective)).functions(brevity)
    trainer: Any = SimpleNamespace(train_dataset=dataset, reward_funcs=functions)
    with pytest.raises(ConfigError, match=message):
        train(trainer)


@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_differ_after_an_engine_has_seeded_by_the_rank(seed: int) -> None:
    import torch
    from transformers import TrainingArguments

    torch.manual_seed(0)  # as vLLM does on rank 0
    launch.reseed_sampling(TrainingArguments("out", seed=seed, use_cpu=True, report_to="none"))
    expected = torch.Generator().manual_seed(seed)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))
