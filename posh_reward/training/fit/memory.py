"""Memory of a card in each phase of a step, of a machine, and of the disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posh_reward.training.fit.model_shapes import MASTER, MOMENTS, model_state
from posh_reward.training.fit.training_run import JudgeOnCard, TrainingRun

GIB, GB = 2**30, 1e9  # memory is counted in powers of two, disks in powers of ten
CARD = 79.0  # GiB of a card that is sold as 80 GB
CONTEXT = 1.5  # GiB of the trainer's CUDA context and NCCL's buffers
COUNTERS = 0.6
"""GiB of vLLM's penalty counters: one int32 for each of 1,024 requests and 152,064 tokens."""
ASLEEP = 1.6 + COUNTERS
"""GiB that vLLM keeps on the card asleep: its context, part of its CUDA graphs, counters."""
ENGINE = 3.0 + COUNTERS
"""GiB that vLLM needs beyond weights and cache: context, graphs, activations, counters."""
PARSER, COREF = 1.5, 3.0  # GiB of en_core_web_trf and of Maverick, with their activations
HEAD = 4.2  # GiB of the head's backward pass, which TRL computes in tiles (add_fused_lm_head)
SPARE = 1.1  # activations are this much more than their sum: memory comes in fragments
LIVE, BUCKET, SUBGROUP = 1e9, 5e8, 1e9
"""Parameters, by DeepSpeed's defaults for ZeRO-3: whole at a time (stage3_max_live_parameters), in
one reduction (reduce_bucket_size), in one part of the optimizer's step (sub_group_size)."""
PATCHES = 4  # of the vision tower, behind one token of an image
TRAINER, SLEEPER, READER = 12.0, 4.0, 3.0
"""GiB of the host's memory: a trainer with two workers that decode images; the process of an
engine, besides its sleeping weights; Maverick's process."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Something that takes memory."""

    name: str
    gib: float


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a step, with what is on the card during it."""

    name: str
    parts: Sequence[MemoryPart]

    @property
    def gib(self) -> float:
        """All of it."""
        return sum(part.gib for part in self.parts)


def phases(run: TrainingRun, card: float = CARD) -> list[Phase]:
    """Return the phases of a step on a card of ``card`` GiB; for SFT only training."""
    # On the card in all phases: model state, context, parser. An engine is there awake or asleep.
    always = [MemoryPart("model state", model_state(run.parameters, run.there).on_card / GIB)]
    always.append(MemoryPart("CUDA and NCCL", CONTEXT))
    if not run.generated:
        return [Phase("train", [*always, *training(run)])]
    always += readers(run)
    judge, policy = judging(run), policies(run, card)
    asleep = [MemoryPart("policy's vLLM asleep", ASLEEP)] if run.policy_sleeps else policy
    resting = [
        part
        for name, each in run.graders
        for part in ([MemoryPart(f"{name} asleep", ASLEEP)] if each.sleeps else at_work(name, each))
    ]
    return [
        Phase("generate", [*always, *(policy or generating(run)), *resting]),
        Phase("judge", [*always, *asleep, *judge]),
        Phase("train", [*always, *asleep, *resting, *training(run)]),
    ]


def policies(run: TrainingRun, card: float) -> list[MemoryPart]:
    """The share of the card that the policy's vLLM takes."""
    return [] if run.share is None else [MemoryPart("policy's vLLM", run.share * card)]


def generating(run: TrainingRun) -> list[MemoryPart]:
    """Generation by the trainer's own model: its cache of keys and values, in its own type."""
    cache = run.generated * run.length * run.shape.cached * size_of(run)
    return [MemoryPart("cache of keys and values", cache / GIB)]


def judging(run: TrainingRun) -> list[MemoryPart]:
    """A judge and a witness on the card; both are awake while either is asked."""
    return [part for name, each in run.graders for part in at_work(name, each)]


def at_work(name: str, grader: JudgeOnCard) -> list[MemoryPart]:
    """Memory of a judge or a witness that is awake."""
    return [
        MemoryPart(f"{name}'s weights", grader.weights / GIB),
        MemoryPart(f"{name}'s cache (memory_gb)", grader.cache / GIB),
        MemoryPart(f"{name}'s vLLM", ENGINE),
    ]


def readers(run: TrainingRun) -> list[MemoryPart]:
    """The published parser and coreference, which stay on the card."""
    parts = [MemoryPart(run.parser, PARSER)] if run.parser.endswith("_trf") else []
    return [*parts, MemoryPart("maverick", COREF)] if run.coref == "maverick" else parts


def training(run: TrainingRun) -> list[MemoryPart]:
    """Activations of a forward and backward pass, or the step after it, whichever is more."""
    passes = [*buffers(run), MemoryPart("activations", activations(run) * SPARE / GIB)]
    passes.append(MemoryPart("logits", HEAD))
    step = list(stepping(run))
    return max(passes, step, key=lambda parts: sum(part.gib for part in parts))


def activations(run: TrainingRun) -> float:
    """Bytes that a backward pass needs; with checkpointing one layer is recomputed at a time."""
    shape, size = run.shape, min(size_of(run), 2)
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


def buffers(run: TrainingRun) -> Iterator[MemoryPart]:
    """Memory that DeepSpeed, or DDP, holds besides the state."""
    size = size_of(run)
    if run.there.zero_stage == 3:
        whole = min(LIVE, run.shape.parameters)
        yield MemoryPart("parameters gathered by ZeRO-3", whole * size / GIB)
    bucket = min(BUCKET, run.parameters.trained)
    if run.there.zero_stage:
        yield MemoryPart("gradients in reduction", 2 * bucket * size / GIB)
    elif run.there.processes > 1:
        yield MemoryPart("gradients in reduction", run.parameters.trained * size / GIB)


def stepping(run: TrainingRun) -> Iterator[MemoryPart]:
    """The optimizer's step: DeepSpeed turns a group's gradients to single precision."""
    if run.there.zero_stage:
        group = min(SUBGROUP, run.parameters.trained / run.there.processes)
        yield MemoryPart("gradients in single precision", 4 * group / GIB)


def size_of(run: TrainingRun) -> int:
    """Bytes of one of the model's numbers."""
    model = run.parameters
    return model.frozen_bytes if model.frozen else model.trained_bytes


def machine_memory(run: TrainingRun) -> float:
    """GiB that a machine needs at most: sleeping judges, offloaded states, a model being saved."""
    each = TRAINER + model_state(run.parameters, run.there).on_host / GIB
    for _, grader in run.graders:
        each += SLEEPER + (grader.asleep / GIB if grader.sleeps else 0.0)
    if run.coref == "maverick":
        each += READER
    return each * run.there.on_one_machine + run.shape.parameters * 2 / GIB


def checkpoint_size(run: TrainingRun) -> float:
    """GB of one checkpoint."""
    model = run.parameters
    weights = model.trained * model.trained_bytes
    if run.saves_only_model:
        return weights / GB
    if not run.there.zero_stage:
        return (weights + 2 * model.trained * model.trained_bytes) / GB
    # DeepSpeed's own files, and the model for others to load
    return (model.trained * (MASTER + MOMENTS + model.trained_bytes) + weights) / GB


def disk_size(run: TrainingRun) -> float:
    """GB of all checkpoints, and of the model at the end."""
    model = run.parameters
    return run.saves * checkpoint_size(run) + model.trained * model.trained_bytes / GB
