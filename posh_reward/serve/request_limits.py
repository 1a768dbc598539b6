"""Middleware in front of an app, which refuses before it reads; limits on bodies; counts."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvicorn
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posh_reward.serve.refusals import refusal

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
