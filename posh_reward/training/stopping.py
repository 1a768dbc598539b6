"""Stops a run that gets no more rewards: all ranks at once, with a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from transformers import TrainerCallback

from posh_reward.errors import JudgeError
from posh_reward.reward.trl import PoshReward
from posh_reward.types import Failure

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

T = TypeVar("T")

ELSEWHERE = Failure("engine", "another rank's judge failed; see its log")


class StopWithCheckpoint(TrainerCallback):  # type: ignore[misc]
    """Ends training after the step in which a reward gave up on its judge.

    A rank that raised alone would leave the others waiting in their next collective, and lose the
    steps since the last checkpoint. So the ranks agree after each step: if one has to stop, all
    save a checkpoint and stop, and ``trainer.train`` raises on all of them.

    Args:
        reward: the trainer's reward function.
    """

    def __init__(self, reward: PoshReward) -> None:
        self.reward = reward

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Takes over stopping from the reward, and checks that all ranks judge alike.

        Raises:
            JudgeError: they do not, such as with two revisions of a model; on all ranks.
        """
        self.reward.begin(supervised=True)
        there = sorted(set(of_all_ranks(self.reward.posh.signature)))
        if len(there) > 1:
            raise JudgeError(f"the ranks do not judge alike: {' and '.join(there)}")

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Asks all ranks; called by the trainer after each optimizer step."""
        if any_rank(self.reward.failure is not None):
            self.reward.failure = self.reward.failure or ELSEWHERE
            control.should_save = True
            control.should_evaluate = False  # nothing could be judged
            control.should_training_stop = True

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Called by the trainer when the checkpoint has been saved.

        Raises:
            JudgeError: training ended because nothing could be judged; on all ranks.
        """
        if self.reward.failure is not None:
            raise JudgeError(str(self.reward.failure))


def any_rank(flag: bool) -> bool:
    """Whether ``flag`` holds on one of the ranks; the same answer on all."""
    return any(of_all_ranks(flag))


def of_all_ranks(value: T) -> list[T]:
    """Every rank's ``value``, in the order of ranks; all of them have to call this."""
    from accelerate.utils import gather_object

    everyones: list[T] = gather_object([value])
    return everyones
