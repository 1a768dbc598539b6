"""The reward as a task of verifiers, on traces made by hand."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.groups import FAILED, REASON, REFERENCE, TEXTS, rewards, scores

pytestmark = pytest.mark.adapters


def traces() -> list[Any]:
    """A group as its rollouts leave it: scored at the same time, errors recorded on the trace."""
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo, TraceTask

    from posh_reward.adapters.verifiers import DescriptionData, DescriptionTask

    class Captions(DescriptionTask):
        reward = "tests.adapters.groups:REWARD"

    task = Captions(DescriptionData(prompt="Describe.", reference=REFERENCE))

    async def rollout(text: str) -> Any:
        trace = vf.Trace(
            task=TraceTask(type="Captions", data=task.data),
            agent=AgentInfo(config=vf.AgentConfig()),
            nodes=[MessageNode(message=vf.AssistantMessage(content=text), sampled=True)],
        )
        try:
            await task.score(trace)
            trace.ok = True
        except vf.TaskError as error:
            trace.record_error(error)
        return trace

    async def group() -> list[Any]:
        return await asyncio.gather(*map(rollout, TEXTS))

    return asyncio.run(group())


def test_rewards_and_sub_scores_are_those_of_a_direct_call() -> None:
    for trace, expected, score in zip(traces(), rewards(), scores(), strict=True):
        if expected is None:
            continue
        assert trace.ok
        assert trace.reward == expected
        assert trace.rewards.keys() == {"posh"}
        assert trace.metrics["posh_precision"] == score.precision
        assert trace.info["posh_elements"][0]["kind"] == "entity"


def test_a_failed_reply_marks_its_trace() -> None:
    trace = traces()[FAILED]
    assert trace.has_error
    assert REASON in trace.last_error.message
    assert trace.stop_condition == "task_error"
    assert all(value is None for value in trace.rewards.values())


TASKSET = """
from collections.abc import Iterator

import verifiers.v1 as vf

from posh_reward.adapters.verifiers import DescriptionData, DescriptionTask


class CaptionsTaskset(vf.Taskset[DescriptionTask, vf.TasksetConfig]):
    def load(self) -> Iterator[DescriptionTask]:
        for reference in ["A tall woman in a red dress holds a basket.", "None."]:
            data = DescriptionData(prompt="Describe the image.", reference=reference)
            yield DescriptionTask(data, self.config.task)
"""


def test_its_validator_accepts_an_environment_package(tmp_path: Path) -> None:
    """``vf-init`` lays out a package as its hub has it; ``vf-validate`` loads and checks it."""

    def run(*command: str) -> str:
        program = Path(sys.executable).with_name(command[0])
        path = os.pathsep.join(
            (str(tmp_path / "environments" / "captions"), os.environ["PYTHONPATH"])
        )
        done = subprocess.run(
            [program, *command[1:]], cwd=tmp_path, text=True, capture_output=True, timeout=300,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("vf-init", "captions")
    (tmp_path / "environments" / "captions" / "captions" / "taskset.py").write_text(TASKSET)
    print(run("vf-validate", "captions", "--runtime.type", "subprocess", "--no-rich")[-1500:])
    [file] = tmp_path.glob("outputs/*/results.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = {row["index"]: (row["gold"]["reason"], row["noop"]["reason"]) for row in rows}
    assert found == {0: ("valid", "valid"), 1: ("invalid", "valid")}
