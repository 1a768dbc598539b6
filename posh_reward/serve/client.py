"""A server's metric in the place of one of this process (``posh-reward serve``)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import Any, TypeVar

from posh_reward.errors import InputError, JudgeError, MissingDependencyError, PoshError
from posh_reward.metrics.metric import check_lists, check_sizes
from posh_reward.models.server.addresses import check_url
from posh_reward.models.server.server_http import (
    TOO_BIG,
    ExchangeError,
    ServerClient,
    TransientError,
    clean,
    read_key,
    run_apart,
    server_client,
)
from posh_reward.types import Failure, Scores, Usage

T = TypeVar("T")

KEY = "POSH_REWARD_KEY"
"""Environment variable with the key, of server and client."""
RECORDS = {
    "posh": "posh_reward.types:Scores",
    "harmonic": "posh_reward.metrics.harmonic.harmonic_eval:HarmonicScores",
    "rubric": "posh_reward.metrics.rubric.points:RubricScores",
}
"""Metric -> ``module:class`` of its scores."""
FIELDS = {
    "generations": "generation",
    "texts": "generation",
    "references": "reference",
    "images": "image",
    "questions": "question",
}
"""Arguments of a metric's ``score`` -> fields of a row."""
LONGEST_BODY = 16_000_000
"""Bytes of a request's images, base64 included, beyond which no further row is added."""
LONGEST_PAUSE = 15.0
"""Seconds between two tries."""


def fields_of(metric: Any) -> tuple[str, ...]:
    """The fields of a row that a metric scores, in the order of its arguments."""
    arguments = signature(metric.score).parameters.values()
    positional = [each for each in arguments if each.kind is not Parameter.KEYWORD_ONLY]
    names = (FIELDS[each.name] for each in positional if each.name in FIELDS)
    looks = getattr(metric, "wants_images", True)  # POSH only with a witness
    return tuple(name for name in names if name != "image" or looks)


def record_class(metric: str) -> type[Any]:
    """The class of a metric's scores.

    Raises:
        JudgeError: no such metric is served.
    """
    if metric not in RECORDS:
        raise JudgeError(f"the server has a metric {metric!r}, not one of {', '.join(RECORDS)}")
    module, _, name = RECORDS[metric].partition(":")
    record: type[Any] = getattr(import_module(module), name)
    return record


@cache
def records_adapter(metric: str) -> Any:
    """Pydantic's reader and writer of lists of a metric's scores."""
    from pydantic import TypeAdapter

    record: Any = record_class(metric)
    return TypeAdapter(list[record])


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A served metric, as its server describes it."""

    name: str
    signature: str
    fields: tuple[str, ...]
    """Of a row, in the order of ``score``'s arguments: generation, reference, image, question."""
    preset: str | None = None
    """Of POSH: its wording, whose labels a reward keeps out of completions."""
    weights: dict[str, float] | None = None
    """Of POSH: of entities, attributes and relations."""


class RemoteMetric:
    """A served metric. Safe to use from threads, and to pickle.

    Texts go in requests of ``batch``; what fails for a moment (no connection, a server that is
    busy, ends or begins) is tried again, so that a server may be killed and started again. A text
    that got no answer within ``patience`` has a failure, as with any judge.

    Args:
        url: the server's, such as ``http://localhost:8000``.
        batch: most texts of a request.
        connections: requests at a time.
        timeout: seconds for one request.
        patience: seconds during which a request is tried again.
        key_env: environment variable that holds the server's key, if it has one.

    Raises:
        ConfigError: ``url`` is not an address.
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
        key_env: str | None = KEY,
    ) -> None:
        check_sizes(batch=batch, connections=connections)
        if find_spec("httpx") is None:
            raise MissingDependencyError("a remote metric needs httpx: pip install httpx")
        self.url = check_url(url)
        self.usage = Usage()
        self._batch, self._connections = batch, connections
        self._timeout, self._patience, self._key_env = timeout, patience, key_env
        self._info: MetricInfo | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def info(self) -> MetricInfo:
        """The metric as its server described it at the first use.

        Raises:
            JudgeError: there is no such server, or it refuses the key.
        """
        if self._info is None:
            url = f"{self.url}/metric"
            try:
                [reply] = self._run(
                    lambda client: [self._patiently(lambda: client.get(url, self._timeout))]
                )
                if isinstance(reply, Failure):
                    raise JudgeError(str(reply))
                self._info = MetricInfo(**reply)
            except TypeError as error:
                raise JudgeError(f"{url} describes no metric: {error}") from None
            except ExchangeError as error:
                hint = f": is the key in {self._key_env}?" if error.status == 401 else ""
                raise JudgeError(f"no metric at {self._reason(error)[1]}{hint}") from None
        return self._info

    @property
    def name(self) -> str:
        """The metric's."""
        return self.info.name

    @property
    def signature(self) -> str:
        """The metric's: scores do not depend on where they were made."""
        return self.info.signature

    @property
    def wants_images(self) -> bool:
        """True if it looks at images."""
        return "image" in self.info.fields

    def score(self, *columns: Sequence[object], **by_field: Sequence[object]) -> list[Any]:
        """Score texts as the metric's own ``score`` would, in order.

        Args:
            columns: its lists, such as generations and references.
            by_field: likewise, by the name of the row's field: ``image=...``.

        Raises:
            InputError: lists differ in length, or are too few or too many; the server refuses rows.
            JudgeError: the server refuses the key or fails, or has another metric by now.
        """
        info = self.info
        values = dict(zip(info.fields, columns, strict=False)) | by_field
        if len(values) < len(columns) + len(by_field) or not {*values} <= {*info.fields}:
            raise InputError(f"the served metric takes {', '.join(info.fields)}, each once")
        check_lists(**values)
        rows = [
            {name: _cell(name, value) for name, value in zip(values, row, strict=True)}
            for row in zip(*values.values(), strict=True)
        ]
        begun = time.perf_counter()
        chunks = list(_chunks(rows, self._batch))
        limit = asyncio.Semaphore(self._connections)
        parts = self._run(lambda client: [self._scores(client, limit, each) for each in chunks])
        self.usage += Usage(requests=len(rows), seconds=time.perf_counter() - begun)
        return [score for part in parts for score in part]

    def _run(self, work: Callable[[ServerClient], list[Coroutine[Any, Any, T]]]) -> list[T]:
        """The results of coroutines that share a client, in order."""
        key = read_key(self._key_env)

        async def main() -> list[T]:
            async with server_client(key, self._timeout, [self.url]) as client:
                return await asyncio.gather(*work(client))

        return run_apart(main)

    async def _scores(
        self, client: ServerClient, limit: asyncio.Semaphore, rows: list[dict[str, Any]]
    ) -> list[Any]:
        """The scores of some rows; a request or a reply that is too large is halved."""
        body = {"rows": rows, "elements": True}
        try:
            async with limit:
                reply = await self._patiently(lambda: client.post(f"{self.url}/score", body))
        except ExchangeError as error:
            if error.status != 413 and error.reason != TOO_BIG:
                raise self._refusal(error) from None
            if len(rows) > 1:
                middle = len(rows) // 2
                halves = [
                    self._scores(client, limit, half) for half in (rows[:middle], rows[middle:])
                ]
                return [score for half in halves for score in await half]
            reply = Failure("text", f"its request or its reply is too large for {self.url}")
        if isinstance(reply, Failure):
            return [self._failed(reply) for _ in rows]
        return self._records(reply, rows)

    def _records(self, reply: dict[str, Any], rows: list[dict[str, Any]]) -> list[Any]:
        """The scores in a reply, each of them about its own row.

        Raises:
            JudgeError: they are of another metric, or no scores.
        """
        if reply.get("signature") != self.signature:
            raise JudgeError(f"{self.url} has another metric by now: {reply.get('signature')}")
        try:
            scores = records_adapter(self.name).validate_python(reply.get("scores"))
            return [
                score if _is_about(score, row) else self._failed(MISTAKEN)
                for score, row in zip(scores, rows, strict=True)
            ]
        except ValueError:  # pydantic's are, too
            raise JudgeError(f"{self.url} gives no scores, or not one for each text") from None

    async def _patiently(
        self, exchange: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    ) -> dict[str, Any] | Failure:
        """A reply; a failure if there was none for too long.

        Raises:
            ExchangeError: the server refuses the request.
        """
        until = time.monotonic() + self._patience
        pause = 0.2
        while True:
            try:
                return await exchange()
            except TransientError as error:
                # Clients of one server are to come back at different times, and not before it says.
                wait = max(pause * random.uniform(0.5, 1), error.after * random.uniform(1, 1.25))
                if time.monotonic() + wait > until:
                    return Failure("engine", self._reason(error)[1])
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _refusal(self, error: ExchangeError) -> PoshError:
        """The error that a refusal is here: of the caller's rows, or of the server."""
        code, why = self._reason(error)
        return InputError(why) if code in ("invalid", "too_large") else JudgeError(why)

    def _reason(self, error: ExchangeError) -> tuple[str, str]:
        """Code and reason of a refusal in the form that the server publishes, or of another."""
        try:
            body = json.loads(error.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or error.status in (401, 403):  # words may hold the key
            return "", f"{self.url}: {error.reason if error.kind == 'engine' else error}"
        key = read_key(self._key_env)
        code, why, field, value, remedy = (
            clean(str(body.get(name) or ""), key)
            for name in ("code", "error", "field", "value", "remedy")
        )
        place = f" ({field}{value and f': {value}'})" if field else ""
        return code, f"{self.url}: {error.reason}: {why}{place}. {remedy}"

    def _failed(self, why: Failure) -> Any:
        """The scores of a text that has none."""
        record = record_class(self.name)
        needed = [e.name for e in fields(record) if MISSING is e.default is e.default_factory]
        return record(**dict.fromkeys(needed) | {"signature": self.signature, "failure": why})


MISTAKEN = Failure("reply", "the server answered for another text")


def _is_about(score: Any, row: dict[str, Any]) -> bool:
    """True if a score repeats the text that was sent; one that failed need not."""
    text = getattr(score, "generation", getattr(score, "text", None))
    generation = row["generation"]
    return score.failure is not None or (isinstance(generation, str) and text == generation.strip())


def _cell(name: str, value: object) -> object:
    """A value as JSON has it; what is no text fails at the server, with its reason."""
    if name == "image":
        return _encoded(value)
    if isinstance(value, list | tuple):
        return [each if isinstance(each, str) else None for each in value]
    return value if value is None or isinstance(value, str | int | float) else {}


def _encoded(value: object) -> str | None:
    """An image as a PNG in base64, without loss; None if it cannot be read."""
    from posh_reward.models.prompt_images import image_of, png_base64

    prompt_image = image_of(value)
    return None if isinstance(prompt_image, Failure) else png_base64(prompt_image.image)


def _chunks(rows: list[dict[str, Any]], batch: int) -> Iterator[list[dict[str, Any]]]:
    """Rows by requests: so many at most, and fewer with large images."""
    some: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        length = len(row.get("image") or "")
        if some and (len(some) == batch or size + length > LONGEST_BODY):
            yield some
            some, size = [], 0
        some.append(row)
        size += length
    if some:
        yield some


class RemotePosh(RemoteMetric):
    """A served POSH, which a reward takes for its metric: ``PoshReward(RemotePosh(url))``."""

    witness = None
    """It looks from the server."""

    @property
    def preset(self) -> str:
        """Of the wording."""
        return self.info.preset or "released"

    @property
    def weights(self) -> Any:
        """Of entities, attributes and relations."""
        from posh_reward.metrics.posh.aggregate import weights_of

        return weights_of(self.info.weights or {})

    def figures(self, scores: Sequence[Scores]) -> dict[str, float]:
        """As ``PoSh.figures``."""
        from posh_reward.metrics.posh.aggregate import figures, witness_figures

        return figures(scores) | (witness_figures(scores) if self.wants_images else {})

    def columns(self, scores: Sequence[Scores]) -> dict[str, list[float | None]]:
        """As ``PoSh.columns``."""
        from posh_reward.metrics.posh.aggregate import columns

        return columns(scores)
