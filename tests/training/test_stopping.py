"""A run stops early, saved, when its judge has died, a signal asks for it or time is up.

Two ranks: tests/recipes/test_ranks.py and test_survival.py.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from posh_reward import JudgeError, PoSh, PoshReward
from posh_reward.errors import ConfigError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.trl import FailureLimit
from posh_reward.training.stopping import (
    Deadline,
    StoppedEarlyError,
    StopWithCheckpoint,
    job_deadline,
)
from posh_reward.types import Failure

GONE = Failure("engine", "gone")


@pytest.fixture
def args(tmp_path: Path) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to="none", save_only_model=True
    )


@pytest.fixture
def callback() -> Iterator[StopWithCheckpoint]:
    """Of a run without rewards, such as SFT."""
    made = StopWithCheckpoint()
    yield made
    made.signals.stop_listening()


def at_step(step: int) -> TrainerState:
    return TrainerState(global_step=step, max_steps=5)


def test_the_step_after_the_last_failure_saves_and_stops(args: TrainingArguments) -> None:
    reward = PoshReward(PoSh(FakeJudge(lambda request: GONE)), max_failed_calls=2)
    callback = StopWithCheckpoint(reward)
    callback.on_train_begin(args, TrainerState(), TrainerControl())
    seen = []
    for _ in range(2):
        callback.on_step_begin(args, TrainerState(), TrainerControl())
        assert reward(completions=["A dog."], reference=["A brown dog."]) == [None]
        control = TrainerControl()
        callback.on_step_end(args, TrainerState(), control)
        seen.append((control.should_save, control.should_training_stop))
    assert seen == [(False, False), (True, True)]
    assert reward.failures.stop_reason is not None
    with pytest.raises(JudgeError, match="2 calls in a row; the last reason: gone"):
        callback.on_train_end(args, TrainerState(), TrainerControl())


def test_a_judge_that_dies_in_the_last_steps_is_no_success(args: TrainingArguments) -> None:
    """Of ten calls in a row that it takes to give up, only two were left."""
    alive = [True]
    judge = FakeJudge(lambda request: 4.0 if alive[0] else GONE)
    reward = PoshReward(PoSh(judge))
    callback = StopWithCheckpoint(reward)
    callback.on_train_begin(args, at_step(0), TrainerControl())
    for step in range(1, 6):
        alive[0] = step < 4
        callback.on_step_begin(args, at_step(step - 1), TrainerControl())
        reward(completions=["A dog."], reference=["A brown dog."])
        control = TrainerControl()
        callback.on_step_end(args, at_step(step), control)
        assert (control.should_save, args.save_only_model) == (step == 5, step < 5)
    with pytest.raises(JudgeError, match="no completion had a reward in the last step"):
        callback.on_train_end(args, at_step(5), TrainerControl())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_a_checkpoint_that_can_be_resumed_from(
    callback: StopWithCheckpoint, args: TrainingArguments, number: signal.Signals
) -> None:
    callback.on_train_begin(args, at_step(0), TrainerControl())
    os.kill(os.getpid(), number)
    control = TrainerControl()
    callback.on_step_end(args, at_step(3), control)
    assert (control.should_save, control.should_training_stop) == (True, True)
    assert not args.save_only_model, "its optimizer is saved too"
    with pytest.raises(StoppedEarlyError, match=f"after step 3 of 5 .*: {number.name} asked"):
        callback.on_train_end(args, at_step(3), control)


def test_without_a_reason_a_run_goes_on(
    callback: StopWithCheckpoint, args: TrainingArguments
) -> None:
    control = TrainerControl()
    callback.on_train_begin(args, at_step(0), control)
    callback.on_step_end(args, at_step(3), control)
    callback.on_train_end(args, at_step(5), control)
    assert (control.should_save, control.should_training_stop) == (False, False)
    assert args.save_only_model


def test_a_signal_in_the_last_step_comes_too_late_to_matter(
    callback: StopWithCheckpoint, args: TrainingArguments
) -> None:
    callback.on_train_begin(args, at_step(0), TrainerControl())
    os.kill(os.getpid(), signal.SIGUSR1)
    callback.on_step_end(args, at_step(5), TrainerControl())
    callback.on_train_end(args, at_step(5), TrainerControl())


def test_a_run_stops_before_its_job_ends(
    args: TrainingArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(time.time() + 60.2))
    callback = StopWithCheckpoint(stop_before=1)
    callback.on_train_begin(args, at_step(0), TrainerControl())
    time.sleep(0.15)  # another step like this one would end after the deadline
    control = TrainerControl()
    callback.on_step_end(args, at_step(1), control)
    assert control.should_training_stop
    with pytest.raises(StoppedEarlyError, match="time is nearly up"):
        callback.on_train_end(args, at_step(1), control)


def test_a_step_as_long_as_the_longest_must_still_fit() -> None:
    times = iter((0, 10, 40, 50, 90))
    deadline = Deadline(100, now=lambda: next(times))
    assert deadline.begin()
    seen = [deadline.step_ends_in_time() for _ in range(4)]
    assert seen == [True, True, True, False], "at 90 a step of 40 would end at 130"


def test_the_deadline_is_minutes_before_the_jobs_end() -> None:
    assert job_deadline(15, {"SLURM_JOB_END_TIME": "10000"}) == 9100


def test_a_job_without_time_for_a_step_says_so(
    args: TrainingArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(time.time() + 60))
    with pytest.raises(ConfigError, match="before the first step: give the job more time"):
        StopWithCheckpoint(stop_before=2).on_train_begin(args, at_step(0), TrainerControl())


def test_any_reward_that_can_give_up_plugs_in(args: TrainingArguments) -> None:
    class Another:
        signature = "another"
        failures = FailureLimit(1)

    first, second = PoshReward(PoSh(FakeJudge())), Another()
    callback = StopWithCheckpoint(first, second)
    callback.on_train_begin(args, at_step(0), TrainerControl())
    second.failures.stop_reason = GONE
    control = TrainerControl()
    callback.on_step_end(args, at_step(1), control)
    assert control.should_training_stop
    assert first.failures.stop_reason is not None, "nothing more need be asked"
    with pytest.raises(JudgeError):
        callback.on_train_end(args, at_step(1), control)
