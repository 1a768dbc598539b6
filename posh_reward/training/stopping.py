"""Early stops: all ranks stop after the same step, with a checkpoint.

A run stops when a reward's judge keeps failing, when it does not learn (``learning``), on SIGTERM
or SIGUSR1, and when its Slurm job is about to end. In the last two cases nothing is wrong: the
script exits with status 75, which means that the same command continues from the checkpoint.

transformers' ``enable_jit_checkpoint`` is not used for SIGTERM: each rank starts its own timer and
never asks the others (``trainer_jit_checkpoint.py:39`` in 5.17 and 5.23). Two ranks may save at
different steps, and under ZeRO-3, where saving is collective, deadlock. It also handles neither
SIGUSR1 nor a deadline, and does not change the exit status.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from accelerate.utils.deepspeed import DeepSpeedOptimizerWrapper
from transformers import TrainerCallback

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.training.learning import (
    Learning,
    NothingLearnedError,
    Update,
    keep_progress,
)
from posh_reward.types import Failure

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from posh_reward.reward.trl import FailureLimit

T = TypeVar("T")

TRY_AGAIN = os.EX_TEMPFAIL
"""Exit status (75) of a run that stopped early with a checkpoint; launched again, it continues."""
STOP_BEFORE_MINUTES = 15.0
"""Minutes before the end of a Slurm job at which training stops, to save a checkpoint, which is
about 130 GB under ZeRO-3 for a 7B model."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""The signals that ask a run to save a checkpoint and stop."""
JOB_END_VARIABLE = "SLURM_JOB_END_TIME"
"""Environment variable with the job's end in Unix seconds; newer versions of Slurm set it, for
older ones our scripts do."""
NOTHING_JUDGED = Failure(
    "engine",
    "no completion had a reward in the last step, which left the weights as they were. The "
    "checkpoint is saved: with a judge that works, --resume_from_checkpoint latest ends the run "
    "with it, and a larger --max_steps or --num_train_epochs trains it further",
)
FAILED_ELSEWHERE = Failure("engine", "another rank's judge failed; see its log")


class StoppedEarlyError(PoshError, RuntimeError):
    """A run saved a checkpoint and stopped, because of a signal or its job's end."""


class StoppableReward(Protocol):
    """A reward function that can give up on its judge, such as ``PoshReward``."""

    @property
    def failures(self) -> FailureLimit:
        """Its failures so far."""
        ...

    @property
    def signature(self) -> str:
        """Everything that scores depend on; must be the same on all ranks."""
        ...


class StopWithCheckpoint(TrainerCallback):  # type: ignore[misc]
    """Stop training on all ranks after the current step as soon as one has a reason to.

    A rank that stopped alone would leave the others waiting in their next collective. So the ranks
    agree after each step: if one has to stop, all save a checkpoint, including the optimizer
    despite ``save_only_model``, and stop; ``trainer.train`` then raises on all of them.

    Args:
        rewards: the trainer's reward functions that can give up; none for SFT.
        stop_before: minutes before the end of the Slurm job at which to stop, to leave time for
            saving. Without ``SLURM_JOB_END_TIME`` there is no deadline.

    Raises:
        ConfigError: ``stop_before`` or the variable is invalid.
    """

    def __init__(self, *rewards: StoppableReward, stop_before: float = STOP_BEFORE_MINUTES) -> None:
        self.rewards = rewards
        self.learning = Learning()
        self.deadline = Deadline(job_deadline(stop_before))
        self.signals = StopSignals()
        self.stopped: str | None = None
        """Signal or deadline that stopped the run; the same on all ranks."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take over stopping from the rewards, and check that all ranks score alike."""
        self.stopped = None
        for reward in self.rewards:
            reward.failures.begin(supervised=True)
        self._batches = JudgedBatches([each.failures for each in self.rewards])
        own = "; ".join(each.signature for each in self.rewards)
        signatures = sorted(set(gather_from_ranks(own)))
        if len(signatures) > 1:
            raise JudgeError(f"the ranks score differently: {' and '.join(signatures)}")
        if not all(gather_from_ranks(self.deadline.begin())):
            raise ConfigError(
                "the time to stop has come before the first step: give the job more time "
                "(sbatch --time), or lower stop_before, the minutes reserved for saving"
            )
        optimizer: Any = kwargs.get("optimizer")
        deepspeed = isinstance(optimizer, DeepSpeedOptimizerWrapper)
        self.learning.begin(args, state, kwargs.get("model"), has_masters=deepspeed)
        if deepspeed:
            self._guard_deepspeed(optimizer.optimizer)
        self._set_evaluating(True)
        self.signals.listen()

    def _guard_deepspeed(self, optimizer: Any) -> None:
        """Make DeepSpeed's optimizer keep the weights, too, if no completion had a score.

        DeepSpeed steps at the end of its backward pass (accelerate 1.15, ``utils/deepspeed.py``),
        before ``on_pre_optimizer_step``. Only the torch optimizer inside is kept from stepping:
        DeepSpeed still has to free its gradients and gather its parameters.
        """
        step, inner = optimizer.step, optimizer.optimizer

        def step_if_judged(*args: Any, **kwargs: Any) -> None:
            update, rate, judged = inner.step, _highest_rate(optimizer), self._batches.was_judged()
            if not judged:
                inner.step = lambda *_, **__: None
            try:
                step(*args, **kwargs)
            finally:
                inner.step = update
            norm = getattr(optimizer, "_global_grad_norm", None) if judged else 0.0
            self.learning.after_deepspeed(norm, rate)

        optimizer.step = step_if_judged

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Count calls of the rewards from here on: outside of steps they are an evaluation's."""
        self._batches.begin_step()
        self._set_evaluating(False)

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note whether a batch that is accumulated was judged."""
        self._batches.note_batch()

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Keep the weights unchanged if nothing in the step's batches had a score on any rank.

        All advantages are then 0, but momentum and weight decay would still move the weights that
        the checkpoint saves. torch's optimizers skip parameters without a gradient.
        """
        judged, optimizer = self._batches.was_judged(), kwargs["optimizer"]
        if not isinstance(optimizer, DeepSpeedOptimizerWrapper):
            if not judged:
                optimizer.zero_grad(set_to_none=True)
            self.learning.before_update(kwargs["model"], _highest_rate(optimizer))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Agree with all ranks, after each optimizer step, on stopping."""
        self._set_evaluating(True)
        in_time = self.deadline.step_ends_in_time()
        judged = self._batches.was_judged()
        if state.global_step >= state.max_steps > 0 and not judged:
            # Too few calls for the rewards to give up, but this run must not pass for a whole one.
            for reward in self.rewards:
                reward.failures.stop_reason = reward.failures.stop_reason or NOTHING_JUDGED
        interruption = None
        if self.signals.first is not None:
            interruption = f"{self.signals.first} asked for it"
        elif not in_time:
            interruption = "the job's time is nearly up"
        was_skipped = getattr(kwargs.get("optimizer"), "step_was_skipped", False)
        update = self.learning.own_update(was_skipped=was_skipped)
        own = RankReport(self._gave_up(), interruption, update, *self._batches.new_counts())
        ranks = gather_from_ranks(own)
        self._note_progress(state, ranks, skipped=not judged)
        if any(rank.gave_up for rank in ranks):
            for reward in self.rewards:
                reward.failures.stop_reason = reward.failures.stop_reason or FAILED_ELSEWHERE
        elif state.global_step < state.max_steps:
            self.stopped = next(filter(None, [rank.interruption for rank in ranks]), None)
        if self._gave_up() or self.learning.problem or self.stopped is not None:
            save_and_stop(args, control)

    def _note_progress(
        self, state: TrainerState, ranks: Sequence[RankReport], *, skipped: bool
    ) -> None:
        progress = self.learning.progress
        progress.judged += sum(rank.judged for rank in ranks)
        progress.failed += sum(rank.failed for rank in ranks)
        progress.skipped += skipped
        self.learning.note_update([rank.update for rank in ranks])
        keep_progress(state, progress)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the share of weights that moved, and watch the share of cut completions."""
        self.learning.note_log(logs or {}, state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise the reason for the stop, now that the checkpoint has been saved."""
        self.signals.stop_listening()
        self._set_evaluating(False)
        failure = self._gave_up()
        if failure is not None:
            raise JudgeError(str(failure))
        if self.learning.problem is not None:
            raise NothingLearnedError(
                f"{self.learning.problem}. Stopped after step {state.global_step} of "
                f"{state.max_steps} with a checkpoint in {args.output_dir}"
            )
        if self.stopped is not None:
            raise StoppedEarlyError(
                f"stopped after step {state.global_step} of {state.max_steps} with a checkpoint in "
                f"{args.output_dir}: {self.stopped}. Continue with the same command and "
                "--resume_from_checkpoint latest, or in a script of your own with "
                "trainer.train(resume_from_checkpoint=True)"
            )
        self.learning.end()

    def _set_evaluating(self, evaluating: bool) -> None:
        for reward in self.rewards:
            reward.failures.evaluating = evaluating

    def _gave_up(self) -> Failure | None:
        reasons = [each.failures.stop_reason for each in self.rewards]
        return next(filter(None, reasons), None)


def log_before_trackers(trainer: Any) -> None:
    """Let trackers, such as W&B, see the figures that ``StopWithCheckpoint`` adds to the log.

    They come before a trainer's own callbacks. Those stay where they are, since one that raises at
    the end must not keep the trackers from ending.
    """
    callbacks = trainer.callback_handler.callbacks
    for callback in list(callbacks):
        if isinstance(callback, StopWithCheckpoint):
            callbacks.insert(0, _LogFirst(callback))


class _LogFirst(TrainerCallback):  # type: ignore[misc]
    def __init__(self, stop: StopWithCheckpoint) -> None:
        self.on_log = stop.on_log


def _highest_rate(optimizer: Any) -> float:
    """Return the highest learning rate of an optimizer's next step."""
    return max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)


@dataclass(frozen=True, slots=True)
class RankReport:
    """Report of a rank to the others after a step."""

    gave_up: Failure | None
    interruption: str | None
    update: Update
    judged: int  # completions in the step's calls
    failed: int


class JudgedBatches:
    """Record of the judged batches: an optimizer step counts if any behind it was judged.

    TRL may generate for several batches at once (``steps_per_generation``), train on them twice
    (``num_iterations``), or ask for rewards more than once for a batch (``refill``). So a batch
    belongs to the latest calls of the rewards. With calls A and B for three batches each, and two
    batches a step, the steps are AA, AB and BB: the second one counts if A or B was judged.
    """

    def __init__(self, rewards: Sequence[FailureLimit]) -> None:
        self._rewards = rewards
        self._seen = self._reported = self._read_counts()
        self._latest = True  # the verdict on the latest calls; a trainer may call elsewhere
        self.begin_step()

    def begin_step(self) -> None:
        """Forget the batches of the step before."""
        self._any_judged = False
        self._verdict: bool | None = None

    def note_batch(self) -> None:
        """Add the batch that was just trained on."""
        pairs = list(zip(self._seen, self._read_counts(), strict=True))
        judged = [now[0] > before[0] for before, now in pairs if now != before]
        # Functions that share a judge fail together: what one of them lacks, none rewards.
        self._latest = all(judged) if judged else self._latest
        self._any_judged |= self._latest
        self._seen = self._read_counts()

    def was_judged(self) -> bool:
        """Decide on the step, alike on all ranks; every rank has to call this."""
        if self._verdict is None:
            self.note_batch()
            self._verdict = not self._rewards or any(gather_from_ranks(self._any_judged))
        return self._verdict

    def new_counts(self) -> tuple[int, int]:
        """Return how many completions were judged, and failed, since the last call."""
        pairs = list(zip(self._reported, self._read_counts(), strict=True))
        self._reported = self._read_counts()
        judged = min((now[0] - before[0] for before, now in pairs), default=0)
        failed = max((now[1] - before[1] for before, now in pairs), default=0)
        return judged, failed

    def _read_counts(self) -> list[tuple[int, int]]:
        return [(each.judged, each.failed) for each in self._rewards]


def save_and_stop(args: TrainingArguments, control: TrainerControl) -> None:
    """Ask the trainer to save a checkpoint after this step and stop; on every rank."""
    args.save_only_model = False  # resuming needs the optimizer
    control.should_save = True
    control.should_evaluate = False
    control.should_training_stop = True


def gather_from_ranks(value: T) -> list[T]:
    """Gather every rank's ``value``, in rank order; every rank has to call this."""
    from accelerate.utils import gather_object

    values: list[T] = gather_object([value])
    return values


class StopSignals:
    """Record the first of ``STOP_SIGNALS`` while it listens; in the main thread only."""

    def __init__(self) -> None:
        self.first: str | None = None  # its name
        self._previous: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Start recording signals, which then no longer end the process."""
        self.first = None
        if self._previous or threading.current_thread() is not threading.main_thread():
            return
        self._previous = {each: signal.signal(each, self._record_signal) for each in STOP_SIGNALS}

    def stop_listening(self) -> None:
        """Restore the previous handlers."""
        for each, handler in self._previous.items():
            # None: a handler installed by C code, which Python cannot restore.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._previous = {}

    def _record_signal(self, number: int, frame: object) -> None:
        self.first = self.first or signal.Signals(number).name


class Deadline:
    """A time ``at`` (Unix seconds) by which the last step must end.

    The next step is assumed to last as long as the longest so far.
    """

    def __init__(self, at: float, now: Callable[[], float] = time.time) -> None:
        self._at, self._now = at, now
        self._last, self._longest = math.nan, 0.0

    def begin(self) -> bool:
        """Start timing the first step; return False if the deadline has passed."""
        self._last, self._longest = self._now(), 0.0
        return self._last < self._at

    def step_ends_in_time(self) -> bool:
        """Record that a step has ended; return False if another would end after the deadline."""
        now = self._now()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        return now + self._longest <= self._at


def job_deadline(minutes_before: float, environment: Mapping[str, str] = os.environ) -> float:
    """Return when training must stop, in Unix seconds; infinity outside of a Slurm job."""
    if not minutes_before >= 0:
        raise ConfigError(f"stop_before is {minutes_before}: use 0 or more minutes")
    end = environment.get(JOB_END_VARIABLE)
    if not end:
        return math.inf
    try:
        return float(end) - 60 * minutes_before
    except ValueError:
        raise ConfigError(f"{JOB_END_VARIABLE} is {end!r}: use Unix seconds (date +%s)") from None
