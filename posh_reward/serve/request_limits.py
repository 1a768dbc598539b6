"""Middleware in front of an app, which refuses before it reads; limits on bodies; counts."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, Literal, get_args

import uvicorn
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posh_reward.errors import PoshError, on_one_line, shortened
from posh_reward.models.server.server_http import clean

LONGEST_VALUE = 120
"""Characters shown of the faulty value."""
REPR = Repr()
REPR.maxstring = REPR.maxother = LONGEST_VALUE

Code = Literal[
    "unauthorized", "not_found", "method_not_allowed", "slow", "too_large", "invalid",
    "not_scored", "busy", "internal", "judge", "full",
]  # fmt: skip


class Refusal(BaseModel):
    """Reason for a missing result."""

    code: Code = Field(description="For programs; several codes can share a status.")
    error: str = Field(description="The reason, in one line.")
    field: str | None = Field(description="Place of the faulty value, such as rows.0.image.")
    value: str | None = Field(description="The faulty value, shortened.")
    remedy: str = Field(description="Advice, in one line.")


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason for refusals."""

    status: int
    what: str  # description in the schema
    remedy: str
    after: int | None = None  # seconds to wait before the next try, sent as Retry-After


CAUSES: dict[Code, Cause] = {
    "unauthorized": Cause(
        401, "the key is missing or wrong", "Send the server's key as Authorization: Bearer KEY."
    ),
    "not_found": Cause(404, "unknown path", "See /docs for the paths."),
    "method_not_allowed": Cause(
        405, "the path needs another method", "See /docs for the method of each path."
    ),
    "slow": Cause(408, "the body took too long", "Send fewer rows at a time."),
    "too_large": Cause(413, "the body is too large", "Send fewer rows at a time."),
    "invalid": Cause(422, "the request cannot be used", "See /docs for the form of each field."),
    "not_scored": Cause(
        422, "a completion has no reward because it or its reference is faulty",
        "Fix the text, or start the server with --fallback.",
    ),
    "busy": Cause(
        429, "too many texts are waiting", "Send it again after Retry-After, in seconds.", 1
    ),
    "internal": Cause(500, "an error of the server", "See the server's log."),
    "judge": Cause(
        503, "the judge cannot work now",
        "Send it again after Retry-After; see the server's log.", 2,
    ),
    "full": Cause(503, "the server's memory is full", "Send it again after Retry-After.", 2),
}  # fmt: skip
assert {*CAUSES} == {*get_args(Code)}
HTTP_CODES: dict[int, tuple[Code, str]] = {
    400: ("invalid", "body"),
    404: ("not_found", "path"),
    405: ("method_not_allowed", "method"),
}
"""Status of the framework's own errors -> code and field."""
UNKNOWN = "unknown_field"
"""Type of a validation error; its context has the field's place (``at``) in the input."""


class RequestError(PoshError):
    """A request to refuse; arguments as for ``refusal``."""

    def __init__(self, code: Code, why: str, *, field: str, value: object = None) -> None:
        super().__init__(why)
        self.code, self.field, self.value = code, field, value


def refusal(
    code: Code,
    why: str,
    *,
    field: str | None = None,
    value: object = None,
    after: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make a reply without a result.

    Args:
        code: sets the status, too.
        why: the reason, put on one line.
        field: place of the faulty value.
        value: the faulty value; shortened, without keys or images.
        after: seconds to wait before the next try, if other than the cause's.
        headers: further headers, such as ``Allow``.
    """
    cause = CAUSES[code]
    after = cause.after if after is None else after
    headers = dict(headers or {})
    if after is not None:
        headers["Retry-After"] = str(after)
    if code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if value is not None:  # a bounded repr, since a body can be a list of millions
        value = clean(value if isinstance(value, str) else REPR.repr(value), None)
        value = shortened(value, LONGEST_VALUE)
    body = {
        "code": code,
        "error": on_one_line(why),
        "field": field and clean(field, None),
        "value": value,
        "remedy": cause.remedy,
    }
    # In ASCII, since UTF-8 cannot encode half a surrogate pair, which texts can contain.
    return Response(json.dumps(body), cause.status, headers, "application/json")


def http_error(error: HTTPException, request: Request) -> Response:
    """Make the refusal for an error of the framework with a status in ``HTTP_CODES``."""
    code, field = HTTP_CODES[error.status_code]
    value = {"path": request.url.path, "method": request.method}.get(field)
    return refusal(code, error.detail, field=field, value=value, headers=error.headers)


def invalid_body(error: Mapping[str, Any], request: Request) -> Response:
    """Make the refusal for pydantic's first error about a body."""
    place = [str(each) for each in error["loc"] if each != "body"]
    kind, why, value = error["type"], error["msg"], error.get("input")
    if isinstance(value, bytes):  # FastAPI left the body alone
        why = "the body is not read as JSON without the header Content-Type: application/json"
        value = request.headers.get("content-type", "")
        return refusal("invalid", why, field="Content-Type", value=value)
    if kind == UNKNOWN:
        name, value = list(error["input"].items())[error["ctx"]["at"]]
        place.append(name)
    if kind == "json_invalid":  # its place is a character offset
        why = f"{why} at character {' '.join(place)}: {error['ctx']['error']}"
    if kind in ("json_invalid", "missing"):  # its input is the surrounding object
        value = None
    field = ".".join(place) if place and kind != "json_invalid" else "body"
    return refusal("invalid", f"{field}: {why}", field=field, value=value)


def refusal_responses(key: bool) -> dict[int | str, dict[str, object]]:
    """Describe the refusals by status, for an operation's ``responses``; ``key``: one is needed."""
    texts: dict[int, list[str]] = {}
    for code, cause in CAUSES.items():
        if key or code != "unauthorized":
            texts.setdefault(cause.status, []).append(f"`{code}`: {cause.what}")
    later = {cause.status for cause in CAUSES.values() if cause.after is not None}
    again = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return {
        status: {
            "description": "; ".join(lines),
            "model": Refusal,
            **({"headers": again} if status in later else {}),
        }
        for status, lines in texts.items()
    }


BODY_SECONDS = 60.0
"""Longest time that a request's body may take, and with it the end of a server."""
Admit = Callable[[str, Headers], "Response | str | None"]
"""Path and headers -> a refusal; who sends the request; or None for anyone, who sends no body."""
Observer = Callable[[str, int, float], None]
"""Called with the path, the status and the seconds of each request."""


class RequestLimits:
    """ASGI middleware that passes a request on with its whole body, or refuses it.

    Args:
        app: the application behind it.
        admit: decides on a request before its body is read.
        largest: most bytes of a body.
        each: most bytes of one sender's unanswered bodies.
        together: most bytes of all unanswered bodies.
        observe: called after each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        admit: Admit,
        *,
        largest: int,
        each: int,
        together: int,
        observe: Observer = lambda *_: None,
    ) -> None:
        self._app, self._admit, self._observe = app, admit, observe
        self._largest, self._each, self._together = largest, each, together
        self._unanswered: Counter[str] = Counter()  # sender -> bytes of unanswered bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, as in the ASGI specification."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, begun = 500, time.monotonic()

        async def note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        body, sender = bytearray(), ""
        try:
            headers = Headers(scope=scope)
            answer = self._admit(str(scope["path"]), headers)
            if not isinstance(answer, Response):
                sender = answer or ""
                answer = await self._read(headers, receive, body, answer)
            if answer is not None:
                return await answer(scope, receive, note_status)
            await self._app(scope, _replay(bytes(body), receive), note_status)
        except ClientDisconnect:
            status = 499  # the client has gone
        finally:
            self._unanswered[sender] -= len(body)
            self._unanswered += Counter()  # forget who has none
            self._observe(scope["path"], status, time.monotonic() - begun)

    async def _read(
        self, headers: Headers, receive: Receive, body: bytearray, sender: str | None
    ) -> Response | None:
        """Read a request into ``body``; refuse it if too large, too slow, or if memory is full."""
        largest = 0 if sender is None else self._largest
        sender = sender or ""
        size = headers.get("content-length")
        too_large = f"the body has more than {largest:,} bytes"
        if size is not None and size.isdecimal() and int(size) > largest:
            return refusal("too_large", too_large, field="body", value=size)
        until = asyncio.get_running_loop().time() + BODY_SECONDS
        more = True
        while more:
            try:
                left = until - asyncio.get_running_loop().time()
                message = await asyncio.wait_for(receive(), left)
            except asyncio.TimeoutError:
                why = f"the body took more than {BODY_SECONDS:.0f} seconds"
                return refusal("slow", why, field="body")
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if len(body) + len(chunk) > largest:
                return refusal("too_large", too_large, field="body", value=size)
            own = self._unanswered[sender] + len(chunk)
            if own > self._each or self._unanswered.total() + len(chunk) > self._together:
                return refusal("full", "requests in progress fill the memory")
            self._unanswered[sender] = own
            body += chunk
        return None


def has_key(headers: Headers, key: str) -> bool:
    """Return True if a request has the key.

    Either as ``Authorization: Bearer KEY``, or as the password in the URL (``http://any:KEY@host``)
    from clients that cannot set headers.
    """
    scheme, _, password = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            password = b64decode(password).decode().partition(":")[2]
    return hmac.compare_digest(password.encode(), key.encode())


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server; ``run`` it with a listening socket."""
    # No access log: a study's paths are its raters' secret links.
    return uvicorn.Server(
        uvicorn.Config(
            app, ws="none", lifespan="off", log_level="warning", access_log=False,
            server_header=False,
        )
    )  # fmt: skip


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a ``receive`` that returns the body first, then later messages."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
