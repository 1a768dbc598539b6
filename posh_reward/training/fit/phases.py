"""What is on one card while a step generates, judges and trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posh_reward.training.fit.run import JudgeOnCard, Run
from posh_reward.training.fit.states import states

GIB = 2**30
CARD = 79.0
"""GiB of a card that is sold as 80 GB."""
CONTEXT = 1.5
"""GiB of the trainer's CUDA context and NCCL's buffers."""
ASLEEP = 1.0
"""GiB that vLLM keeps on the card while it sleeps: its context and its graphs."""
ENGINE = 3.0
"""GiB that vLLM needs beyond weights and cache: context, graphs, activations."""
PARSER, COREF = 1.5, 3.0
"""GiB of en_core_web_trf and of Maverick, with their activations."""
HEAD = 2.0
"""GiB of the head's logits, which TRL computes in tiles (``add_fused_lm_head``)."""
SPARE = 1.1
"""Activations are this much more than their sum: memory comes in fragments."""
LIVE, BUCKET, SUBGROUP = 1e9, 5e8, 1e9
"""Parameters, by DeepSpeed's defaults for ZeRO-3: whole at a time (stage3_max_live_parameters), in
one reduction (reduce_bucket_size), in one part of the optimizer's step (sub_group_size)."""
KEPT_BY_VISION = 4
"""Patches behind one token of an image."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that takes memory."""

    name: str
    gib: float


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a step, with what is on the card during it."""

    name: str
    parts: Sequence[Part]

    @property
    def gib(self) -> float:
        """All of it."""
        return sum(part.gib for part in self.parts)


def phases(run: Run, card: float = CARD) -> list[Phase]:
    """The phases of a step; only training for SFT.

    Args:
        run: what runs.
        card: GiB of the card.
    """
    always = [Part("model state", states(run.parameters, run.there).on_card / GIB)]
    always.append(Part("CUDA and NCCL", CONTEXT))
    if not run.generated:
        return [Phase("train", [*always, *training(run)])]
    always += readers(run)
    judge, policy = judging(run), policies(run, card)
    asleep = [Part("policy's vLLM asleep", ASLEEP)] if run.policy_sleeps else policy
    resting = [
        part
        for name, each in run.graders
        for part in ([Part(f"{name} asleep", ASLEEP)] if each.sleeps else at_work(name, each))
    ]
    return [
        Phase("generate", [*always, *(policy or generating(run)), *resting]),
        Phase("judge", [*always, *asleep, *judge]),
        Phase("train", [*always, *asleep, *resting, *training(run)]),
    ]


def policies(run: Run, card: float) -> list[Part]:
    """The share of the card that the policy's vLLM takes."""
    return [] if run.share is None else [Part("policy's vLLM", run.share * card)]


def generating(run: Run) -> list[Part]:
    """Generation by the trainer's own model: its cache of keys and values, in its own type."""
    cache = run.generated * run.length * run.shape.cached * size_of(run)
    return [Part("cache of keys and values", cache / GIB)]


def judging(run: Run) -> list[Part]:
    """A judge and a witness on the card; both are awake while either is asked."""
    return [part for name, each in run.graders for part in at_work(name, each)]


def at_work(name: str, grader: JudgeOnCard) -> list[Part]:
    """What a judge or a witness takes while it is awake."""
    return [
        Part(f"{name}'s weights", grader.weights / GIB),
        Part(f"{name}'s cache (memory_gb)", grader.cache / GIB),
        Part(f"{name}'s vLLM", ENGINE),
    ]


def readers(run: Run) -> list[Part]:
    """The published parser and coreference, which stay on the card."""
    found = [Part(run.parser, PARSER)] if run.parser.endswith("_trf") else []
    return [*found, Part("maverick", COREF)] if run.coref == "maverick" else found


def training(run: Run) -> list[Part]:
    """Activations of a forward and backward pass, or the step after it, whichever is more."""
    passes = [*buffers(run), Part("activations", activations(run) * SPARE / GIB)]
    passes.append(Part("logits", HEAD))
    step = list(stepping(run))
    return max(passes, step, key=lambda parts: sum(part.gib for part in parts))


def activations(run: Run) -> float:
    """Bytes of what a backward pass needs.

    With checkpointing each layer's input is kept, and one layer is computed again at a time.
    """
    shape, size = run.shape, min(size_of(run), 2)
    tokens = run.batch * run.length
    patches = run.batch * run.image * KEPT_BY_VISION
    text_layer = tokens * (10 * shape.width + 4 * shape.inner) * size
    vision_layer = patches * 26 * shape.vision_width * size
    if not run.checkpointing:
        return shape.layers * text_layer + shape.vision_layers * vision_layer
    kept = shape.layers * tokens * shape.width + shape.vision_layers * patches * shape.vision_width
    return kept * size + max(text_layer, vision_layer)


def buffers(run: Run) -> Iterator[Part]:
    """What DeepSpeed, or DDP, holds besides the state."""
    size = size_of(run)
    if run.there.zero_stage == 3:
        whole = min(LIVE, run.shape.parameters)
        yield Part("parameters gathered by ZeRO-3", whole * size / GIB)
    bucket = min(BUCKET, run.parameters.trained)
    if run.there.zero_stage:
        yield Part("gradients in reduction", 2 * bucket * size / GIB)
    elif run.there.processes > 1:
        yield Part("gradients in reduction", run.parameters.trained * size / GIB)


def stepping(run: Run) -> Iterator[Part]:
    """The optimizer's step: DeepSpeed turns a group's gradients to single precision."""
    if run.there.zero_stage:
        group = min(SUBGROUP, run.parameters.trained / run.there.processes)
        yield Part("gradients in single precision", 4 * group / GIB)


def size_of(run: Run) -> int:
    """Bytes of one of the model's numbers."""
    model = run.parameters
    return model.frozen_bytes if model.frozen else model.trained_bytes
