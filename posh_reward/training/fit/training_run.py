"""The parameters of a training run that its memory depends on, read from checked settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from posh_reward.metrics.load_metric import metric_flags, read_metric
from posh_reward.metrics.posh.judges.load_judge import engine_settings
from posh_reward.models.prompt_images import TOKEN_PIXELS
from posh_reward.training.combinations import prompt_tokens
from posh_reward.training.fit.model_shapes import BYTES, ModelShape, Parameters, shape_of
from posh_reward.training.processes import Processes

UNCAPPED = 16384  # tokens of an image without max_pixels: Qwen2.5-VL's own cap
REFERENCE_TOKENS = 512  # of the longest references, for SFT
TOGETHER, QUESTION_TOKENS = 8, 120
"""A student's prompts that share a prefix, and the tokens of each after it: the question with the
release's guide has 85 on average."""


@dataclass(frozen=True, slots=True)
class JudgeOnGpu:
    """A language model on the trainer's GPU: the judge, or a witness of its own."""

    weights: float  # bytes
    cache: float  # bytes
    sleeps: bool
    asleep: float = 0.0  # bytes of the sleeping weights in the host's memory


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Settings of a run that determine its memory and disk space."""

    layout: Processes
    shape: ModelShape
    parameters: Parameters
    batch: int  # rows per forward pass
    generated: int  # completions that a process generates at a time; 0 in SFT
    image: int  # tokens of the largest image
    text: int  # tokens of prompt and completion, or of prompt and reference
    checkpointing: bool
    share: float | None  # of the GPU, for the policy's vLLM; None if it is elsewhere
    policy_sleeps: bool
    graders: Sequence[tuple[str, JudgeOnGpu]]  # role and size of each, if on the GPU
    parser: str
    coref: str
    saves: int  # most checkpoints on the disk at the same time
    saves_only_model: bool

    @property
    def length(self) -> int:
        """Tokens per row."""
        return self.image + self.text


def run_of(script: Any, args: Any, model: Any, layout: Processes) -> TrainingRun:
    """Build a ``TrainingRun`` from a recipe's settings.

    Raises:
        ConfigError: a model's shape is unknown.
    """
    from trl import get_peft_config

    shape = shape_of(model.model_name_or_path, get_peft_config(model))
    generates = hasattr(args, "num_generations")
    metric = read_metric(script.metric, **metric_flags(script)) if generates else {}
    colocated = generates and args.use_vllm and args.vllm_mode == "colocate"
    image = 0  # a student reads no images
    if hasattr(script, "max_pixels"):
        image = script.max_pixels // TOKEN_PIXELS if script.max_pixels else UNCAPPED
    return TrainingRun(
        layout=layout,
        shape=shape,
        parameters=parameters_of(shape, BYTES[model.dtype], layout),
        batch=args.per_device_train_batch_size,
        generated=args.per_device_train_batch_size * args.steps_per_generation if generates else 0,
        image=image,
        text=_text_tokens(script, args),
        checkpointing=bool(args.gradient_checkpointing),
        share=args.vllm_gpu_memory_utilization if colocated else None,
        policy_sleeps=bool(colocated and args.vllm_enable_sleep_mode),
        graders=[each for role in ("judge", "witness") for each in graders_of(metric, role)],
        parser=str(metric.get("parser", "embedded")),
        coref=str(metric.get("coref", "rules")),
        saves=saves_of(args),
        saves_only_model=bool(args.save_only_model),
    )


def _text_tokens(script: Any, args: Any) -> int:
    """Return the tokens of a row besides an image's; for a student, of its longest prompt tree."""
    if hasattr(script, "max_prompt_tokens"):
        return int(script.max_prompt_tokens) + (TOGETHER - 1) * QUESTION_TOKENS
    completion = getattr(args, "max_completion_length", REFERENCE_TOKENS)
    return prompt_tokens(script.prompt_text) + int(completion)


def parameters_of(shape: ModelShape, size: int, layout: Processes) -> Parameters:
    """Count trained and frozen parameters: all are trained, or only the adapters.

    peft makes adapters in float32; under ZeRO-3 TRL makes them in the model's dtype
    (grpo_trainer.py, ``autocast_adapter_dtype``).
    """
    if not shape.adapters:
        return Parameters(shape.parameters, size)
    adapter = size if layout.zero_stage == 3 else 4
    return Parameters(shape.adapters, adapter, shape.parameters, size)


def graders_of(metric: Mapping[str, Any], role: str) -> list[tuple[str, JudgeOnGpu]]:
    """Return the judges, or a witness of its own, on the GPU; those elsewhere are left out.

    Raises:
        ConfigError: its shape is unknown.
    """
    return [
        (user, _on_card(engine))
        for user, engine in engine_settings(metric.get(role), role)
        if engine["name"] in ("vllm", "transformers")
    ]


def _on_card(options: Mapping[str, Any]) -> JudgeOnGpu:
    shape = shape_of(options["model"])
    size = BYTES.get(options.get("dtype", "bfloat16"), 2)
    numbers = shape.pinned if options["name"] == "vllm" else shape.parameters
    return JudgeOnGpu(
        weights=shape.parameters * size,
        cache=float(options.get("memory_gb", 8.0)) * 2**30,
        sleeps=bool(options.get("sleep", True)),
        asleep=numbers * size,
    )


def saves_of(args: Any) -> int:
    """Count the checkpoints on the disk at most: old ones, and one being written."""
    strategy = str(getattr(args.save_strategy, "value", args.save_strategy))
    if strategy == "no":
        return 0
    if args.save_total_limit:
        return int(args.save_total_limit) + 1
    if strategy == "epoch":
        return max(ceil(float(args.num_train_epochs)), 1)  # the last epoch may be a partial one
    if args.save_steps < 1:  # a share of all steps
        return ceil(1 / float(args.save_steps))
    return int(max(args.max_steps / args.save_steps, 1)) if args.max_steps > 0 else 1
