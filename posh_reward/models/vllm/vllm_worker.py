"""The child's side of the pipe, whatever engine answers."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Protocol

from posh_reward.errors import PoshError
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits
from posh_reward.models.vllm.wire import EngineReply, parse_prompts, reply_json

BEAT = 0.5  # seconds between signs of life

Answers = Iterator[list[tuple[int, EngineReply]]]
"""Answers as they come, each with the place of its prompt."""


class Engine(Protocol):
    """An engine in the child."""

    @property
    def sizes(self) -> SizeLimits | None:
        """The sizes in which it wants images; None if it does not see."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Answers:
        """Probabilities of the labels."""

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> Answers:
        """Greedy replies."""

    def sleep(self) -> None:
        """Give memory back; ``choose`` and ``write`` wake it."""

    def wake(self) -> None:
        """Undo ``sleep``."""


class Pipe:
    """Both directions: requests come in whole, and replies of two threads go out whole."""

    def __init__(self, requests: IO[str], replies: IO[str]) -> None:
        self._replies = replies
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(requests,), daemon=True).start()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Requests in order, until the process ends."""
        while True:
            yield json.loads(self._requests.get())

    def say(self, message: Mapping[str, object]) -> None:
        """Send one message."""
        with self._lock:
            self._replies.write(json.dumps(message) + "\n")
            self._replies.flush()

    def _read(self, requests: IO[str]) -> None:
        for line in requests:
            self._requests.put(line)
        os._exit(0)  # the parent has closed its end, or is gone


class Heartbeat:
    """Beats while there is work; in a process that is stopped or stuck it falls silent."""

    # A thread beside the engine's: CUDA's calls release the interpreter's lock, so a long batch
    # beats on, while a stopped process or a call that never gives the lock back does not.
    def __init__(self, say: Callable[[Mapping[str, object]], None]) -> None:
        self._say = say
        self._working = threading.Event()
        self._id: object = None
        threading.Thread(target=self._beat, daemon=True).start()

    def start(self, request: object) -> None:
        """Beat for a request from now on."""
        self._id = request
        self._working.set()

    def stop(self) -> None:
        """Fall silent until the next request."""
        self._working.clear()

    def _beat(self) -> None:
        while True:
            self._working.wait()
            self._say({"id": self._id, "beat": True})
            time.sleep(BEAT)


def serve(make: Callable[[Mapping[str, Any]], Engine], settings: Mapping[str, Any]) -> None:
    """Load the engine, say so, and answer until the parent ends.

    An error that is not of a single prompt ends the process, with a traceback on stderr, and the
    parent starts a fresh one: an engine is not to be trusted after an error on its card.
    """
    pipe = Pipe(*claim_pipes())
    try:
        engine = make(settings)
    except PoshError as error:  # it names the remedy, and needs no traceback
        pipe.say({"refused": str(error)})
        os._exit(1)
    except Exception as error:  # the parent tells the user, with the remedy
        traceback.print_exc()
        pipe.say({"fatal": " ".join(f"{type(error).__name__}: {error}".split())})
        os._exit(1)
    pipe.say({"ready": True} if engine.sizes is None else {"ready": True, "sizes": engine.sizes})
    heart = Heartbeat(pipe.say)
    try:
        for request in pipe.requests():
            heart.start(request["id"])
            for answers in answer(engine, request):
                rows = [[place, reply_json(reply)] for place, reply in answers]
                pipe.say({"id": request["id"], "answers": rows})
            heart.stop()
            pipe.say({"id": request["id"], "done": True})
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # without exit handlers, which may wait for a card that hangs


def answer(engine: Engine, request: Mapping[str, Any]) -> Answers:
    """The engine's answers to one request."""
    what = request["do"]
    if what == "sleep":
        engine.sleep()
    elif what == "wake":
        engine.wake()
    else:
        prompts = parse_prompts(request)
        if what == "choose":
            yield from engine.choose(prompts, request["labels"])
        else:
            yield from engine.write(prompts, request["max_tokens"])


def claim_pipes() -> tuple[IO[str], IO[str]]:
    """(requests, replies): stdin and stdout, kept for the protocol.

    Whatever libraries print goes to stderr instead, and their stdin is empty.
    """
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies
