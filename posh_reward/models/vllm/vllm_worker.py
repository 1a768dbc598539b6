"""The child's side of the pipe, for any engine. Messages are JSON objects, one a line.

child:   {"ready": true}                           or {"fatal": "reason"}, and it exits
         {"ready": true, "sizes": [28, 3136, 1003520]}    it accepts images of these sizes
         {"refused": "reason and remedy"}          invalid settings, and it exits
parent:  {"id": 7, "do": "choose", "labels": ["1", ...], "prompts": [["prefix", "suffix"], ...]}
         {"id": 8, "do": "write", "max_tokens": 20, "prompts": [...]}
         with images: "prompts": [["prefix", "suffix", "digest", ...], ...],
                        "images": {"digest": [width, height, "RGB bytes in base64"], ...}
         {"id": 9, "do": "sleep"}                  or "wake"
child:   {"id": 7, "beat": true}                   heartbeat, twice a second while it works
         {"id": 7, "answers": [[0, {"masses": [0.1, ...], ...}], ...]}   as they arrive
         {"id": 7, "done": true}                   no more answers to request 7
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Protocol

from posh_reward.errors import PoshError
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits
from posh_reward.types import Failure, PromptImage

MAX_IMAGES_PER_REQUEST = 16  # of a few megabytes each


@dataclass(frozen=True, slots=True)
class EngineReply:
    """The engine's answer to one prompt: masses, a text, or a failure."""

    masses: tuple[float, ...] | None = None  # probability of each label
    text: str | None = None
    failure: Failure | None = None
    submitted: int = 0  # tokens of the prompt
    computed: int = 0  # of these, not found in a cache
    decoded: int = 0


def reply_json(answer: EngineReply) -> dict[str, Any]:
    """An answer as JSON, without its empty fields."""
    return {name: value for name, value in asdict(answer).items() if value not in (None, 0)}


def parse_reply(answer: Mapping[str, Any], labels: int) -> EngineReply:
    fields = dict(answer)
    if fields.get("masses") is not None:
        fields["masses"] = tuple(map(float, fields["masses"]))
    if fields.get("failure") is not None:
        fields["failure"] = Failure(**fields["failure"])
    reply = EngineReply(**fields)
    text = isinstance(reply.text, str) and not labels
    numbers = reply.masses is not None and len(reply.masses) == labels > 0
    if not (reply.failure or text or numbers):
        raise ValueError(f"not an answer: {answer}")
    return reply


def image_portions(prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """Indices of prompts, in order, for requests of ``MAX_IMAGES_PER_REQUEST`` images at most."""
    portion: list[int] = []
    batch: set[PromptImage] = set()
    for place, prompt in enumerate(prompts):
        new = batch.union(prompt.images)
        if portion and len(new) > len(batch) and len(new) > MAX_IMAGES_PER_REQUEST:
            yield portion
            portion, new = [], set(prompt.images)
        portion.append(place)
        batch = new
    if portion:
        yield portion


def prompts_json(prompts: Sequence[Prompt], images: Mapping[PromptImage, Any]) -> dict[str, Any]:
    """Prompts as JSON, with each distinct image once: width, height and RGB bytes."""
    rows = []
    pixels: dict[str, list[Any]] = {}
    for prompt in prompts:
        digests = [image.digest for image in prompt.images]
        rows.append([prompt.prefix, prompt.suffix, *digests])
        for image in prompt.images:
            if image.digest not in pixels:
                content = b64encode(images[image].tobytes()).decode()
                pixels[image.digest] = [*images[image].size, content]
    message: dict[str, Any] = {"prompts": rows}
    if pixels:
        message["images"] = pixels
    return message


def parse_prompts(request: Mapping[str, Any]) -> list[Prompt]:
    images = {}
    for digest, (width, height, pixels) in request.get("images", {}).items():
        from PIL import Image

        image = Image.frombytes("RGB", (width, height), b64decode(pixels))
        images[digest] = PromptImage(digest, image)
    prompts = []
    for prefix, suffix, *digests in request["prompts"]:
        prompt_images = tuple(images[digest] for digest in digests)
        prompts.append(Prompt(prefix, suffix, prompt_images))
    return prompts


HEARTBEAT_SECONDS = 0.5  # between two heartbeats

Answers = Iterator[list[tuple[int, EngineReply]]]
"""Answers as they arrive, each with the index of its prompt."""


class Engine(Protocol):
    """An engine in the child."""

    @property
    def sizes(self) -> SizeLimits | None:
        """Accepted sizes of images; None for a text-only model."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Answers:
        """Probabilities of the labels."""

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> Answers:
        """Greedy replies."""

    def sleep(self) -> None:
        """Give memory back; ``choose`` and ``write`` wake it."""

    def wake(self) -> None:
        """Undo ``sleep``."""


class Pipe:
    """Requests in and messages out, one line each, also when two threads write."""

    def __init__(self, requests: IO[str], replies: IO[str]) -> None:
        self._replies = replies
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._queue_requests, args=(requests,), daemon=True).start()

    def read_requests(self) -> Iterator[dict[str, Any]]:
        """Requests in order, until the process ends."""
        while True:
            yield json.loads(self._requests.get())

    def send_message(self, message: Mapping[str, object]) -> None:
        with self._lock:
            self._replies.write(json.dumps(message) + "\n")
            self._replies.flush()

    def _queue_requests(self, requests: IO[str]) -> None:
        for line in requests:
            self._requests.put(line)
        os._exit(0)  # the parent has closed its end, or is gone


class Heartbeat:
    """Heartbeats during work, which stop if the process is stopped or stuck."""

    # A separate thread: CUDA calls release the interpreter's lock, so a long batch keeps beating;
    # a stopped process, or a call that never releases the lock, does not.
    def __init__(self, send_message: Callable[[Mapping[str, object]], None]) -> None:
        self._send_message = send_message
        self._working = threading.Event()
        self._id: object = None
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def start(self, request: object) -> None:
        self._id = request
        self._working.set()

    def stop(self) -> None:
        self._working.clear()

    def _send_heartbeats(self) -> None:
        while True:
            self._working.wait()
            self._send_message({"id": self._id, "beat": True})
            time.sleep(HEARTBEAT_SECONDS)


def serve_engine(make: Callable[[Mapping[str, Any]], Engine], settings: Mapping[str, Any]) -> None:
    """Load the engine, report it, and answer requests until the parent ends.

    An error beyond a single prompt ends the process, with a traceback on stderr, and the parent
    starts a new one: after an error on its GPU an engine cannot be trusted.
    """
    pipe = Pipe(*claim_pipes())
    try:
        engine = make(settings)
    except PoshError as error:  # it names the remedy and needs no traceback
        pipe.send_message({"refused": str(error)})
        os._exit(1)
    except Exception as error:
        traceback.print_exc()
        pipe.send_message({"fatal": " ".join(f"{type(error).__name__}: {error}".split())})
        os._exit(1)
    ready: dict[str, object] = {"ready": True}
    if engine.sizes is not None:
        ready["sizes"] = engine.sizes
    pipe.send_message(ready)
    heartbeat = Heartbeat(pipe.send_message)
    try:
        for request in pipe.read_requests():
            heartbeat.start(request["id"])
            for answers in answer_request(engine, request):
                rows = [[place, reply_json(reply)] for place, reply in answers]
                pipe.send_message({"id": request["id"], "answers": rows})
            heartbeat.stop()
            pipe.send_message({"id": request["id"], "done": True})
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # without exit handlers, which may wait for a GPU that hangs


def answer_request(engine: Engine, request: Mapping[str, Any]) -> Answers:
    match request["do"]:
        case "sleep":
            engine.sleep()
        case "wake":
            engine.wake()
        case "choose":
            yield from engine.choose(parse_prompts(request), request["labels"])
        case _:
            yield from engine.write(parse_prompts(request), request["max_tokens"])


def claim_pipes() -> tuple[IO[str], IO[str]]:
    """Reserve stdin and stdout for the protocol, as (requests, replies).

    Libraries then read an empty stdin, and print to stderr.
    """
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies
