"""The reward in a group of prime-rl, as its GRPO has it (from its repository)."""

import asyncio

import pytest

from tests.adapters.groups import FAILED, rewards
from tests.adapters.test_verifiers import traces

pytestmark = pytest.mark.adapters


def test_a_failed_reply_has_no_advantage_and_is_not_trained_on() -> None:
    pytest.importorskip("prime_rl", reason="prime-rl is not on PyPI: name a checkout by --source")
    import verifiers.v1 as vf
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo.base import iter_trainable_traces
    from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
    from prime_rl.orchestrator.algo.routing import scalar_advantage

    group = traces()
    for trace in group:
        # A prompt's token and two of the reply, as its renderer leaves them.
        [node] = trace.nodes
        node.token_ids, node.mask = [1, 2, 3], [False, True, True]
    episodes = [vf.Episode(task=trace.task, traces=[trace]) for trace in group]
    algorithm = GRPOAlgorithm(GRPOAlgoConfig(), policy_pool=None)

    async def finalize() -> None:
        for episode in episodes:
            await algorithm.finalize_episode(episode)
        await algorithm.finalize_group(episodes)

    asyncio.run(finalize())
    valid = [reward for reward in rewards() if reward is not None]
    for trace, reward in zip(group, rewards(), strict=True):
        if reward is not None:
            advantage = reward - sum(valid) / len(valid)
            assert scalar_advantage(trace) == pytest.approx(advantage, abs=1e-6)
    assert scalar_advantage(group[FAILED]) is None
    trained = [
        trace.id for _, trace in iter_trainable_traces(episodes)
    ]  # its train sink's survivors
    assert trained == [trace.id for at, trace in enumerate(group) if at != FAILED]
    print(f"advantages {[scalar_advantage(trace) for trace in group]}")
