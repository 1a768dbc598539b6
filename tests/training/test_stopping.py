"""A run whose judge has died stops by itself, saved; see tests/recipes/test_ranks.py for two."""

from __future__ import annotations

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from posh_reward import JudgeError, PoSh, PoshReward
from posh_reward.metrics.posh.judges.fake import FakeJudge
from posh_reward.training.stopping import StopWithCheckpoint
from posh_reward.types import Failure

GONE = Failure("engine", "gone")


def test_the_step_after_the_last_failure_saves_and_stops(tmp_path: object) -> None:
    reward = PoshReward(PoSh(FakeJudge(lambda request: GONE)), max_failed_calls=2)
    callback = StopWithCheckpoint(reward)
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    callback.on_train_begin(args, TrainerState(), TrainerControl())
    seen = []
    for _ in range(2):
        assert reward(completions=["A dog."], reference=["A brown dog."]) == [None]
        control = TrainerControl()
        callback.on_step_end(args, TrainerState(), control)
        seen.append((control.should_save, control.should_training_stop))
    assert seen == [(False, False), (True, True)]
    assert reward.failure is not None
    with pytest.raises(JudgeError, match="2 calls in a row; the last reason: gone"):
        callback.on_train_end(args, TrainerState(), TrainerControl())


def test_a_judge_that_cannot_work_is_found_before_training() -> None:
    with pytest.raises(JudgeError, match="first pair: gone"):
        PoshReward(PoSh(FakeJudge(lambda request: GONE))).check()
    PoshReward(PoSh(FakeJudge())).check()
