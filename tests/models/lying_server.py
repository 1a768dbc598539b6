"""A chat server on this machine that answers as the fake model does, and lies when told to."""

from __future__ import annotations

import json
import math
import random
import re
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from posh_reward.models.fake_model import between_labels
from posh_reward.models.model import Prompt
from posh_reward.posh.fake_judge import quoted_words, raw_phrase
from posh_reward.types import PromptImage

Reply = dict[str, Any]
Lie = Callable[["Handler", Reply], None]
"""Answers instead of the honest reply, which it is given."""
Liar = Callable[[int, str], "Lie | None"]
"""From the number of a question (0 for those of the start) and its text; None is honest."""
START = 4  # questions at the start
CHECK_QUESTIONS = 2  # of them, asked again at the end of a batch, and after a block of answers

MODEL = "honest/model"
LABELS = ("1", "2", "3", "4", "5")
DIGITS = {16 + i: str(i + 1) for i in range(5)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, else each reply waits 40 ms for an acknowledgment
    server: LyingServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send({"data": [{"id": name} for name in self.server.models]})

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self.send(self.server.tokenize(body))
        if self.path == "/detokenize":
            return self.send({"prompt": "".join(DIGITS.get(i, "?") for i in body["tokens"])})
        number = self.server.note(body)
        lie = self.server.liar(number, text_of(body))
        honest = reply_to(body, self.server.knows_ids)
        return lie(self, honest) if lie else self.send(honest)

    def send(self, reply: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)


class LyingServer(ThreadingHTTPServer):
    """Listens from the start; a context that stops it at the end."""

    request_queue_size = 512
    daemon_threads = True

    def __init__(self, liar: Liar = lambda number, text: None, knows_ids: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.liar = liar
        self.knows_ids = knows_ids
        self.models = [MODEL]
        self.paths: list[str] = []
        """Of every request, in order."""
        self.bodies: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def note(self, body: dict[str, Any]) -> int:
        with self._lock:
            self.bodies.append(body)
            return max(len(self.bodies) - START, 0)

    def tokenize(self, body: dict[str, Any]) -> Reply:
        """As vLLM does; all but digits is one unknown token."""
        text: str = body["prompt"]
        ids = [i for i, digit in DIGITS.items() if text.strip("x ") == digit]
        return {"tokens": ids if ids and text in "12345" else [9, *ids]}

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, client = super().get_request()
        self._sockets.append(connection)
        return connection, client

    def handle_error(self, request: object, client_address: object) -> None:
        pass

    def kill(self) -> None:
        """Breaks off everything, as when a process dies."""
        self.shutdown()
        self.server_close()
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def __exit__(self, *args: object) -> None:
        self.kill()
        self._thread.join()


def question(word: str, *images: PromptImage, about: str = "A red dog and a cat.") -> Prompt:
    prefix = f"DESCRIPTION: {about}\n\n"
    return Prompt(prefix, f'Q: Is "{word}" mentioned?\n\nRespond.', images)


def text_of(body: dict[str, Any]) -> str:
    """The text of a request's message, whether or not images come with it."""
    content = body["messages"][0]["content"]
    text: str = content if isinstance(content, str) else content[-1]["text"]
    return text


def reply_to(body: dict[str, Any], knows_ids: bool) -> Reply:
    """What the fake model would say, in the form of a chat completion."""
    text = text_of(body)
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    usage["prompt_tokens_details"] = {"cached_tokens": 8}  # type: ignore[assignment]
    if not body.get("logprobs"):
        content = f" {raw_phrase(Prompt('', text))}\n"
        choice: Reply = {"index": 0, "message": {"content": content}}
        return {"model": MODEL, "choices": [choice], "usage": usage}
    shares = between_labels(grade_of(text))
    as_ids = knows_ids and "logprob_token_ids" in body
    top = [
        {"token": f"token_id:{i}" if as_ids else digit, "logprob": math.log(p) if p else -800.0}
        for (i, digit), p in zip(DIGITS.items(), shares, strict=True)
    ]
    if not as_ids:
        top = top + [{"token": f"word{letter}", "logprob": -30.0} for letter in "abcdefghijklmno"]
        top = top[: body.get("top_logprobs", 0)]
    first = {"token": "5", "logprob": -0.1, "top_logprobs": top}
    choice = {"index": 0, "logprobs": {"content": [first]}}
    return {"model": MODEL, "choices": [choice], "usage": usage}


def grade_of(text: str) -> float:
    """The fake model's grade; of a sentence 3, supported, or 1 if it denies something."""
    if asks_about_sentence(text):
        return 1.0 if re.search(r"\b(?:no|not)\b", question_of(text), re.IGNORECASE) else 3.0
    start = text.rindex("Q: Is ")
    return quoted_words(Prompt(text[:start], text[start:]))


def question_of(text: str) -> str:
    """The question of a message, without what stands before and after it."""
    return text.rpartition("Q: ")[2].partition("\n")[0]


def asks_about_sentence(text: str) -> bool:
    return question_of(text).startswith("What does DESCRIPTION 1 say about this sentence")


def says(status: int, reply: object = None, **headers: str) -> Lie:
    return lambda handler, honest: handler.send(reply or {"error": "no"}, status, headers)


def sends(content: bytes, **headers: str) -> Lie:
    return lambda handler, honest: handler.send(content, headers=headers)


def changes(change: Callable[[Reply], object]) -> Lie:
    """The honest reply after ``change``."""

    def lie(handler: Handler, honest: Reply) -> None:
        change(honest)
        handler.send(honest)

    return lie


def waits(seconds: float) -> Lie:
    def lie(handler: Handler, honest: Reply) -> None:
        time.sleep(seconds)
        handler.send(honest)

    return lie


def drips(handler: Handler, honest: Reply) -> None:
    """A byte now and then, without end."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)


def continues(handler: Handler, honest: Reply) -> None:
    """Promises an answer, without end."""
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        handler.wfile.flush()


def breaks_off(handler: Handler, honest: Reply) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices"')
    handler.close_connection = True


def drops(handler: Handler, honest: Reply) -> None:
    """Ends the connection without a reply."""
    handler.close_connection = True


def named(model: str) -> Lie:
    return changes(lambda reply: reply.update(model=model))


def fingerprinted(fingerprint: str | None) -> Lie:
    return changes(lambda reply: reply.update(system_fingerprint=fingerprint))


def top(reply: Reply) -> list[dict[str, Any]]:
    """The alternatives for a reply's first token."""
    listed: list[dict[str, Any]] = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return listed


def regrade(reply: Reply, change: Callable[[float], float]) -> None:
    """Make a reply another model's: give it another grade, if it has one."""
    if reply["choices"][0].get("logprobs"):
        digits = [each for each in top(reply) if each["token"] in LABELS]
        grade = sum(int(each["token"]) * math.exp(each["logprob"]) for each in digits)
        shares = between_labels(min(max(change(grade), 1.0), 5.0))
        for each, share in zip(digits, shares, strict=True):
            each["logprob"] = math.log(share) if share else -800.0


def regrades(change: Callable[[float], float]) -> Lie:
    return changes(lambda reply: regrade(reply, change))


def constant(grade: float) -> Lie:
    return regrades(lambda honest: grade)


def noisy(deviation: float) -> Lie:
    return regrades(lambda honest: random.gauss(honest, deviation))


inverts = regrades(lambda honest: 6 - honest)
