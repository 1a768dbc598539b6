"""Memory of a GPU in each phase of a step and of a machine, and disk space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posh_reward.training.fit.model_shapes import MASTER, MOMENTS, model_state
from posh_reward.training.fit.training_run import (
    REFERENCE_TOKENS,
    UNCAPPED,
    JudgeOnGpu,
    TrainingRun,
)

GIB, GB = 2**30, 1e9  # memory is counted in powers of two, disks in powers of ten
GPU_GIB = 79.0  # GiB of a GPU that is sold as 80 GB
CONTEXT = 1.5  # GiB of the trainer's CUDA context and NCCL's buffers
COUNTERS = 0.6
"""GiB of vLLM's penalty counters: one int32 for each of 1,024 requests and 152,064 tokens."""
ASLEEP = 1.6 + COUNTERS
"""GiB that a sleeping vLLM keeps on the GPU: context, part of its CUDA graphs, counters."""
ENGINE = 3.0 + COUNTERS
"""GiB that vLLM needs beyond weights and cache: context, graphs, activations, counters."""
PARSER, COREF = 1.5, 3.0  # GiB of en_core_web_trf and of Maverick, with their activations
HEAD = 4.2  # GiB of the head's backward pass, which TRL computes in tiles (add_fused_lm_head)
SPARE = 1.1  # factor on activations for memory fragmentation
LIVE, BUCKET, SUBGROUP = 1e9, 5e8, 1e9
"""Parameters, by DeepSpeed's defaults for ZeRO-3: gathered at a time (stage3_max_live_parameters),
in one reduction (reduce_bucket_size), in one part of the optimizer's step (sub_group_size)."""
UNSURE = 0.3
"""Share by which an assumed part may be off. Nothing was measured on a GPU yet."""
PATCHES = 4  # of the vision tower, per image token
TRAINER, JUDGE, READER = 12.0, 4.0, 3.0
"""GiB of the host's memory: a trainer with two workers that decode images; an engine's process,
without its sleeping weights; Maverick's process."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A named share of a GPU's memory."""

    name: str
    gib: float
    exact: bool = False  # by arithmetic or by a setting, not assumed


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a step, with the contents of the GPU's memory."""

    name: str
    parts: Sequence[MemoryPart]

    @property
    def gib(self) -> float:
        """Sum of all parts."""
        return sum(part.gib for part in self.parts)

    @property
    def bounds(self) -> tuple[float, float]:
        """The sum if all assumed parts are ``UNSURE`` smaller, or larger."""
        margin = UNSURE * sum(part.gib for part in self.parts if not part.exact)
        return self.gib - margin, self.gib + margin


def phases(run: TrainingRun) -> list[Phase]:
    """Return the phases of a step on a GPU of ``GPU_GIB`` GiB; for SFT only training."""
    state = model_state(run.parameters, run.layout).on_gpu / GIB
    always = [MemoryPart("model state", state, exact=True)]
    always.append(MemoryPart("CUDA and NCCL", CONTEXT))
    if not run.generated:
        return [Phase("train", [*always, *_training(run)])]
    if run.parser.endswith("_trf"):
        always.append(MemoryPart(run.parser, PARSER))
    if run.coref == "maverick":
        always.append(MemoryPart("maverick", COREF))
    # An engine is on the GPU in every phase, awake or asleep. Judge and witness are both awake
    # while either is asked.
    judge = [part for name, grader in run.graders for part in _awake(name, grader)]
    resting = [part for name, grader in run.graders for part in _resting(name, grader)]
    if run.share is None:  # the trainer's own model generates, with a cache in its own type
        policy: list[MemoryPart] = []
        cache = run.generated * run.length * run.shape.cached * _number_size(run)
        generating = [MemoryPart("cache of keys and values", cache / GIB, exact=True)]
    else:
        policy = generating = [MemoryPart("policy's vLLM", run.share * GPU_GIB, exact=True)]
    if run.policy_sleeps:
        policy = [MemoryPart("policy's vLLM asleep", ASLEEP)]
    return [
        Phase("generate", [*always, *generating, *resting]),
        Phase("judge", [*always, *policy, *judge]),
        Phase("train", [*always, *policy, *resting, *_training(run)]),
    ]


def _awake(name: str, grader: JudgeOnGpu) -> list[MemoryPart]:
    return [
        MemoryPart(f"{name}'s weights", grader.weights / GIB, exact=True),
        MemoryPart(f"{name}'s cache (memory_gb)", grader.cache / GIB, exact=True),
        MemoryPart(f"{name}'s vLLM", ENGINE),
    ]


def _resting(name: str, grader: JudgeOnGpu) -> list[MemoryPart]:
    return [MemoryPart(f"{name} asleep", ASLEEP)] if grader.sleeps else _awake(name, grader)


def _training(run: TrainingRun) -> list[MemoryPart]:
    """Return a forward and backward pass, or the optimizer's step, whichever takes more."""
    passes = [*_buffers(run), MemoryPart("activations", activations(run) * SPARE / GIB)]
    passes.append(MemoryPart("logits", HEAD))
    step: list[MemoryPart] = []
    if run.layout.zero_stage:  # DeepSpeed converts a group's gradients to single precision
        group = min(SUBGROUP, run.parameters.trained / run.layout.processes)
        step = [MemoryPart("gradients in single precision", 4 * group / GIB)]
    return max(passes, step, key=lambda parts: sum(part.gib for part in parts))


def activations(run: TrainingRun) -> float:
    """Return the bytes of a backward pass; checkpointing recomputes one layer at a time."""
    shape, size = run.shape, min(_number_size(run), 2)
    tokens = run.batch * run.length
    patches = run.batch * run.image * PATCHES
    text_layer = tokens * (10 * shape.width + 4 * shape.inner) * size
    vision_layer = patches * 26 * shape.vision_width * size
    if not run.checkpointing:
        return shape.layers * text_layer + shape.vision_layers * vision_layer
    states = (
        shape.layers * tokens * shape.width + shape.vision_layers * patches * shape.vision_width
    )
    return states * size + max(text_layer, vision_layer)


def _buffers(run: TrainingRun) -> Iterator[MemoryPart]:
    """Yield what DeepSpeed, or DDP, needs besides the model's state."""
    size = _number_size(run)
    if run.layout.zero_stage == 3:
        whole = min(LIVE, run.shape.parameters)
        yield MemoryPart("parameters gathered by ZeRO-3", whole * size / GIB)
    bucket = min(BUCKET, run.parameters.trained)
    if run.layout.zero_stage:
        yield MemoryPart("gradients in reduction", 2 * bucket * size / GIB)
    elif run.layout.processes > 1:
        yield MemoryPart("gradients in reduction", run.parameters.trained * size / GIB)


def _number_size(run: TrainingRun) -> int:
    model = run.parameters
    return model.frozen_bytes if model.frozen else model.trained_bytes


def machine_memory(run: TrainingRun) -> float:
    """Return a machine's peak GiB: sleeping judges, offloaded states, a model being saved."""
    each = model_state(run.parameters, run.layout).on_host / GIB
    each += sum(grader.asleep / GIB for _, grader in run.graders if grader.sleeps)
    exact = each * run.layout.on_one_machine + run.shape.parameters * 2 / GIB
    return exact + _processes(run)


def machine_bounds(run: TrainingRun) -> tuple[float, float]:
    """Return ``machine_memory`` if its processes take ``UNSURE`` less, or more."""
    peak, margin = machine_memory(run), UNSURE * _processes(run)
    return peak - margin, peak + margin


def _processes(run: TrainingRun) -> float:
    """Return the assumed GiB of a machine's processes, without sleeping weights."""
    each = TRAINER + JUDGE * len(run.graders) + (READER if run.coref == "maverick" else 0.0)
    return each * run.layout.on_one_machine


def checkpoint_size(run: TrainingRun) -> float:
    """Return the GB of one checkpoint."""
    model = run.parameters
    weights = model.trained * model.trained_bytes
    if run.saves_only_model:
        return weights / GB
    if not run.layout.zero_stage:
        return (weights + 2 * model.trained * model.trained_bytes) / GB
    # DeepSpeed's own files, and the model in the usual format
    return (model.trained * (MASTER + MOMENTS + model.trained_bytes) + weights) / GB


def disk_size(run: TrainingRun) -> float:
    """Return the GB of all checkpoints and of the final model."""
    model = run.parameters
    return run.saves * checkpoint_size(run) + model.trained * model.trained_bytes / GB


def report(run: TrainingRun) -> list[str]:
    """Return lines with each phase's memory, the machine's, the disk space, and remedies."""
    lines = [f"memory of each GPU, in GiB of {GPU_GIB:g}:"]
    for phase in phases(run):
        parts = ", ".join(f"{part.name} {part.gib:.1f}" for part in phase.parts)
        low, high = phase.bounds
        verdict = "fits" if high <= GPU_GIB else "fits if the estimate is right"
        verdict = verdict if phase.gib <= GPU_GIB else "DOES NOT FIT"
        lines.append(f"  {phase.name:<9}{low:.0f} to {high:.0f}  {verdict}  ({parts})")
    low, high = machine_bounds(run)
    lines.append(f"memory of each machine: {low:.0f} to {high:.0f} GiB")
    lines.append(
        f"disk: {disk_size(run):.0f} GB ({run.saves} checkpoints of "
        f"{checkpoint_size(run):.1f} GB and the model)"
    )
    advice = [f"  - {line}" for line in _remedies(run)]
    if advice:
        lines += ["to change:", *advice]
    return lines


def fits(run: TrainingRun) -> bool:
    """Return True if every phase fits on the GPU, and vLLM into its share."""
    return not list(_remedies(run))


def _remedies(run: TrainingRun) -> Iterator[str]:
    for phase in phases(run):
        if phase.gib > GPU_GIB:
            excess = phase.gib - GPU_GIB
            options = {"generate": _generate, "judge": _judge, "train": _train}[phase.name]
            ways = "; or ".join(options(run, phase))
            yield f"{phase.name} is {excess:.1f} GiB over: {ways}"
    needed = _least_share(run)
    if run.share is not None and run.share < needed:
        yield (
            f"the policy's vLLM has {run.share * GPU_GIB:.1f} GiB, too few for its weights and one "
            f"round of replies: set vllm_gpu_memory_utilization to {needed:.2f} or more"
        )


def _least_share(run: TrainingRun) -> float:
    """Return the share of the GPU that vLLM needs: weights, up to 4 GiB of cache, the engine."""
    size = 2
    cache = run.generated * run.length * run.shape.cached * size
    return (run.shape.parameters * size / GIB + min(cache / GIB, 4.0) + ENGINE) / GPU_GIB


def _generate(run: TrainingRun, phase: Phase) -> Iterator[str]:
    if run.share is not None:
        left = run.share - (phase.gib - GPU_GIB) / GPU_GIB
        if left >= _least_share(run):
            yield f"set vllm_gpu_memory_utilization to {left:.2f} or less"
    else:
        yield "generate fewer at a time (per_device_train_batch_size, or steps_per_generation)"
    yield from _sleep(run)
    yield from _spread(run)


def _judge(run: TrainingRun, phase: Phase) -> Iterator[str]:
    if run.share is not None and not run.policy_sleeps:
        yield "let the policy's vLLM sleep while judging (vllm_enable_sleep_mode: true)"
    for name, grader in run.graders:
        left = grader.cache / GIB - (phase.gib - GPU_GIB)
        if left >= 2:
            yield f"set the {name}'s memory_gb to {left:.0f} or less"
        yield f"put the {name} on a node of its own (configs/judge/node.yaml)"
    if {"judge", "witness"} <= {name for name, _ in run.graders}:
        yield "use one vision-language model as both (witness: judge)"
    yield from _spread(run)


def _sleep(run: TrainingRun) -> Iterator[str]:
    for name, grader in run.graders:
        if not grader.sleeps:
            yield f"let the {name} sleep between batches (sleep: true)"


def _train(run: TrainingRun, phase: Phase) -> Iterator[str]:
    if run.batch > 1:
        yield "halve per_device_train_batch_size and double gradient_accumulation_steps"
    if not run.checkpointing:
        yield "set gradient_checkpointing: true"
    if run.image > 1280:
        yield "lower max_pixels (1003520 are 1,280 tokens)"
    yield from _sleep(run)
    yield from _spread(run)


def _spread(run: TrainingRun) -> Iterator[str]:
    if run.layout.zero_stage < 3 and run.layout.processes > 1:
        yield "shard the model over the GPUs (configs/accelerate/zero3_8gpu.yaml)"
    if run.parameters.frozen == 0:
        yield "train adapters only (use_peft: true)"


def assumptions() -> list[str]:
    """Return the constants behind the estimate."""
    return [
        "assumed, not measured on a GPU:",
        f"  the ranges hold if everything below is at most {UNSURE:.0%} smaller or larger",
        f"  80 GB are {GPU_GIB:g} GiB; the trainer's context and NCCL take {CONTEXT}",
        f"  vLLM needs {ENGINE:g} GiB beyond weights and cache, and {ASLEEP:g} while asleep",
        f"  on the GPU the parser takes {PARSER} GiB and Maverick {COREF}",
        f"  activations: each layer's input, one recomputed layer, {SPARE - 1:.0%} fragmentation",
        f"  the head's backward pass is computed in tiles, in at most {HEAD} GiB",
        f"  an image has max_pixels / 784 tokens ({UNCAPPED:,} without a cap); a reference has "
        f"{REFERENCE_TOKENS} at most",
        "  ZeRO: DeepSpeed's default bucket sizes; Adam and a copy of the parameters in float32",
        f"  a machine's memory: {TRAINER:g} GiB per trainer, {READER:g} for "
        f"Maverick, {JUDGE:g} per judge plus its sleeping weights, each tensor rounded up "
        "to a power of two",
    ]
