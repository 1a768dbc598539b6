"""The arithmetic as text, with what to change where a phase does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from posh_reward.training.fit import host
from posh_reward.training.fit.phases import (
    ASLEEP,
    CARD,
    CONTEXT,
    COREF,
    ENGINE,
    GIB,
    HEAD,
    PARSER,
    SPARE,
    Phase,
    phases,
)
from posh_reward.training.fit.run import REFERENCE_TOKENS, UNCAPPED, Run


def report(run: Run, card: float = CARD) -> list[str]:
    """Lines that say how much memory each phase takes, whether it fits, and what is assumed."""
    found = phases(run, card)
    lines = [f"memory of each card, in GiB of {card:g}:"]
    for phase in found:
        parts = ", ".join(f"{part.name} {part.gib:.1f}" for part in phase.parts)
        fits = "fits" if phase.gib <= card else "DOES NOT FIT"
        lines.append(f"  {phase.name:<9}{phase.gib:5.1f}  {fits}  ({parts})")
    lines.append(f"memory of each machine: {host.memory(run):.0f} GiB")
    lines.append(
        f"disk: {host.disk(run):.0f} GB ({run.saves} checkpoints of {host.checkpoint(run):.1f} GB "
        "and the model)"
    )
    advice = list(remedies(run, card))
    if advice:
        lines.append("to change:")
        lines += [f"  - {line}" for line in advice]
    return lines


def fits(run: Run, card: float = CARD) -> bool:
    """Whether every phase fits on the card, and vLLM into its share."""
    return not list(remedies(run, card))


def remedies(run: Run, card: float) -> Iterator[str]:
    """What to change, for each thing that does not fit."""
    for phase in phases(run, card):
        if phase.gib > card:
            excess = phase.gib - card
            options = {"generate": _generate, "judge": _judge, "train": _train}[phase.name]
            ways = "; or ".join(options(run, phase, card))
            yield f"{phase.name} is {excess:.1f} GiB over: {ways}"
    needed = least_share(run, card)
    if run.share is not None and run.share < needed:
        yield (
            f"the policy's vLLM has {run.share * card:.1f} GiB, too few for its weights and one "
            f"round of replies: set vllm_gpu_memory_utilization to {needed:.2f} or more"
        )


def least_share(run: Run, card: float) -> float:
    """The part of the card that vLLM needs: weights, all replies at once, and the engine."""
    size = 2
    cache = run.generated * run.length * run.shape.cached * size
    return (run.shape.parameters * size / GIB + min(cache / GIB, 4.0) + ENGINE) / card


def _generate(run: Run, phase: Phase, card: float) -> Iterator[str]:
    if run.share is not None:
        left = run.share - (phase.gib - card) / card
        if left >= least_share(run, card):
            yield f"set vllm_gpu_memory_utilization to {left:.2f} or less"
    elif run.generated:
        yield "generate fewer at a time (per_device_train_batch_size, or steps_per_generation)"
    yield from _sleep(run)
    yield from _spread(run)


def _judge(run: Run, phase: Phase, card: float) -> Iterator[str]:
    if run.share is not None and not run.policy_sleeps:
        yield "let the policy's vLLM sleep meanwhile (vllm_enable_sleep_mode: true)"
    for name, grader in run.graders:
        left = grader.cache / GIB - (phase.gib - card)
        if left >= 2:
            yield f"set the {name}'s memory_gb to {left:.0f} or less"
        yield f"put the {name} on a node of its own (configs/judge/node.yaml)"
    if run.judge is not None and run.witness is not None:
        yield "let one model that sees be both (witness: judge)"
    yield from _spread(run)


def _sleep(run: Run) -> Iterator[str]:
    for name, grader in run.graders:
        if not grader.sleeps:
            yield f"let the {name} sleep between batches (sleep: true)"


def _train(run: Run, phase: Phase, card: float) -> Iterator[str]:
    if run.batch > 1:
        yield "halve per_device_train_batch_size and double gradient_accumulation_steps"
    if not run.checkpointing:
        yield "set gradient_checkpointing: true"
    if run.image > 1280:
        yield "lower max_pixels (1003520 are 1,280 tokens)"
    yield from _sleep(run)
    yield from _spread(run)


def _spread(run: Run) -> Iterator[str]:
    """Less of the model's state on each card."""
    if run.there.zero_stage < 3 and run.there.processes > 1:
        yield "spread the state over the cards (configs/accelerate/zero3_8gpu.yaml)"
    if run.parameters.frozen == 0:
        yield "train adapters only (use_peft: true)"


def assumptions(card: float = CARD) -> list[str]:
    """What the arithmetic takes for granted."""
    return [
        "assumed, not measured on a card:",
        f"  a card of 80 GB has {card:g} GiB; the trainer's CUDA context and NCCL take {CONTEXT}",
        f"  vLLM needs {ENGINE} GiB beyond weights and cache, and keeps {ASLEEP} while it sleeps",
        f"  on the card the parser takes {PARSER} GiB and Maverick {COREF}",
        f"  activations: each layer's input, one layer computed again, {SPARE - 1:.0%} fragments",
        f"  the head's logits are computed in tiles, in at most {HEAD} GiB",
        f"  an image has max_pixels / 784 tokens ({UNCAPPED:,} without a cap); a reference has "
        f"{REFERENCE_TOKENS} at most",
        "  ZeRO: DeepSpeed's default bucket sizes; Adam and a copy of the parameters in float32",
        f"  a machine's memory: {host.PROCESS:g} GiB a trainer, {host.ENGINE:g} and the sleeping "
        f"weights a judge, {host.READER:g} for Maverick",
    ]
