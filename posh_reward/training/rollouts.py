"""Make vLLM generate from exactly the prompts that TRL trains on.

TRL 1.16 has two silent defects with images, both corrected here:

- It passes vLLM the image together with token ids in which the image's placeholder is already
  expanded, and vLLM expands the first placeholder again (huggingface/trl#6294, #6401). So each run
  of placeholders is collapsed to one first.
- vLLM keeps its encoder cache when the weights are synchronised, so an image that comes up again
  is encoded with old weights (huggingface/trl#7198). So the cache is reset.

At every step the prompt ids that vLLM reports are compared with the trainer's, and a run whose
prompts differ is stopped. A later TRL that collapses the placeholders itself, or that wants them
expanded, still works. What prompts cannot show, the canaries watch (``canaries.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from posh_reward.errors import PoshError
from posh_reward.training.canaries import CHECK_EVERY, Canaries
from posh_reward.training.stopping import of_all_ranks

if TYPE_CHECKING:
    from trl import GRPOTrainer

Ids = list[int]
Generate = Callable[..., tuple[Any, ...]]


class PromptMismatchError(PoshError, RuntimeError):
    """vLLM's prompts differ from those that the trainer trains on."""


def check_rollouts(trainer: GRPOTrainer, check_weights_every: int = CHECK_EVERY) -> None:
    """Correct and check the rollouts of a trainer that generates with vLLM, if it does.

    Call it once, before ``trainer.train``, and resize the images first (``settle_images``), or the
    trainer's processor and vLLM's may count different tokens. The canaries compare weights every
    ``check_weights_every`` steps; 0 is off.
    """
    generation = getattr(trainer, "vllm_generation", None)
    if generation is None:
        return
    pads = placeholder_ids(trainer.processing_class)
    colocated = generation.mode == "colocate"  # a server gets image features, and expanded ids
    generation.generate = CheckedGenerate(generation.generate, pads, collapses=colocated)
    synchronise = generation.sync_weights

    def sync_weights() -> None:
        synchronise()
        # Images that vLLM has cached were encoded with earlier weights.
        engine = getattr(getattr(generation, "llm", None), "llm_engine", None)
        reset = getattr(engine, "reset_encoder_cache", None)
        if reset is not None:
            reset()

    generation.sync_weights = sync_weights
    trainer.add_callback(Canaries(trainer, check_weights_every))


class CheckedGenerate:
    """``VLLMGeneration.generate`` with collapsed placeholders and checked prompts."""

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
        """Return what TRL's ``generate`` returns, after checking the prompts.

        Every rank has to call this: generating again is collective, since a vLLM that sleeps by
        then gets all weights pushed. So one rank's mismatch makes all of them try the other form.

        Raises:
            PromptMismatchError: vLLM's prompt ids are not the trainer's; on all ranks.
        """
        others = {"images": images, "num_generations": num_generations, "profiler": profiler}
        mismatch: str | None = None
        # The form that was right last time, then the other, which another TRL or vLLM may want.
        for collapses in (self._collapses, not self._collapses):
            collapsed = collapses and images is not None
            ids = [collapse(each, self._pads) for each in prompts] if collapsed else prompts
            result = self._generate(prompts=ids, **others)
            mismatches = of_all_ranks(_mismatch(prompts, result[0], self._pads))
            mismatch = next((each for each in mismatches if each is not None), None)
            if mismatch is None:
                self._collapses = collapses
                return result
        raise PromptMismatchError(mismatch)


def placeholder_ids(processor: Any) -> frozenset[int]:
    """Return the ids of the tokens that stand for a patch of an image or of a video."""
    ids = (getattr(processor, f"{kind}_token_id", None) for kind in ("image", "video"))
    return frozenset(each for each in ids if each is not None)


def collapse(ids: Sequence[int], pads: frozenset[int]) -> Ids:
    """Reduce each run of the same placeholder to one, which vLLM expands itself."""
    return [each for token, run in groupby(ids) for each in ([token] if token in pads else run)]


def _mismatch(
    ours: Sequence[Ids], theirs: Sequence[Sequence[int]], pads: frozenset[int]
) -> str | None:
    """Describe the first difference, if there is one, with the remedy."""
    pairs = enumerate(zip(ours, theirs, strict=True))
    row = next((row for row, (own, other) in pairs if list(own) != list(other)), None)
    if row is None:
        return None
    own, other = ours[row], theirs[row]
    trained, generated = (sum(token in pads for token in ids) for ids in (own, other))
    return (
        f"vLLM generates from other prompts than are trained on: in row {row} the trainer has "
        f"{len(own)} tokens, {trained} of them an image's, and vLLM {len(other)}, {generated} of "
        "them an image's. Pass the dataset through "
        "posh_reward.training.processors.settle_images with the trainer's own processor; if you "
        "have, this version of TRL or vLLM prepares prompts in a new way"
    )
