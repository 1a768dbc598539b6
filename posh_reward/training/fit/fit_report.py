"""Print the memory estimate, with remedies where a phase does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from posh_reward.training.fit import memory
from posh_reward.training.fit.memory import ENGINE, GIB, GPU_GIB, Phase, phases
from posh_reward.training.fit.training_run import REFERENCE_TOKENS, UNCAPPED, TrainingRun


def report(run: TrainingRun) -> list[str]:
    """Return lines with each phase's memory, the machine's, the disk space, and remedies."""
    lines = [f"memory of each GPU, in GiB of {GPU_GIB:g}:"]
    for phase in phases(run):
        parts = ", ".join(f"{part.name} {part.gib:.1f}" for part in phase.parts)
        low, high = phase.bounds
        verdict = "fits" if high <= GPU_GIB else "fits if the estimate is right"
        verdict = verdict if phase.gib <= GPU_GIB else "DOES NOT FIT"
        lines.append(f"  {phase.name:<9}{low:.0f} to {high:.0f}  {verdict}  ({parts})")
    low, high = memory.machine_bounds(run)
    lines.append(f"memory of each machine: {low:.0f} to {high:.0f} GiB")
    lines.append(
        f"disk: {memory.disk_size(run):.0f} GB ({run.saves} checkpoints of "
        f"{memory.checkpoint_size(run):.1f} GB and the model)"
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
        f"  the ranges hold if everything below is at most {memory.UNSURE:.0%} smaller or larger",
        f"  80 GB are {GPU_GIB:g} GiB; the trainer's context and NCCL take {memory.CONTEXT}",
        f"  vLLM needs {ENGINE:g} GiB beyond weights and cache, and {memory.ASLEEP:g} while asleep",
        f"  on the GPU the parser takes {memory.PARSER} GiB and Maverick {memory.COREF}",
        f"  activations: each layer's input, one recomputed layer, {memory.SPARE - 1:.0%} "
        "fragmentation",
        f"  the head's backward pass is computed in tiles, in at most {memory.HEAD} GiB",
        f"  an image has max_pixels / 784 tokens ({UNCAPPED:,} without a cap); a reference has "
        f"{REFERENCE_TOKENS} at most",
        "  ZeRO: DeepSpeed's default bucket sizes; Adam and a copy of the parameters in float32",
        f"  a machine's memory: {memory.TRAINER:g} GiB per trainer, {memory.READER:g} for "
        f"Maverick, {memory.JUDGE:g} per judge plus its sleeping weights, each tensor rounded up "
        "to a power of two",
    ]
