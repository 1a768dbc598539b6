"""Rollouts of vLLM from exactly the prompts that TRL trains on.

TRL 1.16 has two silent defects with images, which are corrected here:

- It gives vLLM both the image and token ids in which the image's placeholder is already
  expanded, and vLLM expands the first placeholder again (huggingface/trl#6294, #6401). So each run
  of placeholders is collapsed to one first.
- vLLM keeps its encoder cache when the weights are synchronised, so an image that comes up again
  is seen through old weights (huggingface/trl#7198). So the cache is reset.

The prompt ids that vLLM reports are compared with the trainer's at every step, and a run whose
prompts differ is stopped. A later TRL that collapses the placeholders itself, or that wants them
expanded, still works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from posh_reward.errors import PoshError

if TYPE_CHECKING:
    from trl import GRPOTrainer

Ids = list[int]
Generate = Callable[..., tuple[Any, ...]]


class PromptMismatchError(PoshError, RuntimeError):
    """vLLM's prompts are not the ones that the trainer would train on."""


def check_rollouts(trainer: GRPOTrainer) -> None:
    """Correct and check the prompts of a trainer that generates with vLLM; leave others alone.

    Call it once, before ``trainer.train``, and settle the images first (``settle_images``):
    otherwise the trainer's processor and vLLM's may count different tokens.
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
        forget_images(generation)

    generation.sync_weights = sync_weights


class CheckedGenerate:
    """``VLLMGeneration.generate`` with collapsed placeholders and a check of its prompts."""

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
        """Return what TRL's ``generate`` returns, once its prompts are the trainer's.

        Raises:
            PromptMismatchError: vLLM's prompt ids are not the trainer's.
        """
        if images is None:
            return self._generate(
                prompts=prompts, images=images, num_generations=num_generations, profiler=profiler
            )
        result: tuple[Any, ...] = ()
        for collapses in (self._collapses, not self._collapses):
            ids = [collapse(each, self._pads) for each in prompts] if collapses else prompts
            result = self._generate(
                prompts=ids, images=images, num_generations=num_generations, profiler=profiler
            )
            if all(map(same, prompts, result[0])):
                self._collapses = collapses
                return result
        raise PromptMismatchError(mismatch(prompts, result[0], self._pads))


def placeholder_ids(processor: Any) -> frozenset[int]:
    """Return the ids of the tokens that stand for a patch of an image or of a video."""
    ids = (getattr(processor, f"{kind}_token_id", None) for kind in ("image", "video"))
    return frozenset(each for each in ids if each is not None)


def collapse(ids: Sequence[int], pads: frozenset[int]) -> Ids:
    """Make one of each run of the same placeholder, which vLLM expands itself."""
    return [each for token, run in groupby(ids) for each in ([token] if token in pads else run)]


def same(ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """True if two prompts have the same ids."""
    return list(ours) == list(theirs)


def mismatch(ours: Sequence[Ids], theirs: Sequence[Sequence[int]], pads: frozenset[int]) -> str:
    """Describe the first difference, with the remedy."""
    pairs = zip(ours, theirs, strict=True)
    row, own, other = next(
        (row, own, other) for row, (own, other) in enumerate(pairs) if not same(own, other)
    )
    trained, generated = (sum(token in pads for token in ids) for ids in (own, other))
    return (
        f"vLLM would generate from prompts that are not trained on: in row {row} the trainer has "
        f"{len(own)} tokens, {trained} of them an image's, and vLLM {len(other)}, {generated} of "
        "them an image's. Pass the dataset through "
        "posh_reward.training.processors.settle_images with the trainer's own processor; if you "
        "have, this version of TRL or vLLM prepares prompts in a new way"
    )


def forget_images(generation: Any) -> None:
    """Empty vLLM's cache of encoded images, which were encoded with earlier weights."""
    engine = getattr(getattr(generation, "llm", None), "llm_engine", None)
    reset = getattr(engine, "reset_encoder_cache", None)
    if reset is not None:
        reset()
