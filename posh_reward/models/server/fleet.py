"""Several servers of one model: checks at the start, routing, retries, pauses after failures."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.models.model import DOUBTFUL, LabelReading, Prompt, not_grades
from posh_reward.models.prompt_images import image_of
from posh_reward.models.server import chat_messages, server_http
from posh_reward.models.server.server_http import (
    CONNECT_SECONDS,
    TIMEOUT,
    ExchangeError,
    ServerClient,
    TransientError,
)
from posh_reward.settings import UNCHECKED
from posh_reward.types import PromptImage, Verdict

logger = logging.getLogger(__name__)

CHAT = "/chat/completions"
QUICK = 0.25
"""Share of the timeout. A server with one slot, such as llama.cpp's, queues what it gets: it gets
more at a time only as long as answers take less than this, so that none times out in the queue."""
STRIKES = 3  # consecutive failures after which a server rests, as long as another one answers
REST = 30.0  # seconds of rest; then one prompt tries the server again
LONGEST_PAUSE = 30.0  # seconds; longer pauses requested by a server are capped
TIMEOUTS = 3
"""Timeouts of one prompt, at any servers, after which it is given up at the end of a round; and
timeouts without any answer after which a batch asks for a sign of life: more would take minutes."""
REMEMBERED = 100_000  # prompt prefixes with an assigned server; beyond that all are forgotten


@dataclass(frozen=True, slots=True)
class Patience:
    """A prompt's time limits."""

    timeout: float  # seconds for one exchange
    retries: int  # rounds over all servers after the first
    backoff: float  # seconds before the second round, doubled before each further one
    concurrency: int  # most prompts that a server gets at a time

    @property
    def slow(self) -> float:
        """Seconds from which on a failed exchange is a server's silence, not its refusal."""
        return QUICK * min(self.timeout, CONNECT_SECONDS)

    def pause(self, rounds: int, after: float) -> float:
        """Seconds to wait before round ``rounds``, at least ``after`` as requested by a server."""
        # At random up to half more, so that prompts do not all return at once.
        delay = self.backoff * 2.0 ** min(rounds - 1, 16) * random.uniform(1, 1.5)
        return min(max(delay, after), LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class Server:
    """One address and its recent health."""

    url: str
    strikes: int = 0  # consecutive failures
    rests_until: float = 0.0  # on the monotonic clock
    turns: int = 1  # questions that it gets at a time
    fault: str = "no server was asked"  # the reason of its last failure

    def note_answer(self, seconds: float, patience: Patience) -> None:
        """Note an answer; a quick one shows that the server takes more questions at a time."""
        self.strikes, self.rests_until = 0, 0.0
        if seconds < QUICK * patience.timeout:
            self.turns = min(self.turns + 1, patience.concurrency)

    def note_failure(self, reason: str) -> None:
        """Count a failure; from the third in a row on the server rests."""
        self.strikes += 1
        self.fault = reason
        if reason == TIMEOUT:
            self.turns = 1
        if self.strikes == STRIKES:  # not earlier, since a run asks thousands of questions
            logger.warning(
                "judge server %s fails repeatedly (%s): it rests for %g s while others answer",
                *(self.url, reason, REST),
            )
        self.note_try()

    def note_try(self) -> None:
        """Extend the rest of a failing server while one prompt tries it."""
        # Otherwise all waiting prompts would try a dead server as soon as its rest ends.
        if self.strikes >= STRIKES:
            self.rests_until = time.monotonic() + REST


@dataclass(slots=True)
class Fleet:
    """The servers, and the one whose cache has each prefix or image."""

    servers: list[Server]
    given_up: str | None = None
    """Reason why the last batch was given up; None as soon as a server answers."""
    _homes: dict[int, int] = field(default_factory=dict)

    def home(self, start: Hashable) -> int:
        """Index of the server for prompts with this start; new starts are dealt round robin."""
        if len(self._homes) >= REMEMBERED:
            self._homes.clear()
        return self._homes.setdefault(hash(start), len(self._homes) % len(self.servers))

    def order(self, home: int) -> list[Server]:
        """Servers to try, ``home`` first: those not resting, or all if all rest."""
        now = time.monotonic()
        servers = self.servers[home:] + self.servers[:home]
        return [server for server in servers if server.rests_until <= now] or servers

    def spares(self, server: Server) -> bool:
        """True while this server rests and another one does not."""
        now = time.monotonic()
        return server.rests_until > now and any(each.rests_until <= now for each in self.servers)


class ServerBatch:
    """One batch of prompts, given up as a whole once no server answers anything."""

    def __init__(
        self,
        http: ServerClient,
        fleet: Fleet,
        patience: Patience,
        probe: Mapping[str, Any] | None,
        timeouts: int = TIMEOUTS,
    ) -> None:
        self._http = http
        self._fleet = fleet
        self._patience = patience
        self._probe = probe
        self._timeouts = timeouts
        self._last_answer = time.monotonic()  # before the first one, the batch's start
        self._given_up: str | None = None
        self._probing = asyncio.Lock()
        self._probed: set[str] = set()
        """Addresses of servers that are asked for a sign of life, while all prompts wait."""
        self._busy = dict.fromkeys((server.url for server in fleet.servers), 0)
        """Address -> questions that it is answering."""
        self._turn = asyncio.Condition()

    async def start(self) -> None:
        """Give up at once if the last batch was given up and still no server answers the probe.

        Otherwise every batch would go through all its retries for a judge that is down.
        """
        if self._fleet.given_up is not None:
            reason = self._fleet.given_up
            errors = await self._probe_all()
            if all(isinstance(error, TransientError) and error.status != 429 for error in errors):
                self._given_up = reason

    async def ask(self, home: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The first server's reply, starting with the prompt's ``home``."""
        began = time.monotonic()
        failure = TransientError("no server was asked")
        timeouts = 0
        for rounds in range(self._patience.retries + 1):
            if rounds:
                await asyncio.sleep(self._patience.pause(rounds, failure.after))
            # Try all servers before a pause: one that is down costs no waiting while another works.
            # Recompute the order, since servers may have begun or ended a rest.
            for server in self._fleet.order(home):
                try:
                    return await self._exchange(server, body)
                except TransientError as error:
                    if self._given_up is not None:
                        raise TransientError(self._given_up) from None
                    failure = error
                    timeouts += error.reason == TIMEOUT
            if timeouts >= self._timeouts:
                break
        await self._give_up_if_down(began, failure)
        raise failure

    async def _exchange(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        """One exchange, in turn; after a slow failure, find out whether any server is left."""
        async with self._turn_at(server):
            began = time.monotonic()
            try:
                return await self._post(server, body)
            except TransientError as error:
                failure = error
        ended = time.monotonic()
        if failure.status != 429 and ended - began >= self._patience.slow:
            await self._give_up_if_down(ended - TIMEOUTS * self._patience.timeout, failure)
        raise failure

    async def _post(self, server: Server, body: Mapping[str, Any]) -> dict[str, Any]:
        server.note_try()
        began = time.monotonic()
        try:
            reply = await self._http.post(server.url + CHAT, body)
        except TransientError as error:
            if error.status != 429:  # a busy server works
                server.note_failure(error.reason)
            raise
        except ExchangeError:  # a refusal is an answer, too: the server works
            self._note_answer(server, began)
            raise
        self._note_answer(server, began)
        return reply

    def _note_answer(self, server: Server, began: float) -> None:
        self._last_answer = time.monotonic()
        self._fleet.given_up = None
        server.note_answer(self._last_answer - began, self._patience)

    @asynccontextmanager
    async def _turn_at(self, server: Server) -> AsyncIterator[None]:
        """Wait until the server takes another question; that wait is not part of the timeout.

        ``TransientError`` as soon as the wait is in vain: the batch is given up, or the server
        begins a rest while others work.
        """

        def vain() -> bool:
            return self._given_up is not None or self._fleet.spares(server)

        def free() -> bool:
            return server.url not in self._probed and self._busy[server.url] < server.turns

        async with self._turn:
            await self._turn.wait_for(lambda: vain() or free())
            if vain():
                raise TransientError(self._given_up or server.fault)
            self._busy[server.url] += 1
        try:
            yield
        finally:
            async with self._turn:
                self._busy[server.url] -= 1
                self._turn.notify_all()

    async def _give_up_if_down(self, since: float, failure: ExchangeError) -> None:
        """Give up the batch if no server has answered since then or answers the probe.

        Otherwise every prompt in turn would wait for a judge that is down, for hours. The probe
        tells that apart from a run of prompts that the server cannot handle.
        """
        async with self._probing:  # one prompt probes; the others reuse its finding
            if self._probe is None or self._given_up is not None or self._last_answer > since:
                return
            errors = await self._probe_all()
            down = all(isinstance(error, TransientError) for error in errors)
            if down and self._last_answer <= since:  # no answer to a prompt meanwhile, either
                self._given_up = self._fleet.given_up = failure.reason

    async def _probe_all(self) -> list[ExchangeError | None]:
        """Each server's error when asked the probe, ahead of all prompts; None if it answers."""

        async def probe(server: Server) -> ExchangeError | None:
            self._probed.add(server.url)
            try:
                await self._post(server, self._probe or {})
            except ExchangeError as error:
                return error
            finally:
                self._probed.discard(server.url)
                async with self._turn:
                    self._turn.notify_all()
            return None

        return list(await asyncio.gather(*map(probe, self._fleet.servers)))


PROBE = (
    "DESCRIPTION: A dog sleeps.\n\n"
    'Q: Is "{}" mentioned?\n\n'
    "Respond ONLY with an integer from 1 (not mentioned) to 5 (clearly mentioned)."
)
PRESENT, ABSENT = ("dog", "A dog"), ("ship", "A ship")
"""Questions of ``PROBE``: about things that its description mentions, and does not."""
LEAST_GAP = 0.75
"""Least distance of the mean grades of both, as ``judge.LEAST_GAP`` is of scores, a fifth."""
LIST_SECONDS = 10.0  # timeout for the list of models
NO_SIGHT = "the server answers questions, but not about an image"
NO_TOKENIZE = "the server does not report the tokens of the labels"
NO_TOKEN = "a label is not a single token of the model"  # noqa: S105
NO_LABELS = (NO_TOKENIZE, chat_messages.NO_LOG_PROBABILITIES, chat_messages.INCOMPLETE)
REMEDY = {
    server_http.UNREACHABLE: "is it started, and the address right?",
    server_http.TIMEOUT: "is it started, and timeout long enough?",
    server_http.DISTRUSTED: "point SSL_CERT_FILE to its certificate authority",
    server_http.PROXY: "correct http_proxy or https_proxy, or list the server in no_proxy",
    server_http.BAD_ADDRESS: "correct base_urls",
    server_http.TOO_LONG: "start it with a longer context (--max-model-len, --ctx-size)",
    chat_messages.NO_LOG_PROBABILITIES: "use a server that returns them, such as `vllm serve`, or "
    "set `labels: false` where it only writes (PROVE's writer and tuples, rubrics)",
    chat_messages.FEWER: "use one that returns as many, such as `vllm serve`",
    NO_SIGHT: "serve a vision-language model, or leave out `images: true`",
    chat_messages.MASKED: "start vLLM with --logprobs-mode raw_logprobs, its default",
}


def refuse_unusable(
    servers: Sequence[Server], faults: Sequence[ExchangeError | None], reading: LabelReading
) -> None:
    """Refuse unusable servers; let those rest that are down while others are up."""
    all_down = all(isinstance(fault, TransientError) for fault in faults)
    for server, fault in zip(servers, faults, strict=True):
        if fault is None:
            continue
        remedy = REMEDY.get(fault.reason, "")
        if reading == "labels" and fault.reason in NO_LABELS:
            remedy = "reading 'labels' needs vLLM 0.26 or later: choose reading 'top-20'"
        elif fault.status in (401, 403):
            remedy = "is the key in the environment variable that api_key_env names?"
        message = f"{fault}; {remedy}" if remedy else str(fault)
        if all_down or not isinstance(fault, TransientError):
            raise JudgeError(f"judge server {server.url}: {message}")
        logger.warning("judge server %s is left out for now: %s", server.url, message)
        server.strikes = STRIKES
        server.note_try()


def unfit(url: str, present: Sequence[Verdict], absent: Sequence[Verdict]) -> str | None:
    """Give the reason why a server's model cannot judge, from its answers to ``PROBE``, or None.

    ``judge.check_judge`` asks a metric's own questions, but not for every command.
    """
    verdicts = [*present, *absent]
    doubtful = sum(each.grade is None or each.mass < DOUBTFUL for each in verdicts)
    reason = not_grades(doubtful / len(verdicts))
    high, low = (sum(each.grade or 0.0 for each in part) / len(part) for part in (present, absent))
    if reason is None and high - low < LEAST_GAP:
        reason = (
            f"does not tell what is mentioned from what is not: grades {high:.1f} and {low:.1f}. "
            "Is it instruction-tuned, and large enough? (docs/local_judge.md)"
        )
    if reason is None:
        return None
    return (
        f"judge server {url}: the model {reason}. To use it nevertheless, set {UNCHECKED}=1 "
        "(score --unchecked)"
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
    remedy = REMEDY.get(fault.reason, "is this the address of an OpenAI-compatible server?")
    raise JudgeError(f"judge server {urls[-1]}: {fault}; {remedy}")


async def model_names(client: ServerClient, url: str) -> list[str]:
    """Names in a server's list of models; ``ExchangeError`` if it has none."""
    listed = (await client.get(f"{url}/models", LIST_SECONDS)).get("data")
    entries = listed if isinstance(listed, list) else []
    ids = [each.get("id") for each in entries if isinstance(each, dict)]
    return [name for name in ids if isinstance(name, str)]


async def check_model(client: ServerClient, url: str, model: str) -> None:
    """Raise ``ExchangeError`` if a server lists its models without this one, or refuses to."""
    try:
        names = await model_names(client, url)
    except ExchangeError as error:
        hangs = error.reason == TIMEOUT  # as each question would
        if (isinstance(error, TransientError) and not hangs) or error.status in (404, 405):
            return
        raise
    if names and model not in names:
        listed = client.clean(", ".join(names)) or "other models"
        raise ExchangeError(f"it serves {listed}, not {model}")


def image_probe() -> Prompt:
    from PIL import Image

    image = image_of(Image.new("RGB", (64, 64), "white"))
    assert isinstance(image, PromptImage)
    return Prompt("", PROBE.format("dog"), (image,))


async def label_tokens(
    client: ServerClient, url: str, model: str, labels: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Ids of each label's tokens: alone, after a space, after a letter (vLLM)."""
    root = url.removesuffix("/v1")

    async def ids_of(label: str) -> tuple[int, ...]:
        # A tokenizer has one token for "1" at the start of a word and another within it; a
        # candidate counts only if it decodes to the label alone, not to "x1".
        ids: set[int] = set()
        for text in (label, f" {label}", f"x{label}"):
            body = {"model": model, "prompt": text, "add_special_tokens": False}
            tokens = chat_messages.token_ids(await client.post(f"{root}/tokenize", body))
            if not tokens:  # llama.cpp's takes "content" and ignores the rest
                raise ExchangeError(NO_TOKENIZE)
            last = tokens[-1:]
            decoded = await client.post(f"{root}/detokenize", {"model": model, "tokens": last})
            ids.update(last if str(decoded.get("prompt")).strip() == label else ())
        return tuple(sorted(ids))

    try:
        tokens = tuple([await ids_of(label) for label in labels])
    except ExchangeError as error:
        if isinstance(error, TransientError):
            raise
        raise ExchangeError(NO_TOKENIZE, error.detail, error.status) from None
    if not all(tokens):
        raise ExchangeError(NO_TOKEN)
    return tokens
