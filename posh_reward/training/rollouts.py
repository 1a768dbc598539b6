"""Sees to it that vLLM generates from the very prompts that TRL trains on.

Two defects of TRL 1.16 with pictures, both silent, are put right here:

- It hands vLLM token ids in which each picture's placeholder is already expanded, *and* the
  picture, and vLLM expands the first placeholder again (huggingface/trl#6294, #6401). So each run
  of placeholders is collapsed to one first.
- After the weights are synchronised vLLM's encoder cache is kept, so a picture that comes up again
  is seen through old weights (huggingface/trl#7198). So the cache is reset.

Neither is taken on trust: the prompt ids that vLLM says it used are compared with the trainer's
at every step, and a run whose prompts differ is stopped. A TRL that collapses the placeholders
itself, or that wants them expanded, goes on working.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from posh_reward.errors import PoshError

if TYPE_CHECKING:
    from trl import GRPOTrainer

Ids = list[int]
Generate = Callable[..., tuple[Any, ...]]


class PromptMismatchError(PoshError, RuntimeError):
    """vLLM generated from other prompts than the trainer would train on."""


def check_rollouts(trainer: GRPOTrainer) -> None:
    """Corrects and checks the prompts of a trainer that generates with vLLM; others are left alone.

    To be called once, before ``trainer.train``. Pictures must have been settled
    (``training.pictures``), or the trainer's processor and vLLM's may count different tokens.
    """
    generation = getattr(trainer, "vllm_generation", None)
    if generation is None:
        return
    pads = placeholder_ids(trainer.processing_class)
    colocated = generation.mode == "colocate"  # a server is given features, for expanded ids
    generation.generate = CheckedGenerate(generation.generate, pads, collapses=colocated)
    synchronise = generation.sync_weights

    def sync_weights() -> None:
        synchronise()
        forget_pictures(generation)

    generation.sync_weights = sync_weights


class CheckedGenerate:
    """``VLLMGeneration.generate``, with collapsed placeholders and a look at what came back.

    Args:
        generate: TRL's.
        pads: ids of the placeholders of pictures and videos.
        collapses: what to try first: collapsed placeholders, or expanded ones.
    """

    def __init__(self, generate: Generate, pads: frozenset[int], *, collapses: bool = True) -> None:
        self._generate = generate
        self._pads = pads
        self._collapses = collapses

    def __call__(
        self,
        prompts: list[Ids],
        images: list[list[Any] | None] | None,
        num_generations: int,
        profiler: Any = None,
    ) -> tuple[Any, ...]:
        """What TRL's returns, for prompts that are the trainer's.

        Raises:
            PromptMismatchError: vLLM's prompt ids are not the trainer's.
        """
        if images is None:
            return self._generate(
                prompts=prompts, images=images, num_generations=num_generations, profiler=profiler
            )
        result: tuple[Any, ...] = ()
        for collapses in (self._collapses, not self._collapses):
            given = [collapsed(ids, self._pads) for ids in prompts] if collapses else prompts
            result = self._generate(
                prompts=given, images=images, num_generations=num_generations, profiler=profiler
            )
            if all(map(same, prompts, result[0])):
                self._collapses = collapses
                return result
        raise PromptMismatchError(mismatch(prompts, result[0], self._pads))


def placeholder_ids(processor: Any) -> frozenset[int]:
    """Ids of the tokens that stand for a patch of a picture or of a video."""
    ids = (getattr(processor, f"{kind}_token_id", None) for kind in ("image", "video"))
    return frozenset(each for each in ids if each is not None)


def collapsed(ids: Sequence[int], pads: frozenset[int]) -> Ids:
    """The ids with each run of one placeholder as a single one: what vLLM expands itself."""
    return [each for token, run in groupby(ids) for each in ([token] if token in pads else run)]


def same(ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """Whether two prompts have the same ids."""
    return list(ours) == list(theirs)


def mismatch(ours: Sequence[Ids], theirs: Sequence[Sequence[int]], pads: frozenset[int]) -> str:
    """What is different, for whoever has to fix it."""
    row, (own, other) = next(differing(ours, theirs))
    trained, generated = (sum(token in pads for token in ids) for ids in (own, other))
    return (
        f"vLLM would generate from prompts that are not trained on: in row {row} the trainer has "
        f"{len(own)} tokens, {trained} of them a picture's, and vLLM {len(other)}, {generated} of "
        "them a picture's. Settle the sizes of the pictures with "
        "posh_reward.training.pictures.settle_pictures, with the same processor that the trainer "
        "has; if they are, this version of TRL or vLLM prepares prompts in a new way"
    )


def differing(
    ours: Sequence[Ids], theirs: Sequence[Sequence[int]]
) -> Iterator[tuple[int, tuple[Ids, Sequence[int]]]]:
    """Rows whose prompts differ, with both."""
    for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        if not same(own, other):
            yield row, (own, other)


def forget_pictures(generation: Any) -> None:
    """Drops what vLLM's encoder made of pictures with the weights before, where it keeps that."""
    engine = getattr(getattr(generation, "llm", None), "llm_engine", None)
    reset = getattr(engine, "reset_encoder_cache", None)
    if reset is not None:
        reset()
