"""The reward as an OpenEnv server, by its own validator and client."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from tests.adapters.groups import FAILED, REASON, REFERENCE, TEXTS, rewards, scores

pytestmark = pytest.mark.adapters


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    import uvicorn

    from posh_reward.adapters.environments import openenv_app

    app = openenv_app(
        [{"reference": "unused"}, {"reference": REFERENCE, "prompt": "What is shown?"}],
        "tests.adapters.groups:REWARD",
    )
    server = uvicorn.Server(uvicorn.Config(app, port=8763, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield "http://127.0.0.1:8763"
    server.should_exit = True
    thread.join()


def test_its_validator_accepts_the_server(url: str) -> None:
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(url)
    found = {each["id"]: each["passed"] for each in report["criteria"]}
    print(found)
    assert report["passed"], report


def test_rewards_are_those_of_a_direct_call_and_a_failed_one_is_null(url: str) -> None:
    from openenv.core.generic_client import GenericEnvClient

    async def episode(text: str) -> object:
        async with GenericEnvClient(base_url=url) as client:
            first = await client.reset(seed=1)
            assert first.observation["prompt"] == "What is shown?"
            return await client.step({"description": text})

    async def episodes() -> list[object]:
        return await asyncio.gather(*map(episode, TEXTS))

    steps = asyncio.run(episodes())
    for step, expected, score in zip(steps, rewards(), scores(), strict=True):
        assert step.done  # type: ignore[attr-defined]
        assert step.reward == expected  # type: ignore[attr-defined]
        if expected is not None:
            metadata = step.observation["metadata"]  # type: ignore[attr-defined]
            assert metadata["posh_recall"] == score.recall
    assert REASON in str(steps[FAILED].observation["metadata"]["failure"])  # type: ignore[attr-defined]


def test_a_request_without_a_session_brings_its_row(url: str) -> None:
    import httpx

    body = {"action": {"description": TEXTS[1]}, "reference": REFERENCE}
    assert httpx.post(f"{url}/step", json=body).json()["reward"] == rewards()[1]
