"""uvicorn with limits on slow clients.

Its own settings limit the time between two requests of a connection, but neither the time before
the first one nor that of a request's headers. Its ``limit_concurrency`` also counts connections
that send nothing: a thousand of them would lock everyone out.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 900
"""Open connections, below the 1,024 files that systems commonly allow."""
PATIENCE = 30
"""Most seconds for a request's head, for reading more of a reply, and between requests."""
ACCEPTED, QUEUED = 16, 2048
"""Most connections that are accepted at a time, before those accepted are read; most that wait."""


class BoundedConnection(H11Protocol):
    """A client's connection, which is cut only while the server waits for the client.

    At ``MOST_CONNECTIONS`` the longest silent ones are cut for a new one. Since an honest client
    sends its request at once, clients that hold connections open cannot keep it out, even if each
    sends a byte from time to time.
    """

    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and start watching the client."""
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
        """Stop with the server: drop a request that is still incomplete, finish any other."""
        if self.uploads:
            self.transport.abort()
        else:
            super().shutdown()

    @property
    def stalls(self) -> bool:
        """True while the client has to send a request's head, or to read a reply."""
        # A complete reply can still be in the buffer; if it fills the buffer, writing pauses.
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    @property
    def uploads(self) -> bool:
        """True while a request's body is incomplete; ``Gate`` limits that time."""
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Cut a tenth of the limit at once, so that a flood is not sorted at each arrival."""
        others = (c for c in self.connections if isinstance(c, BoundedConnection) and c is not self)
        idle = [each for each in others if each.stalls or each.uploads]
        idle.sort(key=lambda each: each.last_byte)
        for each in idle[: MOST_CONNECTIONS // 10]:
            each.transport.abort()  # close() would wait for unread data
            self.connections.discard(each)  # its end comes after those already accepted

    def _look(self, before: tuple[object, int] | None) -> None:
        """Cut a client that stalls without progress since the last look."""
        # A new request or less unsent data is progress; another byte of a head is not.
        now = (self.cycle, self.transport.get_write_buffer_size()) if self.stalls else None
        if now is not None and now == before:
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(PATIENCE, self._look, now)


class PacedServer(uvicorn.Server):
    """Server that reads its newest connections before it accepts many more.

    Otherwise a flood would fill ``MOST_CONNECTIONS`` several times over between the arrival of an
    honest client and the first look at its request.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; lengthen the queue again, for which asyncio uses ``ACCEPTED``, too."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(QUEUED)


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server with bounded connections; ``run`` it with a listening socket."""
    # No access log: a study's paths are its raters' secret links.
    config = uvicorn.Config(
        app, http=BoundedConnection, ws="none", lifespan="off", log_level="warning",
        access_log=False, server_header=False, timeout_keep_alive=PATIENCE, backlog=ACCEPTED,
    )  # fmt: skip
    return PacedServer(config)
