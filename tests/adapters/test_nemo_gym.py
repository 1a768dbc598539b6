"""The reward as a resources server of NeMo Gym, by its own exercise of verifiers."""

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from posh_reward import PoshReward, Shaping
from tests.adapters.groups import FAILED, METRIC, REASON, REFERENCE, TEXTS, rewards, scores

pytestmark = pytest.mark.adapters
SEPARATE = PoshReward(METRIC, Shaping("separate"))


def request(text: str, **columns: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {
        "id": "m", "type": "message", "role": "assistant", "status": "completed",
        "content": content,
    }  # fmt: skip
    response = {
        "id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message],
        "parallel_tool_calls": False, "tool_choice": "none", "tools": [],
    }  # fmt: skip
    return {"responses_create_params": {"input": "Describe."}, "response": response, **columns}


def server(name: str = "tests.adapters.groups:REWARD") -> tuple[Any, Any]:
    """A server, and the model of its requests."""
    from nemo_gym.server_utils import ServerClient

    from posh_reward.adapters.environments import nemo_gym_server

    make = nemo_gym_server()
    config = make.__annotations__["config"](
        host="127.0.0.1", port=8080, entrypoint="app.py", name="posh", reward=name
    )
    made = make(config=config, server_client=MagicMock(spec=ServerClient))
    return made, make.verify.__annotations__["body"]


def test_its_own_exercise_passes(tmp_path: Path) -> None:
    from nemo_gym.verifier_fixture import VerifierFixture, exercise_verifier_fixture

    def case(name: str, kind: str, text: str, reward: float) -> dict[str, Any]:
        asked = request(text, reference=REFERENCE)
        return {"name": name, "kind": kind, "request": asked, "expected_reward": reward}

    best = rewards()[1] or 0
    broken = {"name": "no response", "kind": "malformed", "expected_error": "response"}
    cases = [
        case("the reference", "full_reward", TEXTS[1], best),
        case("nothing", "zero_reward", "", 0.2),
        case("again", "determinism", TEXTS[0], rewards()[0] or 0),
        {**broken, "request": {"responses_create_params": {"input": "Describe."}}},
    ]
    path = tmp_path / "verifier_cases.jsonl"
    path.write_text("\n".join(map(json.dumps, cases)))
    fixture = VerifierFixture(
        server_factory=lambda: server()[0],
        request_model=server()[1],
        cases_path=path,
        reseed=lambda *_: None,
    )
    outcome = exercise_verifier_fixture(fixture, reward_range=(0.2, best), determinism="seeded")
    assert [each.name for each in asyncio.run(outcome)] == [each["name"] for each in cases]


def test_its_endpoint_masks_what_could_not_be_judged() -> None:
    from fastapi.testclient import TestClient

    client = TestClient(server()[0].setup_webserver())
    for at, (text, reward, score) in enumerate(zip(TEXTS, rewards(), scores(), strict=True)):
        reply = client.post("/verify", json=request(text, reference=REFERENCE))
        assert reply.status_code == 200, reply.text
        found = reply.json()
        assert found["mask_sample"] == (at == FAILED)
        if at == FAILED:
            assert found["failure_kind"] == "judge_failed"
            assert REASON in found["failure_reason"]
        else:
            assert found["reward"] == reward
            assert found["posh_recall"] == score.recall
            assert found["reward_components"] == {"posh_reward": reward}


def test_two_objectives_are_its_components() -> None:
    made, model = server(f"{__name__}:SEPARATE")
    found = asyncio.run(made.verify(model.model_validate(request(TEXTS[0], reference=REFERENCE))))
    direct = SEPARATE.rewards_of(scores())
    assert found.reward_components == {
        "posh_precision_reward": direct["posh_precision"][0],
        "posh_recall_reward": direct["posh_recall"][0],
    }
    # NeMo-RL's validate_reward_components_match_scalar
    assert found.reward == sum(found.reward_components.values())
