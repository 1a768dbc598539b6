"""The app in process, and its client over a real socket."""

import asyncio
import base64
import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import httpx
import pytest
from PIL import Image

from posh_reward import HarmonicEval, InputError, JudgeError, PoSh, PoshReward
from posh_reward.cli.serve_command import build_server
from posh_reward.errors import ConfigError
from posh_reward.models.fake_model import FakeModel
from posh_reward.reward.shaping import Shaping
from posh_reward.reward.texts import cut_completion
from posh_reward.serve import client
from posh_reward.serve.app import MAX_VALUE_CHARACTERS, REFUSAL_CODES, Refusal, create_app
from posh_reward.serve.client import RemoteMetric, RemotePosh
from posh_reward.serve.window import BatchedMetric
from posh_reward.types import Failure, Scores

REFERENCE = "A short man in a green coat sleeps under a tree."
TEXTS = ["A red dog.", "A man sleeps.", "A short man in a green coat.", "", "A tree \u2603 <b>'"]
KEY = "s3cret-of-mine"
CHAT = "<|im_start|>user\nDescribe it.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


def ask(app: Any, work: Callable[[httpx.AsyncClient], Any]) -> Any:
    async def main() -> Any:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await work(client)

    return asyncio.run(main())


def post(app: Any, path: str, body: object, **options: Any) -> httpx.Response:
    response: httpx.Response = ask(app, lambda client: client.post(path, json=body, **options))
    return response


def get(app: Any, path: str, **options: Any) -> httpx.Response:
    response: httpx.Response = ask(app, lambda client: client.get(path, **options))
    return response


def rows_of(texts: Sequence[object], reference: object = REFERENCE) -> list[dict[str, object]]:
    return [{"generation": text, "reference": reference} for text in texts]


def png(color: str = "red") -> bytes:
    written = BytesIO()
    Image.new("RGB", (40, 30), color).save(written, "PNG")
    return written.getvalue()


class Gone(PoSh):
    """A judge that cannot work, or fails by value."""

    failure: Failure | None = None

    def score(self, generations: Any, references: Any, images: Any = None) -> list[Scores]:
        if self.failure is None:
            raise JudgeError("the card is gone\nand more")
        return [Scores.failed(self.failure, self.signature) for _ in generations]


def test_rows_are_scored_as_by_a_direct_call(posh: PoSh) -> None:
    app = create_app(BatchedMetric(posh))
    reply = post(app, "/v1/score", {"rows": rows_of(TEXTS), "elements": True}).json()
    expected = posh.score(TEXTS, [REFERENCE] * len(TEXTS))
    assert reply["signature"] == posh.signature
    for score, direct in zip(reply["scores"], expected, strict=True):
        assert (score["precision"], score["recall"], score["f1"]) == (
            direct.precision, direct.recall, direct.f1,
        )  # fmt: skip
        assert [e["text"] for e in score["elements"]] == [e.text for e in direct.elements]
    brief = post(app, "/v1/score", {"rows": rows_of(TEXTS)}).json()["scores"]
    assert [each["elements"] for each in brief] == [[]] * len(TEXTS)


def test_a_row_that_cannot_be_scored_has_nulls_and_a_reason(posh: PoSh) -> None:
    texts = [None, 5, "a \ud800 dog", "A dog.", ["A dog.", "It sleeps."]]
    rows = [*rows_of(texts), *rows_of(["A dog."], ["a", "b"])]
    content = json.dumps({"rows": rows})
    kind = {"content-type": "application/json"}
    response = ask(
        create_app(BatchedMetric(posh)),
        lambda client: client.post("/v1/score", content=content.encode(), headers=kind),
    )
    *scores, joined = response.json()["scores"]
    assert [each["f1"] is None for each in scores] == [True, True, True, False, True]
    assert [each["failure"] and each["failure"]["kind"] for each in scores] == [
        "text", "text", "text", None, "text",
    ]  # fmt: skip
    assert "half a surrogate pair" in scores[2]["failure"]["detail"]
    assert joined["signature"].endswith("references:joined|" + posh.signature.split("|")[-1])


def test_clients_share_calls_and_get_their_own_scores(posh: PoSh) -> None:
    metric = BatchedMetric(posh, 100)
    sizes: list[int] = []
    app = create_app(metric)
    metric.window.observer = lambda size, seconds: sizes.append(size)
    texts = [f"A {color} dog." for color in ("red", "green", "blue", "black")] * 5

    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"rows": rows_of([text])} for text in texts]
        return await asyncio.gather(*(client.post("/v1/score", json=body) for body in bodies))

    replies = [each.json()["scores"][0] for each in ask(app, work)]
    assert [each["generation"] for each in replies] == texts
    assert sum(sizes) == 20
    assert len(sizes) < 5


def test_a_full_queue_is_refused_with_a_time_to_come_again(posh: PoSh) -> None:
    app = create_app(BatchedMetric(posh, 100, capacity=3))

    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"rows": rows_of([text] * 2)} for text in ("A dog.", "A cat.")]
        return await asyncio.gather(*(client.post("/v1/score", json=body) for body in bodies))

    responses = ask(app, work)
    assert sorted(each.status_code for each in responses) == [200, 429]
    [busy] = [each for each in responses if each.status_code == 429]
    assert 1 <= int(busy.headers["retry-after"]) <= 60
    assert "2 items are waiting" in busy.json()["error"]


def test_the_key_is_wanted_and_never_repeated(posh: PoSh) -> None:
    app = create_app(BatchedMetric(posh), key=KEY)
    body = {"rows": rows_of(["A dog."])}
    for wrong in ({}, {"authorization": "Bearer s3cret-of-min"}, {"authorization": KEY}):
        refused = post(app, "/v1/score", body, headers=wrong)
        assert refused.status_code == 401
        assert "s3cret" not in refused.text
    assert get(app, "/metrics").status_code == 401
    assert get(app, "/health").status_code == 200
    right = {"authorization": f"Bearer {KEY}"}
    assert post(app, "/v1/score", body, headers=right).is_success
    assert post(app, "/v1/score", body, auth=("any", KEY)).is_success
    assert post(app, "/v1/score", body, auth=(KEY, "no")).status_code == 401


def test_a_judge_that_is_gone_is_a_503_with_its_reason(posh: PoSh) -> None:
    gone = Gone()
    app = create_app(BatchedMetric(gone), PoshReward(gone))
    response = post(app, "/v1/score", {"rows": rows_of(["A dog."])})
    assert response.status_code == 503
    assert response.json()["error"] == "the card is gone and more"
    assert response.headers["retry-after"]
    assert get(app, "/health").status_code == 503
    gone.failure = Failure("engine", "out of memory")
    assert post(app, "/v1/score", {"rows": rows_of(["A dog."])}).json()["scores"][0]["failure"]
    assert get(app, "/health").json()["error"] == "out of memory"


def test_the_page_is_there_offline(posh: PoSh) -> None:
    app = create_app(BatchedMetric(posh), PoshReward(posh))
    page = get(app, "/docs").text
    assert "http://" not in page.replace("http://here", "")
    assert "https://" not in page
    assert get(app, "/static-offline-docs/swagger-ui-bundle.js").status_code == 200
    records = get(app, "/openapi.json").json()["components"]["schemas"]
    assert {"precision", "recall", "f1", "failure"} <= set(records["Scores"]["properties"])


def test_prometheus_counts(posh: PoSh) -> None:
    app = create_app(BatchedMetric(posh))
    post(app, "/v1/score", {"rows": rows_of(["A dog.", None])})
    counts = get(app, "/metrics").text
    assert 'posh_texts_total{outcome="scored"} 1.0' in counts
    assert 'posh_texts_total{outcome="text"} 1.0' in counts
    assert "posh_waiting_texts 0.0" in counts


def test_images_are_uploaded_and_no_path_is_opened(tmp_path: Any) -> None:
    (tmp_path / "image.png").write_bytes(png())
    harmonic = HarmonicEval(FakeModel(sees=True))
    app = create_app(BatchedMetric(harmonic))
    encoded = base64.b64encode(png()).decode()
    images = [encoded, f"data:image/png;base64,{encoded}", str(tmp_path / "image.png"), None, 5,
              base64.b64encode(str(tmp_path / "image.png").encode()).decode()]  # fmt: skip
    rows = [{"generation": "A red square.", "image": image} for image in images]
    scores = post(app, "/v1/score", {"rows": rows}).json()["scores"]
    [direct] = harmonic.score(["A red square."], [png()])
    assert scores[0]["overall"] == scores[1]["overall"] == direct.overall
    reasons = [each["failure"]["detail"] for each in scores[2:]]
    assert reasons[:3] == [
        "the image is not base64", "there is no image", "the image is not a base64 string",
    ]  # fmt: skip
    assert reasons[3].startswith("the image cannot be read: UnidentifiedImageError")


def test_openrlhf_and_slime_get_the_reward(posh: PoSh) -> None:
    metric = BatchedMetric(posh)
    app = create_app(metric, PoshReward(metric))
    expected = PoshReward(posh)(completions=["A man sleeps."], reference=[REFERENCE])
    query = {"query": [CHAT + "A man sleeps.<|im_end|>"], "prompts": [CHAT], "labels": [REFERENCE]}
    reply = post(app, "/v1/openrlhf", query).json()
    assert reply["rewards"] == reply["scores"] == expected
    assert set(reply["extra_logs"]) == {"posh_precision", "posh_recall", "posh_f1", "failed"}
    sample = {"prompt": CHAT, "response": "A man sleeps.", "label": REFERENCE}
    assert post(app, "/v1/slime", sample).json()["reward"] == expected[0]
    assert post(app, "/v1/openrlhf", {**query, "labels": []}).status_code == 422


def test_a_completion_without_a_reward_is_never_a_silent_number(posh: PoSh) -> None:
    sample = {"prompt": CHAT, "response": "A man sleeps.", "label": None}
    refused = post(create_app(BatchedMetric(posh), PoshReward(posh)), "/v1/slime", sample)
    assert refused.status_code == 422
    assert refused.json()["error"] == "no reward: the reference is missing"
    app = create_app(BatchedMetric(posh), PoshReward(posh), fallback=0.5)
    reply = post(app, "/v1/slime", sample).json()
    assert (reply["reward"], reply["failed"]) == (0.5, 1.0)
    gone = Gone()
    gone.failure = Failure("engine", "out of memory")
    app = create_app(BatchedMetric(gone), PoshReward(gone))
    assert post(app, "/v1/slime", {**sample, "label": REFERENCE}).status_code == 503
    separate = PoshReward(posh, Shaping(objective="separate"))
    with pytest.raises(ConfigError, match="one number"):
        create_app(BatchedMetric(posh), separate)


@pytest.mark.parametrize(
    ("query", "prompt", "completion"),
    [
        (CHAT + "A dog.<|im_end|>", CHAT, "A dog."),
        (CHAT.replace("it", "<|image_pad|>" * 9) + "A dog.", CHAT, "A dog."),
        (CHAT[-30:] + "A dog.</s>", CHAT * 3, "A dog."),
        (CHAT + "<|im_start|>assistant\nNo: a dog.", CHAT, "<|im_start|>assistant\nNo: a dog."),
        (CHAT * 2 + "A dog.<|endoftext|>\n", CHAT * 2, "A dog."),
        ("A dog.", "", "A dog."),
        ("something else", CHAT, None),
        (None, CHAT, None),
    ],
)
def test_a_query_is_cut_behind_the_prompt(query: Any, prompt: str, completion: str | None) -> None:
    assert cut_completion(query, prompt) == completion


@contextmanager
def served(app: Any, port: int = 0) -> Iterator[str]:
    """The app behind a real socket, in a thread."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
        held.listen(100)
        server = build_server(app)
        thread = threading.Thread(target=server.run, args=([held],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{held.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def test_a_remote_metric_logs_what_its_reader_found() -> None:
    reading = PoSh(reader="judge", processes=1)
    blue, red = "A monk in a blue coat reads.", "A monk in a red coat reads."
    with served(create_app(BatchedMetric(reading))) as url:
        remote = RemotePosh(url)
        scores = remote.score([blue], [red])
        assert scores == reading.score([blue], [red])
        assert remote.figures(scores)["contradicted_share"] == 1
        assert list(remote.figures(scores)) == list(reading.figures(scores))


def test_a_remote_metric_is_the_metric(posh: PoSh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSH_REWARD_KEY", "s3cret")
    with served(create_app(BatchedMetric(posh), key="s3cret")) as url:
        remote = RemotePosh(url, batch=2)
        texts = [*TEXTS, None, float("nan"), 7, "a \ud800 dog"]
        scores = remote.score(texts, [REFERENCE] * len(texts))
        expected = posh.score(texts, [REFERENCE] * len(texts))  # type: ignore[arg-type]
        assert scores == expected
        assert remote.score([], []) == []
        two = [["A dog.", "A cat."]]
        assert remote.score(["A dog."], two) == posh.score(["A dog."], two)
        assert remote.signature == posh.signature
        assert remote.figures(expected) == pytest.approx(posh.figures(expected), nan_ok=True)
        reward = PoshReward(pickle.loads(pickle.dumps(remote)))
        references = [REFERENCE] * len(TEXTS)
        direct = PoshReward(posh)(completions=TEXTS, reference=references)
        assert reward(completions=TEXTS, reference=references) == direct
        with pytest.raises(InputError, match="1 generation but 2 reference"):
            remote.score(["A dog."], [REFERENCE] * 2)
        with pytest.raises(InputError, match="takes generation, reference, each once"):
            remote.score(["A dog."], [REFERENCE], [None])
        monkeypatch.setenv("POSH_REWARD_KEY", "wrong")
        with pytest.raises(JudgeError, match="does not accept the key") as raised:
            remote.score(["A dog."], [REFERENCE])
        assert "wrong" not in str(raised.value)
        with pytest.raises(JudgeError, match="does not accept the key"):
            RemoteMetric(url).score(["A dog."], [REFERENCE])


def test_what_a_client_left_behind_is_not_scored(posh: PoSh) -> None:
    metric = BatchedMetric(posh, 600)
    app = create_app(metric)
    sizes: list[int] = []
    metric.window.observer = lambda size, seconds: sizes.append(size)
    body = json.dumps({"rows": rows_of(TEXTS)}).encode()
    head = "POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with served(app) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as leaving:
            leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while not len(metric.window):
                time.sleep(0.01)
        found = RemoteMetric(url).score(["A dog."], [REFERENCE])
    assert found == posh.score(["A dog."], [REFERENCE])
    assert sizes == [1]


def test_a_client_waits_for_a_server_that_is_busy_or_away(posh: PoSh) -> None:
    with served(create_app(BatchedMetric(posh, capacity=1))) as url:
        remote = RemoteMetric(url, batch=1, connections=4)
        assert remote.score(TEXTS, [REFERENCE] * 5) == posh.score(TEXTS, [REFERENCE] * 5)
        port = int(url.rpartition(":")[2])
    found: list[list[Scores]] = []
    thread = threading.Thread(target=lambda: found.append(remote.score(TEXTS, [REFERENCE] * 5)))
    thread.start()
    time.sleep(0.3)
    with served(create_app(BatchedMetric(posh)), port):
        thread.join()
    assert found == [posh.score(TEXTS, [REFERENCE] * 5)]


def test_a_server_that_stays_away_is_a_failure_of_each_text(posh: PoSh) -> None:
    with served(create_app(BatchedMetric(posh))) as url:
        remote = RemotePosh(url, patience=0.5)
        assert remote.score(["A dog."], [REFERENCE])[0].failure is None
    scores = remote.score(["A dog.", "A cat."], [REFERENCE] * 2)
    assert [each.f1 for each in scores] == [None, None]
    assert str(scores[0].failure).endswith("the server cannot be reached")
    with pytest.raises(JudgeError, match="cannot be reached"):
        RemotePosh(url, patience=0.1).score(["A dog."], [REFERENCE])


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Clients that wait for tenths of seconds; returns what has been logged."""
    monkeypatch.setattr(client, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(client, "FIRST_ANSWER_SECONDS", 1.0)
    return lambda: caplog.text


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"http://127.0.0.1:{held.getsockname()[1]}"


def test_where_nobody_listens_the_client_says_so_and_gives_up(hasty: Callable[[], str]) -> None:
    url = free_address()
    began = time.monotonic()
    with pytest.raises(JudgeError, match=r"cannot be reached; is it started \(posh-reward serve\)"):
        RemotePosh(url).score(["A dog."], [REFERENCE])
    assert time.monotonic() - began < 5, "not for ten minutes"
    assert hasty().count(f"waiting for the metric's server at {url}/v1: is it started") == 1
    assert "(giving up after 600 s, or 1 s if nobody listens there)" in hasty()


def test_a_server_that_is_starting_is_waited_for(posh: PoSh, hasty: Callable[[], str]) -> None:
    """Before it listens, and then for as long as it loads its judge."""
    url = free_address()
    found: list[list[Scores]] = []
    thread = threading.Thread(
        target=lambda: found.append(RemotePosh(url).score(["A dog."], [REFERENCE]))
    )
    thread.start()
    time.sleep(0.3)
    port = int(url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as loading:
        loading.listen(100)
        time.sleep(1.5)
        assert hasty().count("waiting for the metric's server") == 1
        server = build_server(create_app(BatchedMetric(posh)))
        serving = threading.Thread(target=server.run, args=([loading],))
        serving.start()
        thread.join()
        server.should_exit = True
        serving.join()
    assert found == [posh.score(["A dog."], [REFERENCE])]


def test_a_server_that_was_there_is_waited_for_longer(posh: PoSh, hasty: Callable[[], str]) -> None:
    with served(create_app(BatchedMetric(posh))) as url:
        remote = RemotePosh(url)
        assert remote.signature == posh.signature
    before = len(hasty())
    found: list[list[Scores]] = []
    thread = threading.Thread(target=lambda: found.append(remote.score(["A dog."], [REFERENCE])))
    thread.start()
    time.sleep(1.5)
    with served(create_app(BatchedMetric(posh)), int(url.rpartition(":")[2])):
        thread.join()
    assert found == [posh.score(["A dog."], [REFERENCE])]
    assert hasty()[before:].count("waiting for the metric's server") == 1


def test_another_metric_at_the_same_address_is_refused(posh: PoSh) -> None:
    with served(create_app(BatchedMetric(posh))) as url:
        remote = RemotePosh(url)
        assert remote.signature == posh.signature
    with (
        served(create_app(BatchedMetric(PoSh(preset="paper"))), int(url.rpartition(":")[2])),
        pytest.raises(JudgeError, match=r"now runs a different metric: posh\|preset:paper"),
    ):
        remote.score(["A dog."], [REFERENCE])


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
    assert len(body.value or "") <= MAX_VALUE_CHARACTERS
    assert REFUSAL_CODES[body.code][0] == response.status_code
    return response.status_code, body.code, body.field, body.value


@pytest.mark.parametrize(("method", "path", "body", "refusal"), CASES)
def test_a_refusal_names_field_value_and_remedy(
    app: Any, method: str, path: str, body: object, refusal: tuple[Any, ...]
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    asked = ask(app, lambda client: client.request(method, path, content=content, headers=headers))
    assert refusal_of(asked) == refusal


def test_a_body_that_does_not_say_that_it_is_json(app: Any) -> None:
    """As curl sends it with -d alone."""
    body = json.dumps({"rows": rows_of(["A dog."])}).encode()
    kind = "application/x-www-form-urlencoded"
    headers = {"content-type": kind}
    response = ask(app, lambda client: client.post("/v1/score", content=body, headers=headers))
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
