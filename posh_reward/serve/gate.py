"""Middleware in front of the app: the key, limits on the size of bodies, and counts."""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posh_reward.serve.refusals import refusal

GUARDED = ("/v1", "/metrics")
"""Prefixes of the paths that need the key; the others reveal nothing."""
BODY_SECONDS = 60.0
"""Longest time that a request's body may take."""
Observer = Callable[[str, int, float], None]
"""Called with the path, the status and the seconds of each request."""


class Gate:
    """ASGI middleware that passes a request on with its whole body, or refuses it.

    Args:
        app: the application behind it.
        key: expected as ``Authorization: Bearer KEY``, or as the password in the URL
            (``http://any:KEY@host``) from clients that cannot set headers. None: no key needed.
        largest: most bytes of a body.
        together: most bytes of all unanswered bodies.
        observe: called after each request.
    """

    def __init__(
        self, app: ASGIApp, key: str | None, largest: int, together: int, observe: Observer
    ) -> None:
        self._app, self._key, self._largest, self._together = app, key, largest, together
        self._observe = observe
        self.unanswered = 0
        """Bytes of all unanswered bodies."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, as in the ASGI specification."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, begun = 500, time.monotonic()

        async def note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        body = bytearray()
        try:
            guarded = str(scope["path"]).startswith(GUARDED)
            headers = Headers(scope=scope)
            answer = self._unauthorized(headers) if guarded else None
            # Paths without a key accept no body: anyone's bodies could fill the memory.
            largest = self._largest if guarded or self._key is None else 0
            if answer is None:
                answer = await self._read(headers, receive, body, largest)
            if answer is not None:
                return await answer(scope, receive, note_status)
            await self._app(scope, _replay(bytes(body), receive), note_status)
        except ClientDisconnect:
            status = 499  # the client has gone
        finally:
            self.unanswered -= len(body)
            self._observe(scope["path"], status, time.monotonic() - begun)

    def _unauthorized(self, headers: Headers) -> Response | None:
        """Return a refusal if a request lacks the key."""
        if self._key is None:
            return None
        scheme, _, password = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            with suppress(ValueError):
                password = b64decode(password).decode().partition(":")[2]
        if hmac.compare_digest(password.encode(), self._key.encode()):
            return None
        why = "this server needs its key, and got another one or none"
        return refusal("unauthorized", why, field="Authorization")

    async def _read(
        self, headers: Headers, receive: Receive, body: bytearray, largest: int
    ) -> Response | None:
        """Read a request into ``body``; refuse it if too large, too slow, or if memory is full."""
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
            if self.unanswered + len(chunk) > self._together:
                return refusal("full", "requests in progress fill the memory")
            self.unanswered += len(chunk)
            body += chunk
        return None


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a ``receive`` that returns the body first, then later messages."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
