"""A trainer on the tiny Qwen2.5-VL with images, for the tests of this folder."""

from functools import cache
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from posh_reward.training.dapo.trainer import DapoTrainer
from posh_reward.training.processors import load_processor
from recipes import dapo_posh

GROUP = 4
ROWS = 8
"""Completions that are trained on at once: two groups."""


@cache
def images(count: int = 8) -> Dataset:
    """Scenes of different sizes, numbered in the column ``index``."""
    scenes = dapo_posh.prepare(f"scenes:train={count}:heldout=4", "train")
    return scenes.map(
        lambda image, index: {"image": image.resize((168 if index % 2 else 224, 56))},
        input_columns=["image"],
        with_indices=True,
    ).add_column("index", list(range(count)))


def flat_or_wide(flat: tuple[int, ...] = ()) -> Any:
    """A reward that tells the completions of a group apart, except where ``index`` is flat."""

    def reward(
        completion_ids: list[list[int]], index: list[int], **columns: Any
    ) -> list[float | None]:
        return [
            0.5 if at in flat else sum(ids) % 97 / 97
            for ids, at in zip(completion_ids, index, strict=True)
        ]

    return reward


def make(
    folder: Path, made: type[GRPOTrainer] = DapoTrainer, *, reward: Any = None, **given: Any
) -> Any:
    """A trainer; what is not an argument of the trainers is a setting of GRPOConfig."""
    ours = ("dynamic_sampling", "span_credit", "scored_by", "rollout_func")
    own = {key: given.pop(key) for key in ours if key in given}
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"), "num_generations": GROUP,
        "per_device_train_batch_size": ROWS, "max_completion_length": 12, "loss_type": "dapo",
        "beta": 0.0, "report_to": "none", "use_cpu": True, "bf16": False, "max_steps": 2,
        "gradient_checkpointing": False, "save_strategy": "no", "logging_steps": 1, "seed": 0,
        "disable_tqdm": True,
    }  # fmt: skip
    return made(
        model=str(folder),
        reward_funcs=reward or flat_or_wide(),
        args=GRPOConfig(**settings | given),
        train_dataset=images(),
        processing_class=load_processor(str(folder)),
        **own,
    )


def rows(trainer: Any, indices: list[int]) -> list[dict[str, Any]]:
    """The rows of some images' groups, as the dataloader gives them."""
    return [trainer.train_dataset[index] for index in indices for _ in range(GROUP)]
