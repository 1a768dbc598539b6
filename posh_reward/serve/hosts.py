"""Names under which a server is meant to be reached.

A page that somebody opens can have its own name resolved to this machine's address (DNS rebinding),
and then read from a server as if both were one site. It still sends its name as ``Host``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

DOCUMENTATION_ADDRESSES = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Version of IP -> an address of documentation, which nothing is sent to."""


class OwnHosts:
    """ASGI middleware that refuses requests for other names with status 421.

    Accepts this machine's name, ``localhost``, all addresses, which nobody can resolve to another,
    ``names``, and requests without a name, which no browser makes.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str], remedy: str) -> None:
        own = socket.gethostname().lower()
        self._names = {"localhost", own, own.partition(".")[0], *map(str.lower, names)}
        self._app, self._remedy = app, remedy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = ""
        if scope["type"] == "http":
            name = Headers(scope=scope).get("host", "")
        if not name or self._is_own(name):
            await self._app(scope, receive, send)
        else:
            why = f"this server is not reached under that name: {self._remedy}"
            await PlainTextResponse(why, 421)(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        with suppress(ValueError):
            host = (urlsplit(f"//{name}").hostname or "").rstrip(".")
            if host in self._names:
                return True
            ip_address(host)
            return True
        return False


def is_wildcard(host: str) -> bool:
    """Test for an address that stands for all of this machine's, such as ``0.0.0.0``."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:  # a name is no address; an empty one stands for all
        return not host


def format_address(host: str, port: int) -> str:
    """Return the address for others of a server that listens at ``host``."""
    with suppress(ValueError):  # a name is no address
        address = ip_address(host)
        if address.is_unspecified:
            host = _find_outward_address(address.version) or socket.gethostname()
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"http://{host}:{port}"


def _find_outward_address(version: int) -> str | None:
    """Return this machine's address on the way to others, if it has one, best of a version."""
    first = DOCUMENTATION_ADDRESSES[version]
    for elsewhere in dict.fromkeys((first, *DOCUMENTATION_ADDRESSES.values())):
        kind = socket.AF_INET6 if ":" in elsewhere else socket.AF_INET
        with suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))  # sends nothing
            return str(probe.getsockname()[0])
    return None
