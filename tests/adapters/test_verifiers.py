"""The reward as a task of verifiers, on traces made by hand."""

from __future__ import annotations

import asyncio
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
