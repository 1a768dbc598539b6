"""Several servers of one model: checks at the start, health, and which of them gets a prompt."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from posh_reward.errors import JudgeError
from posh_reward.models.model import LabelReading, Prompt
from posh_reward.models.prompt_images import load_prompt_image
from posh_reward.models.server import chat_messages, server_http
from posh_reward.models.server.identity import PROBE_QUESTION, Identity
from posh_reward.models.server.server_http import (
    CONNECT_SECONDS,
    SERVER_TIMED_OUT,
    ExchangeError,
    ServerClient,
    TransientError,
)
from posh_reward.types import PromptImage

logger = logging.getLogger(__name__)

QUICK_SHARE_OF_TIMEOUT = 0.25
"""Share of the timeout. A server with one slot, such as llama.cpp's, queues what it gets: it gets
more at a time only as long as answers take less than this, so that none times out in the queue."""
FAILURES_BEFORE_COOLDOWN = 3
"""Consecutive failures after which a server rests, as long as another one answers."""
COOLDOWN_SECONDS = 30.0  # of rest; then one prompt tries the server again
MAX_PAUSE_SECONDS = 30.0  # longer pauses requested by a server are capped
MAX_REMEMBERED_STARTS = 100_000
"""Prompt prefixes and images with an assigned server; beyond that all are forgotten."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A prompt's time limits."""

    timeout: float  # seconds for one exchange
    retries: int  # rounds over all servers after the first
    backoff: float  # seconds before the second round, doubled before each further one
    concurrency: int  # most prompts that a server gets at a time

    @property
    def slow(self) -> float:
        """Seconds from which on a failed exchange is a server's silence, not its refusal."""
        return QUICK_SHARE_OF_TIMEOUT * min(self.timeout, CONNECT_SECONDS)

    def pause(self, rounds: int, after: float) -> float:
        """Seconds to wait before round ``rounds``, at least ``after`` as requested by a server."""
        # At random up to half more, so that prompts do not all return at once. The exponent is
        # capped, since a large one overflows.
        delay = self.backoff * 2.0 ** min(rounds - 1, 16) * random.uniform(1, 1.5)
        return min(max(delay, after), MAX_PAUSE_SECONDS)


@dataclass(slots=True, eq=False)
class Server:
    """One address, its model, and its recent health."""

    url: str
    failures: int = 0  # consecutive failures
    cooldown_until: float = 0.0  # on the monotonic clock
    turns: int = 1  # questions that it gets at a time
    fault: str = "no server was asked"  # the reason of its last failure
    identity: Identity | None = None  # from its first answers
    confirmed: int = 0  # answers that count, since its model was found to be the same after them
    doubt: str | None = None
    """Reason to take its answers for another model's; it is asked nothing until it answers as at
    first."""

    @property
    def resting(self) -> bool:
        return self.cooldown_until > time.monotonic()

    @property
    def ready(self) -> bool:
        """True if it neither rests nor is in doubt."""
        return self.doubt is None and not self.resting

    def note_answer(self, seconds: float, policy: RetryPolicy) -> None:
        """Note an answer; a quick one shows that the server takes more questions at a time."""
        self.failures, self.cooldown_until = 0, 0.0
        if seconds < QUICK_SHARE_OF_TIMEOUT * policy.timeout:
            self.turns = min(self.turns + 1, policy.concurrency)

    def note_failure(self, reason: str) -> None:
        """Count a failure; from the third in a row on the server rests."""
        self.failures += 1
        self.fault = reason
        if reason == SERVER_TIMED_OUT:
            self.turns = 1
        # Not earlier, since a run asks thousands of questions.
        if self.failures == FAILURES_BEFORE_COOLDOWN:
            logger.warning(
                "judge server %s fails repeatedly (%s): it rests for %g s while others answer",
                *(self.url, reason, COOLDOWN_SECONDS),
            )
        self.note_try()

    def note_try(self) -> None:
        """Extend the rest of a failing server while one prompt tries it."""
        # Otherwise all waiting prompts would try a dead server as soon as its rest ends.
        if self.failures >= FAILURES_BEFORE_COOLDOWN:
            self.cooldown_until = time.monotonic() + COOLDOWN_SECONDS


@dataclass(slots=True)
class ServerPool:
    """The servers, and the one whose cache has each prefix or image."""

    servers: list[Server]
    given_up: str | None = None
    """Reason why the last batch was given up; None as soon as a server answers."""
    _homes: dict[int, int] = field(default_factory=dict)

    def home(self, start: Hashable) -> int:
        """Index of the server for prompts with this start; new starts are dealt round robin."""
        if len(self._homes) >= MAX_REMEMBERED_STARTS:
            self._homes.clear()
        return self._homes.setdefault(hash(start), len(self._homes) % len(self.servers))

    @property
    def identity(self) -> Identity | None:
        """That of the first server that has answered."""
        return next((each.identity for each in self.servers if each.identity is not None), None)

    def order(self, home: int) -> list[Server]:
        """Servers to try, ``home`` first: those not resting, or all if all rest; none in doubt."""
        servers = self.servers[home:] + self.servers[:home]
        ready = [server for server in servers if server.ready]
        return ready or [server for server in servers if server.doubt is None]

    def should_skip(self, server: Server) -> bool:
        """True while this server is in doubt, or rests while another one does not."""
        if server.doubt is not None:
            return True
        return any(each.ready for each in self.servers) and server.resting


LIST_TIMEOUT_SECONDS = 10.0  # of a request for the list of models
NO_SIGHT = "the server answers questions, but not about an image"
NO_TOKENIZE = "the server does not report the tokens of the labels"
NO_TOKEN = "a label is not a single token of the model"  # noqa: S105
NO_LABELS = (NO_TOKENIZE, chat_messages.NO_LOG_PROBABILITIES, chat_messages.LABELS_LEFT_OUT)
REMEDY_BY_FAULT = {
    server_http.UNREACHABLE: "is it started, and the address right?",
    server_http.SERVER_TIMED_OUT: "is it started, and timeout long enough?",
    server_http.UNTRUSTED_CERTIFICATE: "point SSL_CERT_FILE to its certificate authority",
    server_http.PROXY_REFUSES: "correct http_proxy or https_proxy, or list the server in no_proxy",
    server_http.BAD_ADDRESS: "correct base_urls",
    server_http.PROMPT_TOO_LONG: "start it with a longer context (--max-model-len, --ctx-size)",
    chat_messages.NO_LOG_PROBABILITIES: "use a server that returns them, such as `vllm serve`, or "
    "set `labels: false` where it only writes (PROVE's writer and tuples, rubrics)",
    chat_messages.TOO_FEW_TOKENS: "use one that returns as many, such as `vllm serve`",
    NO_SIGHT: "serve a vision-language model, or leave out `images: true`",
    chat_messages.MASKED_LOG_PROBABILITIES: "start vLLM with --logprobs-mode raw_logprobs, "
    "its default",
}


def validate_servers(
    servers: Sequence[Server], faults: Sequence[ExchangeError | None], reading: LabelReading
) -> None:
    """Refuse unusable servers; let those rest that are down while others are up."""
    all_down = all(isinstance(fault, TransientError) for fault in faults)
    for server, fault in zip(servers, faults, strict=True):
        if fault is None:
            continue
        remedy = REMEDY_BY_FAULT.get(fault.reason, "")
        if reading == "labels" and fault.reason in NO_LABELS:
            remedy = "reading 'labels' needs vLLM 0.26 or later: choose reading 'top-20'"
        elif fault.status in (401, 403):
            remedy = "is the key in the environment variable that api_key_env names?"
        message = f"{fault}; {remedy}" if remedy else str(fault)
        if all_down or not isinstance(fault, TransientError):
            raise JudgeError(f"judge server {server.url}: {message}")
        logger.warning("judge server %s is left out for now: %s", server.url, message)
        server.failures, server.doubt = FAILURES_BEFORE_COOLDOWN, fault.reason
        server.note_try()
    _require_one_model(servers)


def _require_one_model(servers: Sequence[Server]) -> None:
    """Refuse servers whose replies name different models: they are declared as one."""
    urls: dict[str, str] = {}
    for server in servers:
        if server.identity is not None and server.identity.model is not None:
            urls[server.identity.model] = server.url
    if len(urls) > 1:
        listed = ", ".join(f"{name!r} ({url})" for name, url in urls.items())
        raise JudgeError(
            f"the judge's servers have different models: {listed}. List only servers of one model "
            "in base_urls, under one name (vllm serve --served-model-name, llama-server --alias)"
        )


async def find_model(client: ServerClient, urls: Sequence[str]) -> str:
    """Return the only model that the first server which is up lists."""
    for url in urls:
        try:
            names = await model_names(client, url)
        except ExchangeError as error:
            fault = error
            continue
        if len(names) == 1:
            return names[0]
        listed = client.clean(", ".join(names)) or "no model"
        raise JudgeError(
            f"{url} lists {listed}: choose one with `model:` in a settings file "
            "(configs/judge/local.yaml)"
        )
    remedy = REMEDY_BY_FAULT.get(
        fault.reason, "is this the address of an OpenAI-compatible server?"
    )
    raise JudgeError(f"judge server {urls[-1]}: {fault}; {remedy}")


async def model_names(client: ServerClient, url: str) -> list[str]:
    """Names in a server's list of models; ``ExchangeError`` if it has none."""
    listed = (await client.get(f"{url}/models", LIST_TIMEOUT_SECONDS)).get("data")
    entries = listed if isinstance(listed, list) else []
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str)]


async def check_model(client: ServerClient, url: str, model: str) -> None:
    """Raise ``ExchangeError`` if a server lists its models without this one, or refuses to."""
    try:
        names = await model_names(client, url)
    except ExchangeError as error:
        hangs = error.reason == SERVER_TIMED_OUT  # as each question would
        if (isinstance(error, TransientError) and not hangs) or error.status in (404, 405):
            return
        raise
    if names and model not in names:
        listed = client.clean(", ".join(names)) or "other models"
        raise ExchangeError(f"it serves {listed}, not {model}")


def make_image_probe() -> Prompt:
    from PIL import Image

    image = load_prompt_image(Image.new("RGB", (64, 64), "white"))
    assert isinstance(image, PromptImage)
    return Prompt("", PROBE_QUESTION.format("dog"), (image,))


async def label_tokens(
    client: ServerClient, url: str, model: str, labels: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Ids of each label's tokens: alone, after a space, after a letter (vLLM)."""
    root = url.removesuffix("/v1")

    async def find_label_ids(label: str) -> tuple[int, ...]:
        # A tokenizer has one token for "1" at the start of a word and another within it; a
        # candidate counts only if it decodes to the label alone, not to "x1".
        ids: set[int] = set()
        for text in (label, f" {label}", f"x{label}"):
            body = {"model": model, "prompt": text, "add_special_tokens": False}
            tokens = chat_messages.read_token_ids(await client.post(f"{root}/tokenize", body))
            if not tokens:  # llama.cpp's takes "content" and ignores the rest
                raise ExchangeError(NO_TOKENIZE)
            last = tokens[-1:]
            decoded = await client.post(f"{root}/detokenize", {"model": model, "tokens": last})
            if str(decoded.get("prompt")).strip() == label:
                ids.update(last)
        return tuple(sorted(ids))

    try:
        tokens = tuple([await find_label_ids(label) for label in labels])
    except ExchangeError as error:
        if isinstance(error, TransientError):
            raise
        raise ExchangeError(NO_TOKENIZE, error.detail, error.status) from None
    if not all(tokens):
        raise ExchangeError(NO_TOKEN)
    return tokens
