"""A trainer on the tiny Qwen2.5-VL with images, for the tests of this folder."""

import math
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from hypothesis import strategies as st
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
    # vLLM is not installed here: ``Speaks`` takes its place, unless a test starts its own.
    starts_vllm = given.pop("starts_vllm", False)
    use_vllm = given.pop("use_vllm", starts_vllm)
    settings: dict[str, Any] = {
        "output_dir": str(folder / "out"), "num_generations": GROUP,
        "per_device_train_batch_size": ROWS, "max_completion_length": 12, "loss_type": "dapo",
        "beta": 0.0, "report_to": "none", "use_cpu": True, "bf16": False, "max_steps": 2,
        "gradient_checkpointing": False, "save_strategy": "no", "logging_steps": 1, "seed": 0,
        "disable_tqdm": True, "use_vllm": starts_vllm,
    }  # fmt: skip
    trainer = made(
        model=str(folder),
        reward_funcs=reward or flat_or_wide(),
        args=GRPOConfig(**settings | given),
        train_dataset=images(),
        processing_class=load_processor(str(folder)),
        **own,
    )
    trainer.use_vllm = use_vllm
    return trainer


def rows(trainer: Any, indices: list[int]) -> list[dict[str, Any]]:
    """The rows of some images' groups, as the dataloader gives them."""
    return [trainer.train_dataset[index] for index in indices for _ in range(GROUP)]


class Speaks:
    """Has a trainer's model, or its vLLM, say texts of our choice in turn.

    With ``cut`` the longest of them do not end: they are truncated at their last token.
    """

    def __init__(self, trainer: Any, texts: list[str], *, cut: bool = False) -> None:
        tokenizer = trainer.processing_class.tokenizer
        ids = [tokenizer.encode(text) for text in texts]
        self.length = max(map(len, ids)) + (not cut)
        self.said = [[*each, tokenizer.eos_token_id][: self.length] for each in ids]
        self.pad, self.guess = tokenizer.pad_token_id, -math.log(len(tokenizer))
        trainer.model.generate = self.generate
        trainer.vllm_generation = SimpleNamespace(generate=self.generate_by_vllm)
        trainer._last_loaded_step = 0

    def generate(self, input_ids: torch.Tensor, **named: Any) -> torch.Tensor:
        said = [
            each + [self.pad] * (self.length - len(each)) for each in self.in_turn(len(input_ids))
        ]
        return torch.cat([input_ids, torch.tensor(said)], dim=1)

    def generate_by_vllm(self, prompts: list[Any], **named: Any) -> tuple[Any, ...]:
        said = self.in_turn(len(prompts))
        # About the log-probabilities of a model that has learned nothing.
        return prompts, said, [[[self.guess]] * len(each) for each in said], None

    def in_turn(self, count: int) -> list[list[int]]:
        return [self.said[at % len(self.said)] for at in range(count)]


LOSS_SETTINGS: dict[str, list[Any]] = {
    "loss_type": ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "luspo", "sapo", "vespo"],
    "importance_sampling_level": ["token", "sequence"],
    "scale_rewards": ["group", "batch", "none"],
    "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    "reward_weights": [None, [2.0]],
    "num_iterations": [1, 2],
    "steps_per_generation": [1, 2],
    "epsilon_high": [0.2, 0.28],
    "delta": [None, 1.5],
    "beta": [0.0, 0.1],
    "use_bias_correction_kl": [True, False],
    "mask_truncated_completions": [False, True],
    "top_entropy_quantile": [1.0, 0.5],
    "entropy_coef": [0.0, 0.01],
    "use_adaptive_entropy": [False, True],
    "off_policy_mask_threshold": [None, 0.5],
    "use_vllm": [False, True],
    "vllm_importance_sampling_correction": [True, False],
    "vllm_importance_sampling_mode": [
        "sequence_mask", "sequence_truncate", "token_truncate", "token_mask"
    ],
}  # fmt: skip
"""TRL's settings of the loss."""


def drawn_settings(without: dict[str, list[Any]] | None = None) -> Any:
    """Combinations of ``LOSS_SETTINGS`` that TRL accepts, ``without`` some of their values."""
    left = {
        name: [value for value in values if value not in (without or {}).get(name, ())]
        for name, values in LOSS_SETTINGS.items()
    }
    drawn = st.fixed_dictionaries({name: st.sampled_from(left[name]) for name in left})
    # TRL accepts VESPO with the modes by token only.
    return drawn.filter(
        lambda these: (
            these["loss_type"] != "vespo" or "token" in these["vllm_importance_sampling_mode"]
        )
    )


def gradient(model: Any) -> list[torch.Tensor]:
    """The gradients of a model's parameters that have one."""
    return [each.grad for each in model.parameters() if each.grad is not None]
