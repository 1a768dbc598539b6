"""Images over HTTP: in which form, only where the settings say so, and never in messages."""

import json
import random
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from posh_reward import JudgeError
from posh_reward.models.asker import NO_IMAGES_ACCEPTED, CachingModel
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt, load_model
from posh_reward.models.prompt_images import load_prompt_image
from posh_reward.models.server import ServerModel
from posh_reward.models.server.fleet import NO_SIGHT
from posh_reward.types import PromptImage
from tests.models.lying_server import (
    CHECK_QUESTIONS,
    LABELS,
    MODEL,
    START,
    Handler,
    Lie,
    LyingServer,
    Reply,
    question,
)

PREFIX = question("dog").prefix


def noise(seed: str) -> PromptImage:
    found = load_prompt_image(Image.frombytes("RGB", (60, 40), random.Random(seed).randbytes(7200)))
    assert isinstance(found, PromptImage)
    return found


RED, BLUE = noise("red"), noise("blue")
PROMPTS = [question(word, each) for each in (RED, BLUE) for word in ("dog", "cow")]
HONEST = [v.probabilities for v in FakeModel(sees=True).choose(PROMPTS, LABELS)]


def model(*servers: LyingServer, **options: Any) -> ServerModel:
    settings = {"backoff": 0.001, "retries": 1, "timeout": 5.0, "images": True, **options}
    return ServerModel([server.url for server in servers], MODEL, **settings)


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["messages"][0]["content"]
    return found


def shown(body: dict[str, Any]) -> list[Image.Image]:
    """The images of a request, as its server sees them."""
    uris = [part["image_url"]["url"] for part in parts(body) if part["type"] == "image_url"]
    heads, written = zip(*(uri.split(",") for uri in uris), strict=True)
    assert set(heads) == {"data:image/png;base64"}
    return [Image.open(BytesIO(b64decode(each))) for each in written]


def holds(body: dict[str, Any], prompt_image: PromptImage) -> bool:
    if isinstance(parts(body), str):
        return False
    return prompt_image in [load_prompt_image(image) for image in shown(body)]


def test_an_image_is_sent_before_the_text_without_loss() -> None:
    with LyingServer() as server:
        judge = model(server)
        assert judge.sees
        both = Prompt(PREFIX, 'Q: Is "dog" mentioned?', (BLUE, RED))
        verdicts = judge.choose([*PROMPTS, both], LABELS)
        bodies = server.bodies[START + 1 : -CHECK_QUESTIONS]  # after those of the start
        [reply] = judge.write([question("dog", RED)], 10)
        bodies.append(server.bodies[-1 - CHECK_QUESTIONS])
        assert [reply] == judge.write([question("dog")], 10), "this server looks at words alone"
    assert [v.probabilities for v in verdicts[:-1]] == [pytest.approx(h) for h in HONEST]
    [last] = [body for body in bodies if len(parts(body)) == 3]
    assert [load_prompt_image(image) for image in shown(last)] == [BLUE, RED]
    assert parts(last)[-1] == {"type": "text", "text": both.text}
    asked = {
        (tuple(map(load_prompt_image, shown(body))), parts(body)[-1]["text"]) for body in bodies
    }
    assert asked == {(p.images, p.text) for p in [*PROMPTS, both]}


def test_without_leave_no_image_is_sent(tmp_path: Path) -> None:
    settings = {"name": "server", "base_urls": "http://127.0.0.1:1/v1", "model": MODEL}
    assert not load_model(settings).sees
    assert load_model({**settings, "images": True}).sees
    with LyingServer() as server:
        judge = model(server, images=False)
        for verdicts in (
            judge.choose(PROMPTS, LABELS),
            CachingModel(judge).choose(PROMPTS, LABELS),
        ):
            assert [verdict.failure for verdict in verdicts] == [NO_IMAGES_ACCEPTED] * len(PROMPTS)
        assert judge.choose([question("dog")], LABELS)[0].failure is None
        assert not any("image_url" in json.dumps(body) for body in server.bodies)


def test_a_server_whose_model_does_not_see_is_refused_at_the_start() -> None:
    def blind(handler: Handler, honest: Reply) -> None:
        handler.send({"error": {"message": "not a multimodal model"}}, 400)

    def liar(number: int, text: str) -> Lie | None:
        return blind if number == 1 else None

    with LyingServer(liar) as server, pytest.raises(JudgeError) as error:
        model(server).wake()
    assert NO_SIGHT in str(error.value)
    assert "leave out `images: true`" in str(error.value)


def test_a_refused_image_fails_alone() -> None:
    def refuses(handler: Handler, honest: Reply) -> None:
        handler.send({"error": "cannot load"}, 400)

    with LyingServer() as server:
        judge = model(server, concurrency=1)
        judge.wake()
        server.liar = lambda number, text: refuses if holds(server.bodies[-1], BLUE) else None
        verdicts = judge.choose(PROMPTS, LABELS)
    for prompt, verdict, honest in zip(PROMPTS, verdicts, HONEST, strict=True):
        if prompt.images == (BLUE,):
            assert str(verdict.failure) == "the server refuses the request (400)"
        else:
            assert verdict.probabilities == pytest.approx(honest)


def test_an_image_that_cannot_be_sent_fails_alone() -> None:
    odd = PromptImage("0dd", object())
    with LyingServer() as server:
        bad, good = model(server).choose([question("dog", odd), PROMPTS[0]], LABELS)
    assert "not a PIL image" in str(bad.failure)
    assert good.probabilities == pytest.approx(HONEST[0])
