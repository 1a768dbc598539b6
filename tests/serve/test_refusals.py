"""Refusals: their one form, in replies, in the schema and in the client's errors."""

import json
from typing import Any

import pytest

from posh_reward import InputError, JudgeError, PoSh, PoshReward
from posh_reward.serve.app import CAUSES, LONGEST_VALUE, Refusal, create_app
from posh_reward.serve.client import RemotePosh
from posh_reward.serve.window import BatchedMetric
from tests.serve.test_app import REFERENCE, Gone, ask, get, rows_of, served

KEY = "s3cret-of-mine"
OPENRLHF = {"query": ["A dog."], "prompts": [], "labels": []}
CASES: list[tuple[str, str, object, tuple[int, str, str | None, str | None]]] = [
    ("POST", "/v1/score", {}, (422, "invalid", "rows", None)),
    ("POST", "/v1/score", {"rows": 5}, (422, "invalid", "rows", "5")),
    ("POST", "/v1/score", {"rows": [{"refrence": "a\x1b[31m\ud800 dog"}]},
     (422, "invalid", "rows.0.refrence", "a\\x1b[31m\ud800 dog")),
    ("POST", "/v1/score", {"rows": [], "elements": "x" * 999},
     (422, "invalid", "elements", "x" * 57 + " ... " + "x" * 57)),
    ("POST", "/v1/score", {"rows": rows_of(["A dog."] * 4)}, (422, "invalid", "body", None)),
    ("POST", "/v1/score", b"{{", (422, "invalid", "body", None)),
    ("POST", "/v1/score", b"[" * 100_000, (422, "invalid", "body", None)),
    ("POST", "/v1/openrlhf", OPENRLHF,
     (422, "invalid", "query, prompts, labels", "[1, 0, 0]")),
    ("POST", "/v1/openrlhf", {"query": ["A dog."], "prompts": ["Say:"], "labels": [REFERENCE]},
     (422, "not_scored", "query.0", "A dog.")),
    ("POST", "/v1/slime", {"response": "A dog."}, (422, "not_scored", "label", None)),
    ("POST", "/v1/slime", {"response": 5, "label": REFERENCE},
     (422, "not_scored", "response", "5")),
    ("GET", "/v1/score", None, (405, "method_not_allowed", "method", "GET")),
    ("GET", "/nowhere", None, (404, "not_found", "path", "/nowhere")),
]  # fmt: skip


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


@pytest.fixture
def app(posh: PoSh) -> Any:
    metric = BatchedMetric(posh, capacity=3)
    return create_app(metric, PoshReward(metric))


def refusal_of(response: Any) -> tuple[int, str, str | None, str | None]:
    """Status, code, field and value, after a check of the form."""
    body = Refusal.model_validate(response.json())
    assert {*response.json()} == {"code", "error", "field", "value", "remedy"}
    assert "\n" not in body.error + body.remedy
    assert body.error
    assert body.remedy.endswith(".")
    assert len(body.value or "") <= LONGEST_VALUE
    assert CAUSES[body.code][0] == response.status_code
    return response.status_code, body.code, body.field, body.value


@pytest.mark.parametrize(("method", "path", "body", "refusal"), CASES)
def test_a_refusal_names_field_value_and_remedy(
    app: Any, method: str, path: str, body: object, refusal: tuple[Any, ...]
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    response = ask(
        app, lambda client: client.request(method, path, content=content, headers=headers)
    )
    assert refusal_of(response) == refusal


def test_a_body_that_does_not_say_that_it_is_json(app: Any) -> None:
    """As curl sends it with -d alone."""
    body = json.dumps({"rows": rows_of(["A dog."])}).encode()
    kind = "application/x-www-form-urlencoded"
    response = ask(
        app, lambda client: client.post("/v1/score", content=body, headers={"content-type": kind})
    )
    assert refusal_of(response) == (422, "invalid", "Content-Type", kind)
    assert "Content-Type: application/json" in response.json()["error"]


def test_those_of_the_server_have_the_same_form(
    posh: PoSh, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = create_app(BatchedMetric(posh), key=KEY)
    response = get(locked, "/v1/metric", headers={"Authorization": "Bearer s3cret-of-yours"})
    assert refusal_of(response) == (401, "unauthorized", "Authorization", None)
    assert refusal_of(get(create_app(BatchedMetric(Gone())), "/nowhere"))[0] == 404
    gone = create_app(BatchedMetric(Gone()))

    async def score(client: Any) -> Any:
        return await client.post("/v1/score", json={"rows": rows_of(["A dog."])})

    assert refusal_of(ask(gone, score)) == (503, "judge", None, None)
    assert refusal_of(get(gone, "/health"))[:2] == (503, "judge")
    broken = BatchedMetric(posh)
    broken.window.observer = None
    monkeypatch.setattr(broken.window, "_work", lambda rows: [])
    response = ask(create_app(broken), score)
    assert refusal_of(response) == (500, "internal", None, None)
    assert response.json()["error"] == "RuntimeError"


def test_the_client_raises_typed_errors_with_the_reason(app: Any, posh: PoSh) -> None:
    with served(app) as url:
        remote = RemotePosh(url)
        with pytest.raises(InputError, match=r"5 items at once: submit 3 at most \(body\)\. See"):
            remote.score(["A dog."] * 5, [REFERENCE] * 5)
        assert remote.score(["A dog."], [REFERENCE])[0].failure is None
        with pytest.raises(JudgeError, match=r"Not Found \(path: /v2/metric\)"):
            RemotePosh(f"{url}/v2").score(["A dog."], [REFERENCE])
    with served(create_app(BatchedMetric(Gone()))) as url:
        remote = RemotePosh(url, patience=0.1)
        [score] = remote.score(["A dog."], [REFERENCE])
        assert "the card is gone and more" in str(score.failure)
