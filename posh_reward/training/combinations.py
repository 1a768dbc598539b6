"""Combinations of settings that would stop a run after loading its weights, or spoil it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import fields
from typing import Any

from posh_reward.datasets.load_dataset import PROMPT
from posh_reward.errors import PoshError
from posh_reward.models.prompt_images import TOKEN_PIXELS
from posh_reward.reward.objectives import settle_aggregation
from posh_reward.reward.shaping import Shaping
from posh_reward.reward.trl import FailureLimit
from posh_reward.training.dapo.credit import check_settings
from posh_reward.training.dapo.sampling import DynamicSampling, check_groups
from posh_reward.training.processes import Processes

PROMPT_TOKENS = 64  # upper bound for the paper's prompt in Qwen's chat format, without the image


def prompt_tokens(text: str) -> int:
    """Return an upper bound for a prompt's tokens: one per two characters beyond the paper's."""
    return PROMPT_TOKENS + max(0, len(text) - len(PROMPT)) // 2


def refusals(script: Any, args: Any, layout: Processes) -> list[str]:
    """List the reasons why a run would stop after loading its weights."""
    return [
        *_saving(args, layout),
        *_best(script, args),
        *_lengths(script, args),
        *_reward(script, args),
    ]


def _saving(args: Any, layout: Processes) -> Iterator[str]:
    # transformers/trainer.py, Trainer.__init__: "can't be used with `save_only_model` along with"
    if layout.zero_stage and args.save_only_model and args.load_best_model_at_end:
        yield (
            "save_only_model and load_best_model_at_end exclude each other under DeepSpeed: remove "
            "load_best_model_at_end; the recipe names the best checkpoint at the end"
        )
    if layout.zero_stage == 3 and args.auto_find_batch_size:
        yield "auto_find_batch_size does not work with ZeRO-3: set per_device_train_batch_size"
    if not layout.gathers_on_save:
        yield (
            "under ZeRO-3 the trained model could not be saved as a whole: set "
            "zero3_save_16bit_model: true in accelerate's deepspeed_config"
        )


def _best(script: Any, args: Any) -> Iterator[str]:
    """Check that the metric that selects a checkpoint is evaluated."""
    figure = args.metric_for_best_model
    if figure is None:
        return
    if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no":
        yield f"metric_for_best_model is {figure!r}, but nothing is evaluated: set eval_strategy"
        return
    name = figure if figure.startswith("eval_") else f"eval_{figure}"
    if not name.endswith("loss"):
        return
    grounded = getattr(script, "watch_grounding", False)
    evaluated = ("eval_right_loss", "eval_shuffled_loss") if grounded else ("eval_loss",)
    if name not in evaluated:
        yield (
            f"metric_for_best_model is {figure!r}, but "
            f"{'with' if grounded else 'without'} watch_grounding there is "
            f"{' and '.join(evaluated)}"
        )


def _lengths(script: Any, args: Any) -> Iterator[str]:
    """Check that no image tokens are cut off, and that prompt and reply fit into vLLM."""
    if getattr(args, "max_length", None) is not None:
        yield f"max_length is {args.max_length}: an image's tokens would be cut off; set null"
    limit = getattr(args, "vllm_max_model_length", None)
    if not getattr(args, "use_vllm", False) or limit is None or script.max_pixels is None:
        return
    image = script.max_pixels // TOKEN_PIXELS
    text = prompt_tokens(script.prompt_text)
    needed = image + text + args.max_completion_length
    if needed > limit:
        yield (
            f"vllm_max_model_length is {limit}, but a prompt has up to {image} tokens of an image "
            f"(max_pixels) and {text} of text, and a reply {args.max_completion_length} "
            f"(max_completion_length): set it to {needed} or more"
        )


def _reward(script: Any, args: Any) -> Iterator[str]:
    """Yield the errors that the reward, dynamic sampling and span credit would raise."""
    if not hasattr(script, "objective"):
        return

    def check_sampling() -> None:
        if script.oversample != 1:
            DynamicSampling(script.oversample, script.min_spread, script.refill)
            check_groups(args, args.num_generations)

    for check in (
        lambda: settle_aggregation(copy(args), shaping_of(script)),
        check_sampling,
        lambda: check_settings(script.span_credit, args),
        lambda: FailureLimit(script.max_failed_calls),
    ):
        try:
            check()
        except PoshError as error:
            yield str(error)


def shaping_of(script: Any) -> Shaping:
    """Make the shaping from a recipe's settings, which have the same names."""
    return Shaping(**{each.name: getattr(script, each.name) for each in fields(Shaping)})


def remarks(script: Any, args: Any, layout: Processes) -> list[str]:
    """Warnings: valid but probably unintended settings."""
    lines: list[str] = []
    if getattr(args, "use_vllm", False):
        if args.top_p < 1 and args.vllm_importance_sampling_correction:
            lines.append(
                "top_p is below 1 and vllm_importance_sampling_correction is on: the loss of long "
                "descriptions shrinks towards 0 (huggingface/trl#6789); set it to false"
            )
        if script.max_pixels is None:
            lines.append("max_pixels is not set: a museum photograph costs thousands of tokens")
    if hasattr(args, "epsilon") and is_on_policy(args):
        lines.append(
            "epsilon and epsilon_high have no effect: each batch updates the weights that "
            "generated it, so no probability has changed (num_iterations above 1, or "
            "steps_per_generation above gradient_accumulation_steps, would change that)"
        )
    if layout.processes > 1 and not layout.zero_stage:
        lines.append("every process has the whole model and its optimizer: no DeepSpeed")
    return lines


def is_on_policy(args: Any) -> bool:
    """Return True if each batch of generations is one optimizer step, so that ratios are exactly 1.

    TRL 1.16, grpo_trainer.py: without ``old_per_token_logps`` the ratio is of the log-probabilities
    to themselves, detached.
    """
    corrected = args.use_vllm and args.vllm_importance_sampling_correction
    generated = args.steps_per_generation * args.num_iterations
    return not corrected and args.gradient_accumulation_steps % generated == 0
