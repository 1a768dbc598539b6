"""A metric as an ASGI app: rows in, scores out, in JSON with a published schema.

Texts are untrusted: they are scored, but never opened as paths, fetched or logged. Images come in
the request. Floods, slow clients and large bodies are left to a proxy (docs/serve.md).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import reprlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from posh_reward.errors import (
    BusyError,
    ConfigError,
    InputError,
    JudgeError,
    PoshError,
    cut_middle,
    on_one_line,
)
from posh_reward.metrics.metric import number_or_nan, package_version
from posh_reward.metrics.records import record_class, records_adapter
from posh_reward.posh.means import Weights
from posh_reward.reward.texts import cut_completion
from posh_reward.reward.trl import MetricReward, build_figure_columns
from posh_reward.serve.client import MetricInfo, list_row_fields
from posh_reward.serve.window import BatchedMetric
from posh_reward.types import Failure

MAX_ROWS_PER_REQUEST = 4096
"""Without a limit, a body of empty rows could take gigabytes as objects."""
# Any value passes validation: scoring gives a non-text its own failure.
Text = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})]
STRING_LIST_SCHEMA = {"type": "array", "items": {"type": "string"}}
Texts = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "string"}, STRING_LIST_SCHEMA, {"type": "null"}]})
]


class Body(BaseModel):
    """A JSON object that allows no other fields."""

    model_config = ConfigDict(extra="forbid")


class ScoreRow(Body):
    """A text and what it is scored against."""

    generation: Text = Field(None, description="The text to score.")
    reference: Texts = Field(None, description="The reference, or a list of them.")
    image: Text = Field(None, description="An image file in base64, if the metric looks at it.")
    question: Text = Field(None, description="The question that the text answers, if used.")


class ScoreRequest(Body):
    """Rows to score."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"rows": [{"generation": "A red dog.", "reference": "A brown dog sleeps."}]}
        }
    )
    rows: list[ScoreRow] = Field(max_length=MAX_ROWS_PER_REQUEST)
    elements: bool = Field(False, description="Also return each graded element with its spans.")


class OpenRlhfRequest(Body):
    """OpenRLHF's request: prompts with their completions, prompts alone, references."""

    query: list[Text] = Field(max_length=MAX_ROWS_PER_REQUEST)
    prompts: list[Text] = Field(max_length=MAX_ROWS_PER_REQUEST)
    labels: list[Text] = Field(max_length=MAX_ROWS_PER_REQUEST)


class OpenRlhfReply(BaseModel):
    """OpenRLHF's reply."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class SlimeRequest(BaseModel):
    """A sample from slime."""

    prompt: Any = None
    response: Text
    label: Text = None


class Refusal(BaseModel):
    """Reason for a missing result."""

    code: str = Field(description="For programs; several codes can share a status.")
    error: str = Field(description="The reason, in one line.")
    field: str | None = Field(description="Place of the faulty value, such as rows.0.image.")
    value: str | None = Field(description="The faulty value, shortened.")
    remedy: str = Field(description="Advice, in one line.")


REFUSAL_CODES = {
    "unauthorized": (401, "Send the server's key as Authorization: Bearer KEY.", None),
    "not_found": (404, "See /docs for the paths.", None),
    "method_not_allowed": (405, "See /docs for the method of each path.", None),
    "invalid": (422, "See /docs for the form of each field.", None),
    "not_scored": (422, "Fix the text, or start the server with --fallback.", None),
    "busy": (429, "Send it again after Retry-After, in seconds.", 1),
    "internal": (500, "See the server's log.", None),
    "judge": (503, "Send it again after Retry-After; see the server's log.", 2),
}
"""Code of a refusal -> its status, its remedy, and the seconds in ``Retry-After``."""
HTTP_CODES = {400: ("invalid", "body"), 404: ("not_found", "path"),
              405: ("method_not_allowed", "method")}  # fmt: skip
"""Status of the framework's own errors -> code and field."""
MAX_VALUE_CHARACTERS = 120  # of the faulty value that a refusal shows
MAX_RETRY_SECONDS = 60  # that a client of a busy server is asked to wait
PACE_SMOOTHING = 0.2
"""Weight of a batch's seconds per text in their exponential moving average."""

logger = logging.getLogger(__name__)


def create_app(
    metric: BatchedMetric,
    reward: MetricReward[Any] | None = None,
    *,
    key: str | None = None,
    fallback: float | None = None,
) -> FastAPI:
    """Make an ASGI app that serves a metric and, to trainers, its reward.

    Args:
        metric: one of those in ``metrics.records.RECORD_CLASSES``; concurrent requests share its
            calls.
        reward: made from this ``metric``; needs only texts and references.
        key: expected in requests; None: no key needed.
        fallback: reward of a completion that could not be judged, since trainers need a number;
            None: status 503, so that they ask again.

    Raises:
        ConfigError: the reward is several numbers, or needs more than references.
        JudgeError: this metric cannot be served.
    """
    service = Service(metric, reward, fallback)
    app = FastAPIOffline(
        redoc_url=None,
        title="posh-reward",
        version=package_version(),
        description="Scores descriptions of images. Requests of all clients are scored together.",
        redirect_slashes=False,  # to whatever host a request names
    )
    record: Any = record_class(metric.name)
    reply = create_model("ScoreReply", signature=(str, ...), scores=(list[record], ...))
    guarded = []
    if key is not None:
        guarded = [Depends(HTTPBearer(auto_error=False)), Depends(partial(_check_key, key))]
    get: dict[str, Any] = {"methods": ["GET"], "responses": {"default": {"model": Refusal}}}
    guarded_get = {**get, "dependencies": guarded}
    post = {**guarded_get, "methods": ["POST"]}
    route = app.add_api_route
    route("/v1/score", service.score, summary="Score rows", response_model=reply, **post)
    route("/v1/metric", service.metric_info, summary="Describe the metric", **guarded_get)
    if reward is not None:
        route("/v1/openrlhf", service.openrlhf, summary="Reward OpenRLHF's queries",
              response_model=OpenRlhfReply, **post)  # fmt: skip
        route("/v1/slime", service.slime, summary="Reward a sample from slime",
              response_model=dict[str, float], **post)  # fmt: skip
    route("/health", service.health, summary="Check that the judge works", **get)
    route("/metrics", service.metrics, include_in_schema=False, **guarded_get)
    route("/", lambda: RedirectResponse("/docs"), include_in_schema=False, **get)
    for kind in (PoshError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, service.answer_error)
    return app


async def _check_key(key: str, request: Request) -> None:
    """Refuse a request without the key.

    It comes as ``Authorization: Bearer KEY``, or as the password in the URL
    (``http://any:KEY@host``) from clients that cannot set headers.
    """
    scheme, _, password = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            password = b64decode(password).decode().partition(":")[2]
    if not hmac.compare_digest(password.encode(), key.encode()):
        why = "this server needs its key, and got another one or none"
        raise RequestError("unauthorized", why, field="Authorization")


class RequestError(PoshError):
    """A request to refuse; arguments as for ``make_refusal``."""

    def __init__(self, code: str, why: str, *, field: str, value: object = None) -> None:
        super().__init__(why)
        self.code, self.field, self.value = code, field, value


def make_refusal(
    code: str, why: str, field: str | None = None, value: object = None, after: int | None = None
) -> Response:
    """Make a reply without a result by ``REFUSAL_CODES``; ``after`` overrides its seconds."""
    status, remedy, pause = REFUSAL_CODES[code]
    if value is not None:
        text = value if isinstance(value, str) else reprlib.repr(value)  # of at most six values
        value = cut_middle(on_one_line(text), MAX_VALUE_CHARACTERS)
    body = {"code": code, "error": on_one_line(why), "field": field, "value": value,
            "remedy": remedy}  # fmt: skip
    headers = {}
    if pause is not None:
        headers["Retry-After"] = str(after or pause)
    if code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    # In ASCII, since UTF-8 cannot encode half a surrogate pair, which texts can contain.
    return Response(json.dumps(body), status, headers, "application/json")


def _refuse_body(error: Mapping[str, Any], request: Request) -> Response:
    """Make the refusal for pydantic's first error about a body."""
    place = [str(each) for each in error["loc"] if each != "body"]
    kind, why, value = error["type"], error["msg"], error.get("input")
    if isinstance(value, bytes):  # FastAPI left the body alone
        why = "the body is not read as JSON without the header Content-Type: application/json"
        return make_refusal("invalid", why, "Content-Type", request.headers.get("content-type", ""))
    if kind == "json_invalid":  # its place is a character offset
        why, place = f"{why} at character {' '.join(place)}: {error['ctx']['error']}", []
    if kind in ("json_invalid", "missing"):  # its input is the surrounding object
        value = None
    field = ".".join(place) or "body"
    return make_refusal("invalid", f"{field}: {why}", field, value)


class Service:
    """The app's endpoints and counters; arguments and errors as for ``create_app``."""

    def __init__(
        self, metric: BatchedMetric, reward: MetricReward[Any] | None, fallback: float | None
    ) -> None:
        self.metric, self.reward, self._fallback = metric, reward, fallback
        if reward is not None and (
            len(reward.objectives) > 1 or "image" in list_row_fields(metric.metric)
        ):
            raise ConfigError(
                "trainers need one number from a text and a reference: serve no reward, or one "
                "with objective f1 or weighted and no witness"
            )
        self.trouble: str | None = None
        """Reason why the judge failed at every text of the last request."""
        self._writer = records_adapter(metric.name)
        self._seconds_per_text = 0.0
        self.registry = registry = CollectorRegistry()
        self._texts = Counter("posh_texts", "Texts by outcome: scored, or the kind of failure",
                              ["outcome"], registry=registry)  # fmt: skip
        self._batches = Histogram("posh_batch_texts", "Texts per call of the metric",
                                  buckets=[2**n for n in range(11)], registry=registry)  # fmt: skip
        for name, what, now in (
            ("waiting_texts", "Waiting texts", lambda: len(metric.window)),
            ("judge_requests", "Questions so far", lambda: metric.usage.requests),
            ("judge_cached", "Answers from memory or store", lambda: metric.usage.cache_hits),
        ):
            Gauge(f"posh_{name}", what, registry=registry).set_function(now)
        metric.window.observer = self._observe_batch

    async def score(self, body: ScoreRequest, request: Request) -> Response:
        """Score rows, in order. A row that cannot be scored has nulls and a `failure`."""
        names = list_row_fields(self.metric.metric)
        columns = []
        for name in names:
            columns.append([_decode_field(name, getattr(row, name)) for row in body.rows])
        scores = await self._wait_for_scores(self.metric.submit(*columns), request)
        if scores and not body.elements and hasattr(scores[0], "elements"):
            scores = [replace(each, elements=()) for each in scores]
        records = self._writer.dump_python(scores, mode="json")
        return _encode_json({"signature": self.metric.signature, "scores": records})

    async def openrlhf(self, body: OpenRlhfRequest, request: Request) -> Response:
        """Reward queries as OpenRLHF's trainer sends them (`--reward.remote_url`)."""
        sizes = [len(body.query), len(body.prompts), len(body.labels)]
        if len(set(sizes)) > 1:
            why = "query, prompts and labels differ in length: send one of each per completion"
            raise RequestError("invalid", why, field="query, prompts, labels", value=sizes)
        completions = list(map(cut_completion, body.query, body.prompts))
        for number, query in enumerate(body.query):
            if isinstance(query, str) and completions[number] is None and self._fallback is None:
                why = "no reward: the query lacks its prompt's last line"
                raise RequestError("not_scored", why, field=f"query.{number}", value=query)
        fields = ("query.{}", "labels.{}")
        rewards, logs = await self._reward_completions(completions, body.labels, fields, request)
        return _encode_json({"rewards": rewards, "scores": rewards, "extra_logs": logs})

    async def slime(self, body: SlimeRequest, request: Request) -> Response:
        """Reward a sample as slime's `remote_rm` sends it (`--reward-key reward`)."""
        fields = ("response", "label")
        texts, references = [body.response], [body.label]
        [reward], logs = await self._reward_completions(texts, references, fields, request)
        figures = {name: values[0] for name, values in logs.items()}
        return _encode_json({"reward": reward, **figures})

    async def metric_info(self) -> MetricInfo:
        """Return name, signature, and the fields that a row needs."""
        metric = self.metric
        preset, weights = getattr(metric, "preset", None), getattr(metric, "weights", None)
        weights = asdict(weights) if isinstance(weights, Weights) else None
        return MetricInfo(
            metric.name, metric.signature, list_row_fields(metric.metric), preset, weights
        )

    async def health(self) -> dict[str, str | int]:
        """Return status 503 if the judge failed at every text of the last request."""
        if self.trouble is not None:
            raise JudgeError(self.trouble)
        return {"status": "ok", "waiting": len(self.metric.window)}

    async def metrics(self) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    async def _reward_completions(
        self,
        completions: Sequence[object],
        references: Sequence[object],
        fields: tuple[str, str],
        request: Request,
    ) -> tuple[list[float], dict[str, list[float]]]:
        """Return rewards of completions, and sub-scores by their names in TRL's log."""
        assert self.reward is not None
        column = self.reward.reference_column
        batch = self.reward.batch(completions, {column: references})
        scores = await self._wait_for_scores(self.metric.submit(*batch), request)
        [rewards] = self.reward.rewards_of(scores).values()
        for number, score in enumerate(scores):
            if score.failure is not None:
                texts = (completions[number], references[number])
                self._report_failure(score.failure, number, texts, fields)
                break
        figures = build_figure_columns(self.reward.metric, scores)
        figures["failed"] = [reward is None for reward in rewards]
        logs = {}
        for name, values in figures.items():
            logs[name] = list(map(number_or_nan, values))
        return [self._fallback if each is None else each for each in rewards], logs  # type: ignore[misc]

    def _report_failure(
        self, failure: Failure, number: int, texts: tuple[object, object], fields: tuple[str, str]
    ) -> None:
        """Log that a completion has no score; refuse its request unless there is a fallback."""
        logger.warning("a completion could not be judged: %s", failure)
        if self._fallback is not None:
            return
        faulty = int(not isinstance(texts[1], str))  # the reference if it is no text
        raise RequestError(
            "judge" if failure.is_transient else "not_scored",
            f"no reward: {failure}",
            field=fields[faulty].format(number),
            value=texts[faulty],
        )

    async def _wait_for_scores(self, futures: Sequence[Future[Any]], request: Request) -> list[Any]:
        """Wait for scores; if the client leaves, drop those not started."""
        scores: asyncio.Future[list[Any]] = asyncio.gather(*map(asyncio.wrap_future, futures))
        # After the body, the only message left is the disconnect.
        departure: asyncio.Future[Any] = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait({scores, departure}, return_when=asyncio.FIRST_COMPLETED)
            if not scores.done():
                raise ClientDisconnect
            results = scores.result()
        finally:
            scores.cancel()  # reaches the window, which drops what it has not started
            departure.cancel()
        failures = [each.failure for each in results]
        for failure in failures:
            self._texts.labels(failure.kind if failure is not None else "scored").inc()
        if failures:
            lost = all(failure is not None and failure.is_transient for failure in failures)
            self.trouble = str(failures[-1]) if lost else None
        return results

    def _observe_batch(self, size: int, seconds: float) -> None:
        self._batches.observe(size)
        kept = (1 - PACE_SMOOTHING) * self._seconds_per_text
        self._seconds_per_text = kept + PACE_SMOOTHING * seconds / size

    async def answer_error(self, request: Request, error: Exception) -> Response:
        why = str(error)
        if isinstance(error, RequestError):
            return make_refusal(error.code, why, error.field, error.value)
        if isinstance(error, ClientDisconnect):
            return Response(status_code=499)
        if isinstance(error, BusyError):
            # Time to process what is waiting, at the current pace.
            wait = math.ceil(self._seconds_per_text * len(self.metric.window))
            return make_refusal("busy", why, "rows", after=min(max(wait, 1), MAX_RETRY_SECONDS))
        if isinstance(error, JudgeError):
            self.trouble = why
            return make_refusal("judge", why)
        if isinstance(error, InputError):
            return make_refusal("invalid", why, "body")
        if isinstance(error, RequestValidationError):
            return _refuse_body(error.errors()[0], request)
        if isinstance(error, HTTPException) and error.status_code in HTTP_CODES:
            code, field = HTTP_CODES[error.status_code]
            value = {"path": request.url.path, "method": request.method}.get(field)
            return make_refusal(code, error.detail, field, value)
        logger.error("a request at %s failed", request.url.path, exc_info=error)
        if not isinstance(error, PoshError):
            why = type(error).__name__
        return make_refusal("internal", why)


def _encode_json(content: object) -> Response:
    """Encode JSON in ASCII; NaN stays, which trainers read as a missing figure."""
    return Response(json.dumps(content), media_type="application/json")


def _decode_field(name: str, value: object) -> object:
    """Convert a field to what the metric takes: an image to bytes, never to a path."""
    if name != "image" or value is None:
        return value
    if not isinstance(value, str):
        return Failure("text", "the image is not a base64 string")
    if value.startswith("data:"):
        value = value.partition(",")[2]
    try:
        return b64decode(value, validate=True)
    except ValueError:
        return Failure("text", "the image is not base64")
