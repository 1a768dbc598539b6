"""Updates are applied if something was judged, reach the weights, and come from some text.

All on TRL's own trainers and a tiny Qwen2.5-VL. Two ranks: tests/recipes/test_ranks.py; DeepSpeed:
test_zero3.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from posh_reward import StopWithCheckpoint, load_processor
from posh_reward.errors import ConfigError, JudgeError
from posh_reward.reward.trl import FailureLimit
from posh_reward.training.dapo.sampling import DynamicSampling
from posh_reward.training.dapo.trainer import DapoTrainer
from posh_reward.training.learning import NothingLearnedError, read_progress
from posh_reward.training.stopping import log_before_trackers
from posh_reward.types import Failure

GONE = Failure("engine", "gone")
FEWEST_COMPLETIONS = 2  # of a prompt, and in a batch: TRL refuses 1, which it cannot compare


class ScriptedReward:
    """Random rewards in the calls that ``judges`` says, and none in the others."""

    __name__ = "scripted"
    signature = "scripted"

    def __init__(self, judges: Callable[[int], bool], max_failed_calls: int = 100) -> None:
        self.failures = FailureLimit(max_failed_calls)
        self._judges, self._random = judges, random.Random(0)
        self.calls = 0

    def __call__(self, completions: Sequence[object], **columns: Any) -> list[float | None]:
        judged = self._judges(self.calls)
        self.calls += 1
        self.failures.note([None if judged else GONE] * len(completions))
        return [self._random.random() if judged else None for _ in completions]


class NoteWeights(TrainerCallback):  # type: ignore[misc]
    """The weights after each step."""

    def __init__(self) -> None:
        self.after: list[torch.Tensor] = []

    def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
        self.after = [self._weights(model)]

    def on_step_end(self, *args: Any, model: Any, **kwargs: Any) -> None:
        self.after.append(self._weights(model))

    def _weights(self, model: Any) -> torch.Tensor:
        return torch.cat([each.detach().flatten().clone() for each in model.parameters()])

    @property
    def moved(self) -> list[bool]:
        pairs = zip(self.after, self.after[1:], strict=False)
        return [not torch.equal(before, after) for before, after in pairs]


def grpo(tiny: Path, folder: Path, reward: Any, **changes: Any) -> tuple[Any, NoteWeights]:
    """Make a trainer of TRL's, or ours with dynamic sampling, that stops with a checkpoint."""
    sampling = changes.pop("dynamic_sampling", None)
    stop = changes.pop("stop", None) or StopWithCheckpoint(reward)
    args = GRPOConfig(**{
        "output_dir": str(folder), "max_steps": 4,
        "per_device_train_batch_size": FEWEST_COMPLETIONS, "num_generations": FEWEST_COMPLETIONS,
        "max_completion_length": 4, "learning_rate": 1e-3,
        "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no",
        "logging_steps": 1, "disable_tqdm": True, "gradient_checkpointing": False,
        "weight_decay": 0.1, **changes,
    })  # fmt: skip
    rows = Dataset.from_dict({"prompt": [f"Describe {number}." for number in range(32)]})
    weights = NoteWeights()
    kind, more = (
        (GRPOTrainer, {}) if sampling is None else (DapoTrainer, {"dynamic_sampling": sampling})
    )
    trainer = kind(
        str(tiny), reward, args=args, train_dataset=rows, eval_dataset=rows.select([0]),
        processing_class=load_processor(str(tiny)), callbacks=[weights, stop], **more,
    )  # fmt: skip
    return trainer, weights


# An update is applied if something behind its batches was judged.

RUN_STEPS = 4


@settings(max_examples=12)
@given(
    failing=st.sets(st.integers(0, 11)),
    accumulated=st.integers(1, 3),
    generated=st.integers(1, 4),
    iterations=st.integers(1, 2),
    evaluates=st.booleans(),
)
@example({3}, 4, 1, 1, False)  # three of a step's four batches were judged
@example({1}, 1, 1, 2, True)  # the second step trains on the batch of the first
@example({1}, 2, 3, 1, False)  # the second step's batches are of two calls, one of them judged
@example({0, 1}, 2, 1, 1, False)  # nothing of the first step was
def test_a_step_moves_the_weights_if_and_only_if_something_in_it_was_judged(
    tiny: Path,
    tmp_path_factory: pytest.TempPathFactory,
    failing: set[int],
    accumulated: int,
    generated: int,
    iterations: int,
    evaluates: bool,
) -> None:
    # The number of the generation that a batch comes from, as TRL generates.
    generations = [batch // (generated * iterations) for batch in range(RUN_STEPS * accumulated)]
    steps = [generations[at * accumulated :][:accumulated] for at in range(RUN_STEPS)]
    expected = [not failing.issuperset(numbers) for numbers in steps]
    training: list[int] = []

    def judges(call: int) -> bool:
        if stop.rewards and not trainer.model.training:
            return False  # no evaluation can be judged, and none of them matters
        training.append(call)
        return len(training) - 1 not in failing

    reward = ScriptedReward(judges)
    stop = StopWithCheckpoint(reward)
    trainer, weights = grpo(
        tiny, tmp_path_factory.mktemp("run"), reward, stop=stop, max_steps=RUN_STEPS,
        gradient_accumulation_steps=accumulated, steps_per_generation=generated,
        num_iterations=iterations, eval_strategy="steps" if evaluates else "no", eval_steps=1,
        per_device_eval_batch_size=FEWEST_COMPLETIONS,
    )  # fmt: skip
    with nullcontext() if expected[-1] else pytest.raises(JudgeError, match="in the last step"):
        trainer.train()
    assert weights.moved == expected
    progress = read_progress(trainer.state)
    assert progress.skipped == expected.count(False)
    completions = FEWEST_COMPLETIONS * generated  # of a generation
    assert progress.judged + progress.failed == completions * len(set(generations))
    assert progress.failed == completions * len(failing & set(generations))


@pytest.mark.parametrize("failing", [{0}, {1}])
def test_one_judged_round_of_a_refilled_batch_is_enough(
    tiny: Path, tmp_path: Path, failing: set[int]
) -> None:
    trainer, weights = grpo(
        tiny, tmp_path, ScriptedReward(lambda call: call not in failing), max_steps=1,
        dynamic_sampling=DynamicSampling(2, min_spread=1e9, refill=True),
    )  # fmt: skip
    trainer.train()
    assert weights.moved == [True]


def test_failures_of_an_evaluation_do_not_end_a_run(tiny: Path, tmp_path: Path) -> None:
    reward = ScriptedReward(lambda call: trainer.model.training, max_failed_calls=1)
    trainer, weights = grpo(
        tiny, tmp_path, reward, max_steps=2, eval_strategy="steps", eval_steps=1,
        eval_on_start=True, per_device_eval_batch_size=FEWEST_COMPLETIONS,
    )  # fmt: skip
    trainer.train()
    assert weights.moved == [True, True]


# Updates reach the weights.


def sft(tiny: Path, folder: Path, **changes: Any) -> Any:
    more = {name: changes.pop(name) for name in ("optimizers", "peft_config") if name in changes}
    model_dtype = changes.pop("dtype", "float32")
    args = SFTConfig(**{
        "output_dir": str(folder), "max_steps": 2, "per_device_train_batch_size": 2,
        "learning_rate": 1e-5, "use_cpu": True, "bf16": False, "report_to": "none",
        "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "max_length": None,
        "gradient_checkpointing": False, "model_init_kwargs": {"dtype": model_dtype}, **changes,
    })  # fmt: skip
    rows = Dataset.from_dict({"text": ["A man in a green coat sleeps.", "A dog runs."] * 8})
    return SFTTrainer(
        str(tiny), args=args, train_dataset=rows, processing_class=load_processor(str(tiny)),
        callbacks=[StopWithCheckpoint()], **more,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_weights_without_masters_are_not_trained(
    tiny: Path, tmp_path: Path, dtype: str
) -> None:
    with pytest.raises(ConfigError, match=r"16-bit weights.*dtype: float32"):
        sft(tiny, tmp_path, dtype=dtype).train()


def test_frozen_16_bit_weights_with_adapters_are(tiny: Path, tmp_path: Path) -> None:
    from peft import LoraConfig

    adapters = LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    trainer = sft(tiny, tmp_path, dtype="bfloat16", peft_config=adapters)
    trainer.train()
    assert read_progress(trainer.state).moved > 0.9


def test_trackers_see_it_too(tiny: Path, tmp_path: Path) -> None:
    class Tracker(TrainerCallback):  # type: ignore[misc]
        def on_log(self, *args: Any, logs: dict[str, Any], **kwargs: Any) -> None:
            seen.append(logs.get("weights_moved"))

    seen: list[float | None] = []
    trainer = sft(tiny, tmp_path)
    trainer.callback_handler.callbacks.insert(1, Tracker())  # where transformers adds W&B's
    log_before_trackers(trainer)
    trainer.train()
    assert [share is None for share in seen] == [False, False, True], "the last is a summary"


@pytest.mark.parametrize(
    "honest",
    [
        {},
        {"optim": "sgd", "learning_rate": 1e-2},
        {"optim": "adafactor"},
        {"warmup_steps": 1_000_000},  # the first learning rates are too small even for float32
        {"learning_rate": 1e-6, "gradient_accumulation_steps": 3},
    ],
    ids=str,
)
def test_an_honest_run_is_left_alone(tiny: Path, tmp_path: Path, honest: dict[str, Any]) -> None:
    trainer = sft(tiny, tmp_path, **honest)
    trainer.train()
    lines = [line["weights_moved"] for line in trainer.state.log_history if "loss" in line]
    assert len(lines) == 2
    assert lines[-1] > 0.9 or "warmup_steps" in honest


@pytest.mark.parametrize("adapters", [False, True])
def test_a_rate_too_small_for_float32_is_said(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, adapters: bool
) -> None:
    from peft import LoraConfig

    lora = LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    sft(tiny, tmp_path, learning_rate=1e-12, peft_config=lora if adapters else None).train()
    assert "learning rates, up to 1e-12, are too small for float32" in caplog.text


def test_the_last_steps_of_a_run_may_have_small_rates(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saves = {"save_strategy": "steps", "save_steps": 1, "warmup_steps": 0}
    sft(tiny, tmp_path, max_steps=2, **saves).train()
    decay = {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-15}}
    trainer = sft(tiny, tmp_path, max_steps=3, **saves, **decay)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert read_progress(trainer.state).highest_rate == 1e-5
    assert "too small for float32" not in caplog.text


def test_rows_of_an_embedding_that_no_text_uses_need_not_move(tiny: Path, tmp_path: Path) -> None:
    trainer = sft(tiny, tmp_path)
    for name, parameter in trainer.model.named_parameters():
        parameter.requires_grad = "embed_tokens" in name
    trainer.model.enable_input_require_grads()
    trainer.train()
    assert 0 < read_progress(trainer.state).moved < 0.5


def test_updates_that_do_not_reach_the_model_stop_the_run(tiny: Path, tmp_path: Path) -> None:
    trainer = sft(tiny, tmp_path, max_steps=5)
    create = trainer.create_optimizer

    def create_for_copies(*args: Any) -> Any:
        """An optimizer of other tensors, as after a wrapper that copies the model."""
        optimizer = create(*args)
        for group in optimizer.param_groups:
            group["params"] = [
                torch.nn.Parameter(each.detach().clone()) for each in group["params"]
            ]
        return optimizer

    trainer.create_optimizer = create_for_copies
    with pytest.raises(NothingLearnedError, match=r"do not reach the weights.* 0.0% moved.*step 1"):
        trainer.train()
    assert (tmp_path / "checkpoint-1").is_dir()


# There is something to train on.


def test_a_policy_whose_completions_are_all_cut_stops(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    masked = {"mask_truncated_completions": True, "max_completion_length": 1, "max_steps": 50}
    trainer, _ = grpo(tiny, tmp_path, ScriptedReward(lambda call: True), **masked)
    with pytest.raises(NothingLearnedError, match="all completions of the last 10 steps were cut"):
        trainer.train()
    assert "100 % of the completions are cut at max_completion_length and so not" in caplog.text
    assert trainer.state.global_step <= 11
    saved = json.loads(
        (tmp_path / f"checkpoint-{trainer.state.global_step}/trainer_state.json").read_text()
    )
    assert saved["stateful_callbacks"]["posh_reward"]["cut"] == 1


def test_a_run_without_any_gradient_is_no_success(tiny: Path, tmp_path: Path) -> None:
    trainer, _ = grpo(
        tiny, tmp_path, ScriptedReward(lambda call: True), max_steps=3, logging_strategy="no",
        mask_truncated_completions=True, max_completion_length=1,
    )  # fmt: skip
    with pytest.raises(NothingLearnedError, match="no step of this run had a gradient"):
        trainer.train()


def test_cut_completions_that_are_trained_on_are_only_warned_of(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, _ = grpo(tiny, tmp_path, ScriptedReward(lambda call: True), max_steps=12)
    trainer.train()
    assert "completions are cut at max_completion_length: raise it" in caplog.text


def test_the_progress_of_a_resumed_run_is_the_whole_runs(tiny: Path, tmp_path: Path) -> None:
    reward = ScriptedReward(lambda call: True)
    changes: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}
    trainer, _ = grpo(tiny, tmp_path, reward, max_steps=2, **changes)
    trainer.train()
    assert read_progress(trainer.state).judged == 2 * FEWEST_COMPLETIONS
    trainer, _ = grpo(tiny, tmp_path, reward, max_steps=4, **changes)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert read_progress(trainer.state).judged == 4 * FEWEST_COMPLETIONS
