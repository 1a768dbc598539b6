"""vLLM's rollouts are those of the trainer's prompts and weights, or the run stops.

TRL 1.16 has two silent defects with images, both corrected here:

- It passes vLLM the image together with token ids in which the image's placeholder is already
  expanded, and vLLM expands the first placeholder again (huggingface/trl#6294, #6401). So each run
  of placeholders is collapsed to one first.
- vLLM keeps its encoder cache when the weights are synchronised, so an image that comes up again
  is encoded with old weights (huggingface/trl#7198). So the cache is reset.

At every step the prompt ids that vLLM reports are compared with the trainer's. A later TRL that
collapses the placeholders itself, or that wants them expanded, still works. What prompts cannot
show, two canaries watch:

- The *gap* of a sampled token is vLLM's log-probability minus the trainer's. vLLM samples from the
  top_p nucleus and renormalises it, so that a token gains up to -log(top_p), 0.36 for 0.7, and
  never loses. The *excess* is how far a gap is outside of these bounds: -0.1 has an excess of 0.1,
  0.5 of 0.14. Its mean over a step is the signal: the mean gap alone can be within the bounds with
  a wrong prompt, which moves gaps both up and down.
- Neither sees weights that are stale by a few steps, or rounded: the differences are like those of
  two kernels. So every few steps one weight matrix of vLLM is compared with the trainer's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import is_peft_model
from transformers import TrainerCallback

from posh_reward.errors import ConfigError, PoshError
from posh_reward.training.resume import find_tensors_by_ending
from posh_reward.training.stopping import gather_from_ranks, save_and_stop

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from trl import GRPOConfig, GRPOTrainer

Ids = list[int]
Generate = Callable[..., tuple[Any, ...]]

logger = logging.getLogger(__name__)

GAP_KEY, EXCESS_KEY = "rollouts/logp_gap", "rollouts/logp_excess"
"""Names of the logged means, in nats per token."""
MAX_EXCESS_NATS = 0.1
"""Mean excess that stops the run. In bf16 two kernels differ by 0.03 (sdpa and eager attention of a
tiny model); image placeholders that vLLM expanded twice made 0.26."""
CHECK_EVERY_STEPS = 50
"""Steps between comparisons of weights."""
FIRST_CHECKED_STEP = 2
"""First step at which weights are compared: the first update often has a learning rate of 0."""
MAX_REMERGED_SHARE = 1e-3
"""Share of values in which a LoRA matrix may differ. TRL adds the adapter to the weights for vLLM
and subtracts it again, and adding it to the result rounds up to 0.0003 of the values otherwise."""
NEUTRAL_VALUES = {
    "top_k": (0, -1), "min_p": (None, 0.0), "repetition_penalty": (None, 1.0),
    "presence_penalty": (None, 0.0), "frequency_penalty": (None, 0.0), "logit_bias": (None,),
    "allowed_token_ids": (None,), "structured_outputs": (None,),
}  # fmt: skip
"""Settings that change vLLM's distribution by an unknown amount, and their values that do not."""


class PromptMismatchError(PoshError, RuntimeError):
    """vLLM's prompts differ from those that the trainer trains on."""


class RolloutError(PoshError, RuntimeError):
    """vLLM's rollouts are not the policy's; the run saved a checkpoint and stopped."""


def check_rollouts(trainer: GRPOTrainer, check_weights_every: int = CHECK_EVERY_STEPS) -> None:
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


# Prompts.


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
        """
        others = {"images": images, "num_generations": num_generations, "profiler": profiler}
        mismatch: str | None = None
        # The form that was right last time, then the other, which another TRL or vLLM may want.
        for collapses in (self._collapses, not self._collapses):
            ids = prompts
            if collapses and images is not None:
                ids = [collapse_placeholders(each, self._pads) for each in prompts]
            result = self._generate(prompts=ids, **others)
            mismatches = gather_from_ranks(_describe_mismatch(prompts, result[0], self._pads))
            mismatch = next((each for each in mismatches if each is not None), None)
            if mismatch is None:
                self._collapses = collapses
                return result
        raise PromptMismatchError(mismatch)


def placeholder_ids(processor: Any) -> frozenset[int]:
    """Return the ids of the tokens that stand for a patch of an image or of a video."""
    ids = [getattr(processor, f"{kind}_token_id", None) for kind in ("image", "video")]
    return frozenset(each for each in ids if each is not None)


def collapse_placeholders(ids: Sequence[int], pads: frozenset[int]) -> Ids:
    """Reduce each run of the same placeholder to one, which vLLM expands itself."""
    collapsed: Ids = []
    for token, run in groupby(ids):
        collapsed += [token] if token in pads else run
    return collapsed


def _describe_mismatch(
    ours: Sequence[Ids], theirs: Sequence[Sequence[int]], pads: frozenset[int]
) -> str | None:
    """Describe the first difference, if there is one, with the remedy."""
    for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        if list(own) == list(other):
            continue
        trained, generated = (sum(token in pads for token in ids) for ids in (own, other))
        return (
            f"vLLM generates from other prompts than are trained on: in row {row} the trainer has "
            f"{len(own)} tokens, {trained} of them an image's, and vLLM {len(other)}, {generated} "
            "of them an image's. Pass the dataset through "
            "posh_reward.training.processors.settle_images with the trainer's own processor; if "
            "you have, this version of TRL or vLLM prepares prompts in a new way"
        )
    return None


# Canaries.


class Canaries(TrainerCallback):  # type: ignore[misc]
    """Log the gap at every step, compare weights at some, and stop all ranks if either is wrong.

    Weights are compared every ``check_every`` steps, 0 for never; only those of a colocated vLLM
    can be, a server's cannot.
    """

    def __init__(self, trainer: GRPOTrainer, check_every: int = CHECK_EVERY_STEPS) -> None:
        if check_every < 0:
            raise ConfigError(f"check_weights_every is {check_every}: use 0 or more steps")
        self._trainer = trainer
        self._generation = trainer.vllm_generation
        self._every = check_every
        self.bounds = gap_bounds(trainer.args)
        self.problem: str | None = None
        """Reason for the stop; the same on all ranks."""
        self._sums = (0.0, 0.0, 0)  # gaps, excesses and tokens since the last step's end
        self._own_problem: str | None = None
        self._compared = -1  # the last step at which weights were compared
        self._wrap_loss()
        if self._every and self._generation.mode == "colocate":
            self._wrap_engine()
        elif self._every:
            logger.warning("the weights of a vLLM server cannot be compared with the trainer's")

    def _wrap_loss(self) -> None:
        trainer = self._trainer
        compute_loss, get_logps = trainer._compute_loss, trainer._get_per_token_logps_and_entropies

        def noting_logps(*args: Any, **kwargs: Any) -> Any:
            result = get_logps(*args, **kwargs)
            self._logps = result[0].detach()
            return result

        def noting_gap(model: Any, inputs: dict[str, Any]) -> Any:
            loss = compute_loss(model, inputs)
            if trainer.model.training and inputs.get("sampling_per_token_logps") is not None:
                self._add_gaps(inputs)
            return loss

        trainer._get_per_token_logps_and_entropies = noting_logps
        trainer._compute_loss = noting_gap

    def _add_gaps(self, inputs: dict[str, Any]) -> None:
        """Add a batch's differences, (B, T) each."""
        # Rollouts of an earlier step are compared under the weights that they were generated with.
        ours = inputs.get("old_per_token_logps", self._logps)
        gaps = (inputs["sampling_per_token_logps"] - ours).double()
        gaps = gaps[inputs["completion_mask"].bool() & gaps.isfinite()]
        low, high = self.bounds
        excess = (low - gaps).clamp(min=0) + (gaps - high).clamp(min=0)
        all_gaps, all_excess, tokens = self._sums
        self._sums = (
            all_gaps + gaps.sum().item(), all_excess + excess.sum().item(), tokens + len(gaps)
        )  # fmt: skip

    def _wrap_engine(self) -> None:
        # Just before vLLM generates: TRL has pushed the weights, and a sleeping engine is awake.
        llm = self._generation.llm
        generate = llm.generate

        def generate_checked(*args: Any, **kwargs: Any) -> Any:
            step = self._trainer.state.global_step
            due = step >= FIRST_CHECKED_STEP and (step - FIRST_CHECKED_STEP) % self._every == 0
            if due and step != self._compared:
                self._compared = step
                self._own_problem = self._own_problem or self._compare_weights()
            return generate(*args, **kwargs)

        llm.generate = generate_checked

    def _compare_weights(self) -> str | None:
        """Compare one matrix of vLLM with the trainer's; every rank has to call this."""
        engine = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
        name, theirs = find_comparable_matrix(self._generation.model, engine)
        if theirs is None:
            logger.warning("no matrix of vLLM could be compared with the trainer's")
            return None
        share = math.nan
        # What TRL pushes: gathered under ZeRO-3, adapters merged. To the end, or they stay merged.
        for pushed, value in self._generation._iter_named_params():
            if pushed == name:
                share = (value.to(theirs.device, theirs.dtype) != theirs).float().mean().item()
        allowed = MAX_REMERGED_SHARE if is_peft_model(self._generation.model) else 0
        if share <= allowed:
            return None
        return (
            f"vLLM generates with other weights than the trainer's: {name} differs in {share:.2%} "
            "of its values. The weights were not pushed to vLLM, or were lost there"
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Log gap and excess of all ranks' tokens, and stop if a canary says so."""
        reports = gather_from_ranks((*self._sums, self._own_problem))
        self._sums = (0.0, 0.0, 0)
        all_gaps, all_excess, all_tokens, problems = zip(*reports, strict=True)
        tokens = sum(all_tokens)
        gap = excess = math.nan  # logged as None, if all completions are truncated and masked
        if tokens:
            gap, excess = sum(all_gaps) / tokens, sum(all_excess) / tokens
        self._trainer._metrics["train"][GAP_KEY].append(gap)
        self._trainer._metrics["train"][EXCESS_KEY].append(excess)
        self.problem = next(filter(None, problems), None)
        if excess > MAX_EXCESS_NATS:
            low, high = self.bounds
            self.problem = self.problem or (
                f"vLLM generates something else than is trained on: its log-probabilities exceed "
                f"the trainer's by {gap:.3f} per token, on average {excess:.3f} outside of what "
                f"the sampling can explain, {low:.2f} to {high:.2f}. Prompts, images, sampling "
                "settings or the models differ"
            )
        if self.problem is not None:
            save_and_stop(args, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise the reason for the stop, now that the checkpoint has been saved."""
        if self.problem is not None:
            raise RolloutError(
                f"{self.problem}. Stopped after step {state.global_step} with a checkpoint in "
                f"{args.output_dir}, whose last step used these rollouts: to continue, resume from "
                "an earlier one"
            )


def gap_bounds(args: GRPOConfig) -> tuple[float, float]:
    """Return the smallest and the largest gap of a token, but for rounding.

    The temperature divides both sides' logits. There are no bounds with one of the settings in
    ``NEUTRAL_VALUES``, or with a temperature for vLLM alone.
    """
    own = args.generation_kwargs or {}
    altered = []
    for name, neutral in NEUTRAL_VALUES.items():
        if own.get(name, getattr(args, name, None)) not in (*neutral, None):
            altered.append(name)
    if own.get("temperature", args.temperature) != args.temperature:
        altered.append("temperature")
    if altered or args.vllm_structured_outputs_regex:
        cause = ", ".join(altered) or "a regex"
        logger.warning("no bounds for %s, since %s changes what is likely", GAP_KEY, cause)
        return -math.inf, math.inf
    return 0.0, -math.log(own.get("top_p", args.top_p))


def find_comparable_matrix(
    model: torch.nn.Module, engine: torch.nn.Module
) -> tuple[str, torch.Tensor | None]:
    """Return the last trained matrix of a layer that vLLM holds too: its name, and vLLM's values.

    None are comparable if vLLM splits matrices over ranks or quantises them.
    """
    adapted = is_peft_model(model)
    for name, value in reversed(list(model.named_parameters())):
        trained = ".base_layer." in name if adapted else value.requires_grad
        shape = getattr(value, "ds_shape", value.shape)  # of the whole, under ZeRO-3
        if trained and ".layers." in name and len(shape) == 2:
            pushed = name.removeprefix("base_model.model.").replace(".base_layer", "")
            theirs = _find_in_engine(engine, pushed, shape[0])
            if theirs is not None and theirs.shape == shape:
                return pushed, theirs
    return "", None


def _find_in_engine(engine: torch.nn.Module, name: str, rows: int) -> torch.Tensor | None:
    """Return vLLM's values of a matrix of so many rows; None if more than one could be meant."""
    first = 0
    # vLLM stacks some, such as queries, keys and values, into one.
    for whole, parts in getattr(engine, "packed_modules_mapping", {}).items():
        for at, part in enumerate(parts):
            if f".{part}." in name:
                name = name.replace(f".{part}.", f".{whole}.")
                # From the end: keys and values are of one size, queries may have more rows.
                first = (at - len(parts)) * rows if at else 0
                break
    tensors = find_tensors_by_ending(name, dict(engine.named_parameters()))
    return tensors[0][first:][:rows] if len(tensors) == 1 else None
