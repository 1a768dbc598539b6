"""Canaries of every run that generates with vLLM: signs that its rollouts are not the policy's.

The *gap* of a sampled token is vLLM's log-probability minus the trainer's. vLLM samples from the
top_p nucleus and renormalises it, so that a token gains up to -log(top_p), 0.36 for 0.7, and never
loses. The *excess* is how far a gap is outside of these bounds. Its mean over a step is the signal:
the mean gap alone can be within the bounds with a wrong prompt, which moves gaps both up and down.
Neither sees weights that are stale by a few steps, or rounded: the differences are like those of
two kernels.

So every few steps one weight matrix of vLLM is compared with the trainer's, value by value.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import is_peft_model
from transformers import TrainerCallback

from posh_reward.errors import ConfigError, PoshError
from posh_reward.training.resume import namesakes
from posh_reward.training.stopping import of_all_ranks, save_and_stop

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from trl import GRPOConfig, GRPOTrainer

GAP, EXCESS = "rollouts/logp_gap", "rollouts/logp_excess"
"""Names of the logged means, in nats per token."""
MOST_EXCESS = 0.1
"""Mean excess that stops the run. In bf16 two kernels differ by 0.03 (sdpa and eager attention of a
tiny model); image placeholders that vLLM expanded twice made 0.26."""
CHECK_EVERY = 50
"""Steps between comparisons of weights."""
FIRST_CHECK = 2
"""The first step that compares weights: the first update often has a learning rate of 0."""
REMERGED = 1e-3
"""Share of values in which a LoRA matrix may differ. TRL adds the adapter to the weights for vLLM
and subtracts it again, and adding it to the result rounds up to 0.0003 of the values otherwise."""
UNALTERED = {
    "top_k": (0, -1), "min_p": (None, 0.0), "repetition_penalty": (None, 1.0),
    "presence_penalty": (None, 0.0), "frequency_penalty": (None, 0.0), "logit_bias": (None,),
    "allowed_token_ids": (None,), "structured_outputs": (None,),
}  # fmt: skip
"""Settings that change vLLM's distribution by an unknown amount, and their values that do not."""


class RolloutError(PoshError, RuntimeError):
    """vLLM's rollouts are not the policy's; the run saved a checkpoint and stopped."""


class Canaries(TrainerCallback):  # type: ignore[misc]
    """Log the gap at every step, compare weights at some, and stop all ranks if either is wrong.

    Args:
        trainer: one that generates with vLLM.
        check_every: steps between comparisons of weights; 0 for none. Only a colocated vLLM's
            weights can be compared, a server's cannot.

    Raises:
        ConfigError: ``check_every`` is negative.
    """

    def __init__(self, trainer: GRPOTrainer, check_every: int = CHECK_EVERY) -> None:
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
            _say("the weights of a vLLM server cannot be compared with the trainer's")

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
                self._add(inputs)
            return loss

        trainer._get_per_token_logps_and_entropies = noting_logps
        trainer._compute_loss = noting_gap

    def _add(self, inputs: dict[str, Any]) -> None:
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
            due = step >= FIRST_CHECK and (step - FIRST_CHECK) % self._every == 0
            if due and step != self._compared:
                self._compared = step
                self._own_problem = self._own_problem or self._compare_weights()
            return generate(*args, **kwargs)

        llm.generate = generate_checked

    def _compare_weights(self) -> str | None:
        """Compare one matrix of vLLM with the trainer's; every rank has to call this."""
        engine = self._generation.llm.llm_engine.model_executor.driver_worker.model_runner.model
        name, theirs = comparable(self._generation.model, engine)
        if theirs is None:
            _say("no matrix of vLLM could be compared with the trainer's")
            return None
        share = math.nan
        # What TRL pushes: gathered under ZeRO-3, adapters merged. To the end, or they stay merged.
        for pushed, value in self._generation._iter_named_params():
            if pushed == name:
                share = (value.to(theirs.device, theirs.dtype) != theirs).float().mean().item()
        if share <= (REMERGED if is_peft_model(self._generation.model) else 0):
            return None
        return (
            f"vLLM generates with other weights than the trainer's: {name} differs in {share:.2%} "
            "of its values. The weights were not pushed to vLLM, or were lost there"
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Log gap and excess of all ranks' tokens, and stop if a canary says so."""
        said = of_all_ranks((*self._sums, self._own_problem))
        self._sums = (0.0, 0.0, 0)
        *sums, tokens = (sum(column) for column in list(zip(*said, strict=True))[:3])
        # NaN, logged as None, if all completions are truncated and masked.
        gap, excess = (each / tokens if tokens else math.nan for each in sums)
        self._trainer._metrics["train"][GAP].append(gap)
        self._trainer._metrics["train"][EXCESS].append(excess)
        self.problem = next((problem for *_, problem in said if problem), None)
        if excess > MOST_EXCESS:
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
        """Raise the reason for the stop, now that the checkpoint has been saved.

        Raises:
            RolloutError: a canary stopped the run; on all ranks.
        """
        if self.problem is not None:
            raise RolloutError(
                f"{self.problem}. Stopped after step {state.global_step} with a checkpoint in "
                f"{args.output_dir}, whose last step used these rollouts: to continue, resume from "
                "an earlier one"
            )


def gap_bounds(args: GRPOConfig) -> tuple[float, float]:
    """Return the smallest and the largest gap of a token, but for rounding.

    The temperature divides both sides' logits. There are no bounds with one of the settings in
    ``UNALTERED``, or with a temperature for vLLM alone.
    """
    own = args.generation_kwargs or {}
    sampling = {name: own.get(name, getattr(args, name, None)) for name in UNALTERED}
    altered = [name for name, value in sampling.items() if value not in (*UNALTERED[name], None)]
    if own.get("temperature", args.temperature) != args.temperature:
        altered.append("temperature")
    if altered or args.vllm_structured_outputs_regex:
        _say(f"no bounds for {GAP}, since {', '.join(altered) or 'a regex'} changes what is likely")
        return -math.inf, math.inf
    return 0.0, -math.log(own.get("top_p", args.top_p))


def comparable(model: torch.nn.Module, engine: torch.nn.Module) -> tuple[str, torch.Tensor | None]:
    """Return the last trained matrix of a layer that vLLM holds too: its name, and vLLM's values.

    None are comparable if vLLM splits matrices over ranks or quantises them.
    """
    adapted = is_peft_model(model)
    for name, value in reversed(list(model.named_parameters())):
        trained = ".base_layer." in name if adapted else value.requires_grad
        shape = getattr(value, "ds_shape", value.shape)  # of the whole, under ZeRO-3
        if trained and ".layers." in name and len(shape) == 2:
            pushed = name.removeprefix("base_model.model.").replace(".base_layer", "")
            theirs = _in_engine(engine, pushed, shape[0])
            if theirs is not None and theirs.shape == shape:
                return pushed, theirs
    return "", None


def _in_engine(engine: torch.nn.Module, name: str, rows: int) -> torch.Tensor | None:
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
    found = namesakes(name, dict(engine.named_parameters()))
    return found[0][first:][:rows] if len(found) == 1 else None


def _say(text: str) -> None:
    logging.getLogger(__name__).warning(text)
