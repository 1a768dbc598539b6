"""Client of ``posh-reward serve``, and what both agree on: fields of rows, the metric's record."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.util import find_spec
from inspect import Parameter, signature
from itertools import chain
from typing import Any, TypeVar

from posh_reward.errors import InputError, JudgeError, MissingDependencyError
from posh_reward.metrics.metric import (
    as_lists,
    check_lengths,
    check_sizes,
    read_signature_field,
)
from posh_reward.metrics.records import read_scores, record_class
from posh_reward.models.prompt_images import load_prompt_image, png_base64
from posh_reward.models.server import server_http
from posh_reward.posh import means
from posh_reward.text_values import read_texts
from posh_reward.types import Failure, Scores, Usage

logger = logging.getLogger(__name__)

SERVER_KEY_VARIABLE = "POSH_REWARD_KEY"
"""Environment variable with the key, for server and client."""
FIELDS_BY_ARGUMENT = {
    "generations": "generation",
    "texts": "generation",
    "references": "reference",
    "images": "image",
    "questions": "question",
}
"""Arguments of a metric's ``score`` -> fields of a row."""


def list_row_fields(metric: Any) -> tuple[str, ...]:
    """Return the fields of a row that a metric scores, in the order of its arguments."""
    looks = getattr(metric, "wants_images", True)  # POSH looks only with a witness
    names = []
    for argument in signature(metric.score).parameters.values():
        name = FIELDS_BY_ARGUMENT.get(argument.name)
        if name is None or argument.kind is Parameter.KEYWORD_ONLY:
            continue
        if looks or name != "image":
            names.append(name)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A server's description of its metric."""

    name: str
    signature: str
    fields: tuple[str, ...]  # of a row, in the order of ``score``'s arguments
    preset: str | None = None  # POSH's wording, whose labels a reward removes from completions
    weights: dict[str, float] | None = None  # POSH's, of entities, attributes and relations


T = TypeVar("T")

MAX_IMAGE_BYTES_PER_REQUEST = 16_000_000  # in base64, unless one image alone is larger
FIRST_PAUSE_SECONDS = 0.2  # before the second try; later pauses double
MAX_PAUSE_SECONDS = 15.0  # between two tries
QUIET_SECONDS = 3.0  # without a server before the wait is logged
BUSY_SECONDS = 15.0  # that a server may be busy, as many ranks make it, before that is logged
FIRST_ANSWER_SECONDS = 60.0
"""Patience with an address at which nobody has answered yet and nobody listens: it may be wrong. A
server listens before it loads its judge, so this has to last only for the start of a process."""
UNREACHED_HINT = "is it started (posh-reward serve), and the address right?"


class RemoteMetric:
    """A server's metric. Safe to use from threads, and to pickle.

    Texts are sent in requests of ``batch``. A request that fails temporarily (no connection, or a
    server that is busy, stopping or starting) is repeated, so the server can be restarted. A text
    without an answer within ``patience`` has a failure, as with any judge. Where nobody listens
    from the start, ``JudgeError`` comes after a minute.

    Args:
        url: the server's URL, such as ``http://localhost:8000``.
        batch: most texts in a request.
        connections: concurrent requests.
        timeout: seconds for one request.
        patience: seconds during which a request is repeated.
        key_env: environment variable that holds the server's key, if it needs one.

    Raises:
        ConfigError: ``url`` is not a URL.
        InputError: a size is below 1.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        batch: int = 64,
        connections: int = 4,
        timeout: float = 600.0,
        patience: float = 600.0,
        key_env: str | None = SERVER_KEY_VARIABLE,
    ) -> None:
        check_sizes(batch=batch, connections=connections)
        if find_spec("httpx") is None:
            raise MissingDependencyError("a remote metric needs httpx: pip install httpx")
        self.url = server_http.check_url(url)
        self.usage = Usage()
        self._batch, self._connections = batch, connections
        self._timeout, self._patience, self._key_env = timeout, patience, key_env
        self._info: MetricInfo | None = None
        self._waiting = False  # and has said so

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def info(self) -> MetricInfo:
        """The server's description of its metric, fetched at the first use."""
        if self._info is None:
            url = f"{self.url}/metric"
            try:
                [reply] = self._run_requests(lambda client: [self._fetch_description(client, url)])
                if isinstance(reply, Failure):
                    raise JudgeError(str(reply))
                self._info = MetricInfo(**reply)
            except TypeError as error:
                raise JudgeError(f"{url} does not describe a metric: {error}") from None
            except server_http.ExchangeError as error:
                hint = f": is the key in {self._key_env}?" if error.status == 401 else ""
                raise JudgeError(f"no metric at {self._explain_refusal(error)[1]}{hint}") from None
        return self._info

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def signature(self) -> str:
        return self.info.signature

    @property
    def wants_images(self) -> bool:
        return "image" in self.info.fields

    def score(self, *columns: Sequence[object], **by_field: Sequence[object]) -> list[Any]:
        """Score texts as the metric's own ``score`` would, in order.

        Args:
            columns: the metric's lists, such as generations and references.
            by_field: further lists by field: ``image=...``.

        Raises:
            InputError: lists differ in length, are missing or too many, or the server refuses rows.
            JudgeError: the server refuses the key, fails, or now runs a different metric.
        """
        info = self.info
        values = dict(zip(info.fields, columns, strict=False)) | by_field
        if len(values) < len(columns) + len(by_field) or not {*values} <= {*info.fields}:
            raise InputError(f"the served metric takes {', '.join(info.fields)}, each once")
        texts = {name: each for name, each in values.items() if name != "image"}
        if texts:
            values |= dict(zip(texts, as_lists(**texts), strict=True))
        check_lengths(**values)
        rows = []
        for row in zip(*values.values(), strict=True):
            cells = zip(values, row, strict=True)
            rows.append({name: _encode_field(name, value) for name, value in cells})
        begun = time.perf_counter()
        chunks = list(_split_rows(rows, self._batch))
        limit = asyncio.Semaphore(self._connections)
        parts = self._run_requests(
            lambda client: [self._score_rows(client, limit, each) for each in chunks]
        )
        self.usage += Usage(requests=len(rows), seconds=time.perf_counter() - begun)
        return list(chain.from_iterable(parts))

    def _run_requests(
        self, work: Callable[[server_http.ServerClient], list[Coroutine[Any, Any, T]]]
    ) -> list[T]:
        """Run coroutines that share a client; return their results in order."""
        key = server_http.read_key(self._key_env)

        async def main() -> list[T]:
            async with server_http.server_client(key, self._timeout, [self.url]) as client:
                return await asyncio.gather(*work(client))

        return server_http.run_apart(main)

    async def _fetch_description(
        self, client: server_http.ServerClient, url: str
    ) -> dict[str, Any] | Failure:
        """Get the description of the server's metric; after some seconds, say what is waited for.

        Later requests may take long: a reply is then a whole batch of scores.
        """
        quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._say_waiting)
        try:
            return await self._request(lambda: client.get(url, self._timeout))
        finally:
            quiet.cancel()

    async def _score_rows(
        self, client: server_http.ServerClient, limit: asyncio.Semaphore, rows: list[dict[str, Any]]
    ) -> list[Any]:
        """Score some rows; halve them if the request or the reply is too large."""
        body = {"rows": rows, "elements": True}
        try:
            async with limit:
                reply = await self._request(lambda: client.post(f"{self.url}/score", body))
        except server_http.ExchangeError as error:
            if error.status != 413 and error.reason != server_http.REPLY_TOO_LONG:
                code, why = self._explain_refusal(error)
                if code == "invalid":
                    raise InputError(why) from None
                raise JudgeError(why) from None
            if len(rows) > 1:
                middle = len(rows) // 2
                first = await self._score_rows(client, limit, rows[:middle])
                return first + await self._score_rows(client, limit, rows[middle:])
            reply = Failure("text", f"the request or its reply is too large for {self.url}")
        if isinstance(reply, Failure):
            return [self._make_failed(reply) for _ in rows]
        return self._read_records(reply, rows)

    def _read_records(self, reply: dict[str, Any], rows: list[dict[str, Any]]) -> list[Any]:
        """Read the scores in a reply, one for each row."""
        if reply.get("signature") != self.signature:
            raise JudgeError(f"{self.url} now runs a different metric: {reply.get('signature')}")
        try:
            scores = [read_scores(self.name, each) for each in reply["scores"]]
            if len(scores) != len(rows):
                raise ValueError(len(scores))
            return scores
        except (KeyError, TypeError, ValueError):
            raise JudgeError(f"{self.url} did not return a score for each text") from None

    async def _request(
        self, exchange: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    ) -> dict[str, Any] | Failure:
        """Repeat a request until there is a reply, or a failure when patience runs out."""
        began = time.monotonic()
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                reply = await exchange()
            except server_http.TransientError as error:
                # Random, so that clients return at different times; not before the server asks.
                wait = max(pause * random.uniform(0.5, 1), error.after * random.uniform(1, 1.25))
                waited = time.monotonic() - began + wait
                away = error.reason == server_http.UNREACHABLE
                never_reached = away and self._info is None
                patience = self._patience
                if never_reached:
                    patience = min(patience, FIRST_ANSWER_SECONDS)
                if waited > patience:
                    reason = self._explain_refusal(error)[1]
                    if never_reached:
                        reason = f"{reason}; {UNREACHED_HINT}"
                    return Failure("engine", reason)
                if away and waited > QUIET_SECONDS:
                    self._say_waiting()
                elif waited > BUSY_SECONDS:
                    self._say_waiting(error.reason)
            else:
                self._waiting = False
                return reply
            await asyncio.sleep(wait)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _say_waiting(self, why: str = UNREACHED_HINT) -> None:
        """Log once, until the next reply, that a server is waited for, and for how long."""
        if self._waiting:
            return
        self._waiting = True
        limit = f"{self._patience:.0f} s"
        if self._info is None and self._patience > FIRST_ANSWER_SECONDS:
            limit += f", or {FIRST_ANSWER_SECONDS:.0f} s if nobody listens there"
        logger.warning(
            "waiting for the metric's server at %s: %s (giving up after %s)", self.url, why, limit
        )

    def _explain_refusal(self, error: server_http.ExchangeError) -> tuple[str, str]:
        """Return code and reason of a refusal; without a code unless our server sent it."""
        try:
            body = json.loads(error.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or error.status in (401, 403):  # the body may contain the key
            why = error.reason if error.kind == "engine" else str(error)
            return "", f"{self.url}: {why}"
        key = server_http.read_key(self._key_env)
        code, why, field, value, remedy = (
            server_http.clean_message(str(body.get(name) or ""), key)
            for name in ("code", "error", "field", "value", "remedy")
        )
        place = ""
        if field:
            place = f" ({field}: {value})" if value else f" ({field})"
        return code, f"{self.url}: {error.reason}: {why}{place}. {remedy}"

    def _make_failed(self, why: Failure) -> Any:
        record = record_class(self.name)
        needed = [e.name for e in fields(record) if MISSING is e.default is e.default_factory]
        return record(**dict.fromkeys(needed) | {"signature": self.signature, "failure": why})


def _encode_field(name: str, value: object) -> object:
    """Convert a value for JSON; a non-text stays one, so that the server gives the reason."""
    if name == "image":
        prompt_image = load_prompt_image(value)
        if isinstance(prompt_image, Failure):
            return None
        return png_base64(prompt_image.image)
    texts = read_texts(value)
    if not isinstance(texts, Failure):
        return texts[0] if len(texts) == 1 else list(texts)
    if value is None or isinstance(value, str | int | float):
        return value
    return {}


def _split_rows(rows: list[dict[str, Any]], batch: int) -> Iterator[list[dict[str, Any]]]:
    """Split rows into requests of at most ``batch`` rows and ``MAX_IMAGE_BYTES_PER_REQUEST``."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        length = len(row.get("image") or "")
        if chunk and (len(chunk) == batch or size + length > MAX_IMAGE_BYTES_PER_REQUEST):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


class RemotePosh(RemoteMetric):
    """A server's POSH, as a metric for a reward: ``PoshReward(RemotePosh(url))``."""

    witness = None  # the server's looks

    @property
    def preset(self) -> str:
        return self.info.preset or "released"

    @property
    def weights(self) -> means.Weights:
        return means.read_weights(self.info.weights or {})

    @property
    def reads_sentences(self) -> bool:
        """True if the server's metric has a reader of sentences."""
        return read_signature_field(self.signature, "reader") is not None

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        figures = means.figures(scores)
        if self.reads_sentences:
            figures |= means.sentence_figures(scores)
        if self.wants_images:
            figures |= means.witness_figures(scores)
        return figures

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        return means.columns(scores)
