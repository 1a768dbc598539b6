"""uvicorn, with bounds on clients that keep it waiting.

Its own settings bound the time between two requests of a connection, but neither the time before
the first one nor that of a request's headers, and its ``limit_concurrency`` counts connections that
send nothing: a thousand of them would lock everybody out.
"""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 900
"""At a time, below the 1,024 open files that systems commonly allow."""
PATIENCE = 30
"""Seconds for the head of a request to come, for a reply to be read on, and between requests."""


class BoundedConnection(H11Protocol):
    """A client's connection; it is cut off while the server waits for it, and never otherwise.

    With ``MOST_CONNECTIONS`` open, those that have been silent longest make room for a new one: an
    honest client sends its request at once, and those who hold connections open cannot keep it
    out, however many they are and even if each sends a byte from time to time.
    """

    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and begin to watch the client."""
        super().connection_made(transport)
        self.last_byte = self.loop.time()
        if len(self.connections) >= MOST_CONNECTIONS:
            self._make_room()
        self._look(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note the time."""
        self.last_byte = self.loop.time()
        super().data_received(data)

    def shutdown(self) -> None:
        """At the server's end: a request of which a part is missing has not been accepted."""
        if self.uploads:
            self.transport.abort()
        else:
            super().shutdown()

    @property
    def stalls(self) -> bool:
        """True while it is for the client to send a request's head, or to read a reply."""
        # A reply can be complete and still lie in the buffer. If it fills that, the next one waits.
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    @property
    def uploads(self) -> bool:
        """True while a part of a request's body is missing; ``Gate`` bounds that time."""
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Cut off the tenth of those that can be, so that a flood is not sorted at each arrival."""
        idle = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection)
            and each is not self
            and (each.stalls or each.uploads)
        ]
        idle.sort(key=lambda each: each.last_byte)
        for each in idle[: MOST_CONNECTIONS // 10]:
            each.transport.abort()  # close() would wait for what is unread

    def _look(self, before: tuple[object, int] | None) -> None:
        """Cut off a client that stalls, and got nothing further since the last look."""
        # Another request is further, or less that waits to be sent; a byte of a head is not.
        now = (self.cycle, self.transport.get_write_buffer_size()) if self.stalls else None
        if now is not None and now == before:
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(PATIENCE, self._look, now)


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server whose connections are bounded; ``run`` it with a socket that listens."""
    # No log of requests: a study's paths are its raters' links.
    config = uvicorn.Config(
        app, http=BoundedConnection, ws="none", lifespan="off", log_level="warning",
        access_log=False, server_header=False, timeout_keep_alive=PATIENCE, backlog=2048,
    )  # fmt: skip
    return uvicorn.Server(config)
