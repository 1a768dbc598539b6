"""Early stops: of all ranks after the same step, with a checkpoint.

A run stops when a reward gets no more scores, when a signal asks for it (SIGTERM, SIGUSR1), and
when its Slurm job is about to end. In the last two cases nothing is wrong: the script ends with
exit status 75, which means that the same command goes on from the checkpoint.

transformers has ``enable_jit_checkpoint`` for SIGTERM. It is not used, because each rank starts a
timer of its own and never asks the others (``trainer_jit_checkpoint.py:39`` in 5.17 and 5.23): two
ranks may save at different steps, and in ZeRO-3, where saving is collective, wait for each other
for ever. It also knows neither SIGUSR1 nor a deadline, and leaves no trace in the exit status.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from transformers import TrainerCallback

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.training.interruptions import Deadline, StopSignals, job_deadline
from posh_reward.types import Failure

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

T = TypeVar("T")

TRY_AGAIN = os.EX_TEMPFAIL
"""75: exit status of a run that stopped early with a checkpoint. Launched again, it goes on."""
STOP_BEFORE = 15.0
"""Minutes before the end of a Slurm job at which training stops: a ZeRO-3 checkpoint of a 7B model
is about 130 GB."""
ELSEWHERE = Failure("engine", "another rank's judge failed; see its log")


class StoppedEarlyError(PoshError, RuntimeError):
    """A run saved a checkpoint and stopped, because it was asked to or its time was up."""


class StoppableReward(Protocol):
    """A reward function that can give up on its judge, such as ``PoshReward``."""

    stop_reason: Failure | None
    """Reason to stop; None as long as there is none."""

    last_call_failed: bool
    """True if the last call had completions and none of them has a score."""

    @property
    def signature(self) -> str:
        """All that the scores depend on; the same on all ranks."""
        ...

    def begin(self, *, supervised: bool = False) -> None:
        """Begin a run; ``supervised`` if something else acts on ``failure``."""
        ...


class StopWithCheckpoint(TrainerCallback):  # type: ignore[misc]
    """An end of training after the running step, once one rank has a reason to.

    A rank that stopped alone would leave the others waiting in their next collective, and lose the
    steps since the last checkpoint. So the ranks agree after each step: if one has to stop, all
    save a checkpoint, with the optimizer whatever ``save_only_model`` says, and stop;
    ``trainer.train`` then raises on all of them.

    Args:
        rewards: the trainer's reward functions that can give up; none for SFT.
        stop_before: minutes before the end of the Slurm job at which to stop, so that there is
            time to save. The end is in ``SLURM_JOB_END_TIME``; without it there is no deadline.

    Raises:
        ConfigError: ``stop_before`` or the variable is not usable.
    """

    def __init__(self, *rewards: StoppableReward, stop_before: float = STOP_BEFORE) -> None:
        self.rewards = rewards
        self.deadline = Deadline(job_deadline(stop_before))
        self.signals = StopSignals()
        self.stopped: str | None = None
        """Reason for a stop although nothing is wrong; the same on all ranks."""

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Take over stopping from the rewards, and check that all ranks judge alike.

        Raises:
            JudgeError: they do not, such as with two revisions of a model; on all ranks.
            ConfigError: there is no time left for a single step; on all ranks.
        """
        self.stopped = None
        for reward in self.rewards:
            reward.begin(supervised=True)
        own = "; ".join(each.signature for each in self.rewards)
        signatures = sorted(set(of_all_ranks(own)))
        if len(signatures) > 1:
            raise JudgeError(f"the ranks do not judge alike: {' and '.join(signatures)}")
        self.deadline.begin()
        if any(of_all_ranks(self.deadline.seconds_left <= 0)):
            raise ConfigError(
                "the time to stop has come before the first step: give the job more time "
                "(sbatch --time), or lower stop_before, the minutes that are kept for saving"
            )
        self.signals.listen()

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Leave the weights alone if no completion of any rank had a score.

        All advantages are 0 then, but an optimizer with momentum, or weight decay, would still
        move the weights, and the checkpoint to resume from would hold that. Parameters without a
        gradient are skipped by torch's optimizers. DeepSpeed steps within its backward pass, so
        there momentum goes on until the run stops.
        """
        failed = [each.last_call_failed for each in self.rewards]
        if self.rewards and all(of_all_ranks(any(failed))):
            kwargs["optimizer"].zero_grad(set_to_none=True)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Ask all ranks after each optimizer step."""
        self.deadline.end_step()
        reasons = of_all_ranks((self._gave_up(), self._interruption()))
        if any(gave_up for gave_up, _ in reasons):
            for reward in self.rewards:
                reward.stop_reason = reward.stop_reason or ELSEWHERE
        elif state.global_step < state.max_steps:
            self.stopped = next((why for _, why in reasons if why is not None), None)
        if self._gave_up() or self.stopped is not None:
            args.save_only_model = False  # nothing could be resumed without the optimizer
            control.should_save = True
            control.should_evaluate = False
            control.should_training_stop = True

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Raise the reason for the stop, now that the checkpoint has been saved.

        Raises:
            JudgeError: training ended because nothing could be judged; on all ranks.
            StoppedEarlyError: it ended because of a signal or the deadline; on all ranks.
        """
        self.signals.unlisten()
        failure = self._gave_up()
        if failure is not None:
            raise JudgeError(str(failure))
        if self.stopped is not None:
            raise StoppedEarlyError(
                f"stopped after step {state.global_step} of {state.max_steps} with a checkpoint in "
                f"{args.output_dir}: {self.stopped}. The same command with "
                "--resume_from_checkpoint latest goes on from there"
            )

    def _gave_up(self) -> Failure | None:
        return next(
            (each.stop_reason for each in self.rewards if each.stop_reason is not None), None
        )

    def _interruption(self) -> str | None:
        if self.signals.first is not None:
            return f"{self.signals.first} asked for it"
        return "the job's time is nearly up" if self.deadline.is_over else None


def of_all_ranks(value: T) -> list[T]:
    """Gather every rank's ``value``, in order; all of them have to call this."""
    from accelerate.utils import gather_object

    values: list[T] = gather_object([value])
    return values
