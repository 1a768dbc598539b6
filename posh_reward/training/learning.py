"""The check that a run learns: updates are applied, reach the weights, and come from some text.

The losses do not show it. A run whose updates are rounded away, or whose completions are all cut
and so masked, logs plausible losses and rewards to its last step.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from operator import add
from typing import TYPE_CHECKING, Any

import torch

from posh_reward.errors import ConfigError, PoshError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import TrainerState, TrainingArguments

logger = logging.getLogger(__name__)

MOVED_SHARE = "weights_moved"
"""Logged figure: the share of one matrix's values that differ from those at the start."""
CUT_SHARE = "completions/clipped_ratio"
"""TRL's logged figure: the share of completions that ended at ``max_completion_length``."""
SIXTEEN_BIT_TYPES = (torch.bfloat16, torch.float16)
NO_MASTER_WEIGHTS = (
    "no float32 copies would be kept of 16-bit weights, so most updates would be rounded away: "
    "set dtype: float32 (bf16: true still computes in bfloat16), launch with DeepSpeed "
    "(--config_file configs/accelerate/zero3_8gpu.yaml), or train adapters (use_peft: true)"
)
MIN_UPDATE_PER_RATE = 0.01
"""Smallest update that Adam is sure to make, as a multiple of the learning rate. The first update
is 1; later ones are smaller, the more often a gradient changes its sign."""
MIN_LEARNING_RATE = 0.02 * torch.finfo(torch.float32).eps
"""Learning rate, 2.4e-9, whose first update moves a usual weight, .02, to its neighbour."""
MAX_CUT_SHARE = 0.2
"""Share of cut completions that a warning is about: beyond it, lengths rather than details decide
what is trained on."""
MAX_EMPTY_STEPS = 10
"""Steps in a row without a completion to train on after which a run stops, as after as many calls
without a judge."""


class NothingLearnedError(PoshError, RuntimeError):
    """A run did not train: no gradient, or updates that did not reach the weights."""


# Before the first step.


def check_trainable(model: Any, *, has_masters: bool) -> None:
    """Raise ConfigError if an optimizer without float32 copies would update 16-bit parameters.

    bfloat16 keeps 8 bits. Its values next to .02, a usual weight, are .00012 apart, so an update by
    a learning rate of 1e-5 is rounded away. Quantised models are left alone: TRL makes their
    adapters in bfloat16, after QLoRA's paper, and adapters have rates of 1e-4 and more.
    """
    if has_masters or getattr(model, "is_quantized", False):
        return
    names = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype in SIXTEEN_BIT_TYPES:
            names.append(name)
    if names:
        raise ConfigError(
            f"{len(names)} tensors are trained, such as {names[0]}: {NO_MASTER_WEIGHTS}"
        )


# The weights.


def find_watched_matrix(model: Any) -> tuple[str, Any]:
    """Return the smallest trained matrix of the last layer, or the last trained parameter.

    Of equally small ones the last: of LoRA's two, the one that has a gradient from the start.
    """
    trained = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    if not trained:
        raise ConfigError(
            "no parameter of the model is trained: set requires_grad, or add adapters"
        )
    in_layers = [(name, each) for name, each in trained if ".layers." in name]
    matrices = [(name, each) for name, each in in_layers if len(_full_shape(each)) == 2]
    if not matrices:
        return trained[-1]
    stack, _, rest = matrices[-1][0].rpartition(".layers.")
    layer = f"{stack}.layers.{rest.partition('.')[0]}."
    in_last = [(name, each) for name, each in reversed(matrices) if name.startswith(layer)]
    return min(in_last, key=lambda pair: math.prod(_full_shape(pair[1])))


def _full_shape(parameter: Any) -> tuple[int, ...]:
    """Return the shape of the whole, also where ZeRO-3 leaves a rank only a part."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


@dataclass(frozen=True, slots=True)
class Movement:
    """Values of the watched matrix, on this rank or on all."""

    values: int = 0
    moved: int = 0  # differ from those at the start
    expected: int = 0  # would have moved in float32 by the last update, by its learning rate
    arrived: int = 0  # those of them that have

    def __add__(self, other: Movement) -> Movement:
        return Movement(*map(add, astuple(self), astuple(other)))


class WatchedWeights:
    """One matrix of the model; under DeepSpeed every rank has to make and compare it."""

    def __init__(self, model: Any) -> None:
        self.name, self._parameter = find_watched_matrix(model)
        self._start = self._read_values().clone()
        self._touched: Tensor | None = None

    def note_gradient(self) -> None:
        """Remember which values have a gradient, before it is applied and freed."""
        gradient = self._parameter.grad
        self._touched = None
        if gradient is not None:
            self._touched = _local_part(gradient) != 0

    def measure_movement(self, rate: float) -> Movement:
        """Compare the values after an update at a learning rate; 0 to expect none to move."""
        now = self._read_values()
        if now.shape != self._start.shape:  # FSDP may hold a whole parameter at one time only
            return Movement()
        moved = now != self._start
        if not rate:
            return Movement(now.numel(), int(moved.sum()))
        # In float32 a value moves if the update exceeds the distance to its neighbour: next to
        # .02 that is 2e-9, so the first steps of a long warm-up prove nothing.
        expected = MIN_UPDATE_PER_RATE * rate > self._start.abs() * torch.finfo(torch.float32).eps
        if self._touched is not None:
            expected &= self._touched
        counts = torch.stack([moved.sum(), expected.sum(), (moved & expected).sum()]).tolist()
        return Movement(now.numel(), *counts)

    def _read_values(self) -> Tensor:
        """Float32 values: the master copy, if there is one; this rank's part under FSDP."""
        if hasattr(self._parameter, "ds_id") or hasattr(self._parameter, "_hp_mapping"):
            from deepspeed.utils import safe_get_full_fp32_param

            master: Tensor = safe_get_full_fp32_param(self._parameter)
            return master.detach().float()
        return _local_part(self._parameter.detach()).float()


def _local_part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a distributed tensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def has_gradient(model: Any) -> bool:
    """Return True if any parameter has a gradient other than 0; the last one usually has."""
    for parameter in reversed(list(model.parameters())):
        if parameter.grad is not None and _local_part(parameter.grad).any():
            return True
    return False


# The run.


@dataclass(slots=True)
class Progress:
    """Counts and shares over a run's steps and all ranks."""

    judged: int = 0  # completions with a reward
    failed: int = 0  # completions without
    updates: int = 0  # steps with a gradient that were applied
    skipped: int = 0  # steps that left the weights as they were, since nothing in them was judged
    moved: float = 0.0  # share of the watched matrix's values
    highest_rate: float = 0.0  # learning rate of any update
    cut: float = 0.0  # share of completions that were cut, a mean over the steps that were logged
    logged: int = 0  # those steps

    def note_cut(self, share: float, steps: int) -> None:
        """Add steps that were logged together."""
        self.logged += steps
        self.cut += (share - self.cut) * steps / self.logged


PROGRESS_KEY = "posh_reward"
"""Key of a run's ``Progress`` among the callbacks' states in ``trainer_state.json``."""


def keep_progress(state: TrainerState, progress: Progress) -> None:
    """Put the progress where the trainer's checkpoints and its final state have it."""
    state.stateful_callbacks = {**(state.stateful_callbacks or {}), PROGRESS_KEY: asdict(progress)}


def read_progress(state: TrainerState) -> Progress:
    """Read the progress of a run, or of the checkpoint that it resumes from."""
    saved = (state.stateful_callbacks or {}).get(PROGRESS_KEY, {})
    known = [each.name for each in fields(Progress) if each.name in saved]
    return Progress(**{name: saved[name] for name in known})


@dataclass(frozen=True, slots=True)
class Update:
    """Effect of one optimizer step on one rank."""

    movement: Movement
    was_applied: bool  # a gradient was; not if the optimizer was kept from stepping


class Learning:
    """Check that a run learns, from the updates of all ranks; every rank comes to the same end."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.problem: str | None = None
        """Reason to stop the run; the same on all ranks."""
        self._weights: WatchedWeights | None = None
        self._arrived = False  # an update has been seen to move the weights
        self._moved_before = 0.0  # share that had moved in the checkpoint resumed from
        self._rate, self._has_gradient = 0.0, False  # of the next update
        self._drops_cut = self._warned = False
        self._empty = self._last_logged = 0  # steps in a row without a completion; a step

    def begin(
        self, args: TrainingArguments, state: TrainerState, model: Any, *, has_masters: bool
    ) -> None:
        """Begin or resume a run; under DeepSpeed every rank has to call this.

        Raises:
            ConfigError: updates of the trained parameters would be rounded away.
        """
        self.progress, self.problem = read_progress(state), None
        self._moved_before = self.progress.moved
        self._arrived, self._empty, self._last_logged = False, 0, state.global_step
        self._drops_cut = bool(getattr(args, "mask_truncated_completions", False))
        if model is not None:
            check_trainable(model, has_masters=has_masters)
            self._weights = WatchedWeights(model)

    def before_update(self, model: Any, rate: float) -> None:
        """Look at the gradients, just before the optimizer applies and frees them."""
        self._rate = rate
        if self._weights is not None:
            if not self._arrived:
                self._weights.note_gradient()
            self._has_gradient = has_gradient(model)

    def after_deepspeed(self, norm: float | None, rate: float) -> None:
        """Note the norm of the gradients that DeepSpeed has just applied; None if it has none."""
        self._rate = rate
        self._has_gradient = norm is None or bool(norm)

    def own_update(self, *, was_skipped: bool) -> Update:
        """Return what the step did here; under DeepSpeed every rank has to call this."""
        was_applied = self._has_gradient and not was_skipped
        if self._weights is None:
            return Update(Movement(), was_applied)
        rate = 0.0
        if was_applied and not self._arrived:
            rate = self._rate
        return Update(self._weights.measure_movement(rate), was_applied)

    def note_update(self, updates: Sequence[Update]) -> None:
        """Judge one step by what it did on each rank."""
        if self._weights is None:
            return
        total = sum((each.movement for each in updates), Movement())
        moved = total.moved / max(total.values, 1)  # since this process began
        self.progress.moved = max(self._moved_before, moved)
        if not any(each.was_applied for each in updates):
            return
        self.progress.updates += 1
        self.progress.highest_rate = max(self.progress.highest_rate, self._rate)
        if self._arrived or not total.expected:
            return
        self._arrived = 2 * total.arrived > total.expected  # more than half of them
        if not self._arrived:
            self.problem = self.problem or (
                f"the updates do not reach the weights: of {total.expected:,} values of "
                f"{self._weights.name} that this learning rate moves in float32, "
                f"{total.arrived / total.expected:.1%} moved. Check which parameters the optimizer "
                "has, and in which type they are kept"
            )

    def note_log(self, logs: dict[str, Any], state: TrainerState) -> None:
        """Read the share of cut completions from a line of the log, and add to the line."""
        # An evaluation's line, the last, or a known one.
        if "loss" not in logs or MOVED_SHARE in logs:
            return
        logs[MOVED_SHARE] = self.progress.moved
        state.log_history[-1][MOVED_SHARE] = self.progress.moved  # a copy
        steps, self._last_logged = state.global_step - self._last_logged, state.global_step
        share = logs.get(CUT_SHARE)
        if share is None:
            return
        self.progress.note_cut(share, steps)
        keep_progress(state, self.progress)
        if share > MAX_CUT_SHARE and not self._warned and state.is_world_process_zero:
            self._warned = True
            dropped = ""
            if self._drops_cut:
                dropped = " and so not trained on (mask_truncated_completions)"
            logger.warning(
                "%.0f %% of the completions are cut at max_completion_length%s: raise it",
                100 * share, dropped,
            )  # fmt: skip
        self._empty = self._empty + steps if share == 1 and self._drops_cut else 0
        if self._empty >= MAX_EMPTY_STEPS:
            self.problem = self.problem or (
                f"all completions of the last {self._empty} steps were cut and so masked, which "
                "left nothing to train on: raise max_completion_length, set "
                "mask_truncated_completions: false, or start from a model whose descriptions end"
            )

    def end(self) -> None:
        """Raise NothingLearnedError if no step of the whole run trained anything."""
        if self._weights is None:
            return
        if not self.progress.updates:
            raise NothingLearnedError(
                "no step of this run had a gradient, so nothing was learned: "
                f"{self.progress.cut:.0%} of the completions were cut, and reward_std in the log "
                "is 0 where all completions of an image had the same reward"
            )
        if not self.progress.moved or 0 < self.progress.highest_rate < MIN_LEARNING_RATE:
            # Adapters begin at 0, from which any rate moves them, but not what the model says.
            logger.warning(
                "the model hardly differs from the one that the run started from: its learning "
                "rates, up to %g, are too small for float32", self.progress.highest_rate,
            )  # fmt: skip
