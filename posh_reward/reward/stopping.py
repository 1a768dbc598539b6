"""A run that gets no reward any more is stopped with a checkpoint, by all ranks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from transformers import TrainerCallback

from posh_reward.errors import JudgeError
from posh_reward.reward.trl import PoshReward

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

T = TypeVar("T")

ELSEWHERE = "another rank's judge failed; see its log"


class StopWithCheckpoint(TrainerCallback):  # type: ignore[misc]
    """Ends training after the step in which a reward gave up on its judge.

    A rank that raised alone would leave the others waiting in their next collective, with the
    steps since the last checkpoint lost. So the ranks agree after each step: if one has to stop,
    all save a checkpoint and stop. Call ``raise_if_stopped`` after ``trainer.train``.

    Args:
        reward: the trainer's reward function.
    """

    def __init__(self, reward: PoshReward) -> None:
        self.reward = reward
        reward.raises = False

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Sees to it that all ranks are judged alike.

        Raises:
            JudgeError: they are not, such as by two revisions of a model; on all ranks.
        """
        self.reward.begin()
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
            control.should_evaluate = False  # by whom?
            control.should_training_stop = True


def raise_if_stopped(trainer: Trainer) -> None:
    """To be called when training has ended and all is saved.

    Raises:
        JudgeError: it ended because nothing could be judged.
    """
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, StopWithCheckpoint) and callback.reward.failure is not None:
            raise JudgeError(callback.reward.failure)


def any_rank(flag: bool) -> bool:
    """Whether ``flag`` holds on one of the ranks; the same answer on all."""
    return any(of_all_ranks(flag))


def of_all_ranks(value: T) -> list[T]:
    """What each rank has given, in their order; all have to call this at once."""
    from accelerate.utils import gather_object

    everyones: list[T] = gather_object([value])
    return everyones
