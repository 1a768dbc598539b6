"""One exchange with a server: bounded in time and size, and every fault under a name.

Reasons are counted by their text, so they are few and hold no numbers that vary. What a server
says in its own words goes to ``Failed.detail``, cleaned (``words.clean``).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError, MissingDependencyError
from posh_reward.models.server.addresses import address, client
from posh_reward.models.server.words import LOOKED_AT, clean
from posh_reward.types import Failure, FailureKind

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 4_000_000
"""A longer reply is not read: one token with twenty alternatives takes about 3 kB."""
CONNECT_SECONDS = 10.0
"""A machine that takes no connection for this long is taken to be down."""

TIMEOUT = "the server gave no answer in time"
UNREACHABLE = "the server cannot be reached"
DISTRUSTED = "the server's certificate is not trusted"
PROXY = "the proxy that the environment names does not pass requests on"
BAD_ADDRESS = "the server's address cannot be used"
BROKEN_OFF = "the server broke off its reply"
BUSY = "the server is too busy (429)"
NO_JSON = "the server's reply is not JSON"
TOO_BIG = "the server's reply is too long to be read"
COMPRESSED = "the server's reply is compressed, which was not asked for"
TOO_LONG = "the prompt is longer than the model's context"

OVERFLOW = (
    "context length", "context_length", "context size", "context_size", "context window",
    "maximum model length", "too many tokens", "prompt is too long", "prompt too long",
)  # fmt: skip
"""How servers say that a prompt is longer than the context: OpenAI, vLLM before and since 0.16,
SGLang, TensorRT-LLM, llama.cpp."""


class ExchangeError(Exception):
    """An exchange without an answer; asking again would not help.

    Args:
        reason: becomes the verdict's.
        detail: the server's own words, cleaned.
        status: the HTTP status, if there was a response.
    """

    kind: FailureKind = "reply"

    def __init__(self, reason: str, detail: str = "", status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.status = status

    @property
    def failure(self) -> Failure:
        """The judgment's failure, without the server's own words, which vary."""
        return Failure(self.kind, self.reason)

    def __str__(self) -> str:
        return f"{self.reason}; it says: {self.detail}" if self.detail else self.reason


class RefusalError(ExchangeError):
    """A request that this server will not answer as it stands."""

    kind = "prompt"


class TransientError(ExchangeError):
    """An exchange without an answer that may have one next time.

    Args:
        reason: becomes the verdict's.
        detail: the server's own words, cleaned.
        status: the HTTP status, if there was a response.
        after: seconds that the server wants to be left alone.
    """

    kind = "engine"

    def __init__(
        self, reason: str, detail: str = "", status: int | None = None, after: float = 0.0
    ) -> None:
        super().__init__(reason, detail, status)
        self.after = after


class ServerClient:
    """The client of one batch, used as a context within one event loop.

    Args:
        key: sent to every address; None if there is none.
        timeout: seconds for a whole exchange, connecting included.
        urls: all base addresses that it will be asked for.

    Raises:
        ConfigError: the environment names a proxy or certificates that cannot be used.
        MissingDependencyError: its proxy needs a package that is not installed.
    """

    def __init__(self, key: str | None, timeout: float, urls: Sequence[str]) -> None:
        import httpx

        for library in ("httpx", "httpcore"):
            _quieten(library)
        self._key = key
        self._timeout = timeout
        # A few kB of compressed bytes can grow to gigabytes: none are taken (``_encoded``).
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        # Redirects are never followed: the key and the descriptions would go along. The time
        # of an exchange is bounded as a whole: a server that drips bytes would never be late.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = client(
            urls,
            headers=headers,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=limits,
        )

    async def __aenter__(self) -> ServerClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def get(self, url: str) -> dict[str, Any]:
        """The JSON object at an address; see ``post``."""
        return await self._bounded("GET", url, None)

    async def post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that answers a JSON object.

        Raises:
            ExchangeError: there is none; ``Passing`` if there may be one next time.
        """
        # Escapes keep lone surrogates, which broken descriptions have, out of the encoder.
        return await self._bounded("POST", url, json.dumps(body).encode("ascii"))

    async def _bounded(self, method: str, url: str, content: bytes | None) -> dict[str, Any]:
        import httpx

        try:
            exchange = self._exchange(method, url, content)
            return await asyncio.wait_for(exchange, self._timeout)
        except asyncio.TimeoutError:
            failure = TransientError(TIMEOUT)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = TransientError(DISTRUSTED if _distrusts(error) else UNREACHABLE)
        except httpx.ProxyError:
            failure = TransientError(PROXY)
        except httpx.HTTPError:
            failure = TransientError(BROKEN_OFF)
        except (httpx.InvalidURL, ValueError, OverflowError):  # IDNA's errors are ValueErrors
            failure = TransientError(BAD_ADDRESS)
        # Outside the handlers: httpx's errors hold the request, and so the key.
        raise failure

    async def _exchange(self, method: str, url: str, content: bytes | None) -> dict[str, Any]:
        async with self._client.stream(method, url, content=content) as response:
            encoded = _encoded(response)
            received = b"" if encoded else await _received(response)
            if not response.is_success:
                raise self._refusal(response, received)
            if encoded:
                raise ExchangeError(COMPRESSED)
        try:
            reply = json.loads(received)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise TransientError(NO_JSON, self._words(received))
        return reply

    def _refusal(self, response: httpx.Response, received: bytes) -> ExchangeError:
        """What a status other than 2xx means."""
        status, detail = response.status_code, self._words(received)
        place = address(str(response.url))
        if status == 429:
            return TransientError(
                BUSY, detail, status, _seconds(response.headers.get("retry-after"))
            )
        if status == 413 or (status < 500 and any(w in detail.lower() for w in OVERFLOW)):
            return RefusalError(TOO_LONG, detail, status)
        if status == 408 or status >= 500:
            return TransientError(f"the server failed ({status})", detail, status)
        if response.is_redirect or 300 <= status < 400:
            return RefusalError(f"{place} redirects elsewhere: give the final address", "", status)
        if status in (401, 403):
            # No words of the server: they may hold the key in a form that is not recognised.
            return RefusalError(f"{place} does not accept the key ({status})", "", status)
        if status == 404:
            return RefusalError(f"{place} has no such model or address (404)", detail, status)
        return RefusalError(f"the server refuses the request ({status})", detail, status)

    def words(self, said: str) -> str:
        """What a server said, fit for a message; see ``words.clean``."""
        return clean(said, self._key)

    def _words(self, received: bytes) -> str:
        return self.words(received[: 4 * LOOKED_AT].decode("utf-8", errors="replace"))


def _quieten(name: str) -> None:
    """Keeps a library's lines out of logs, unless its own level is set.

    Several a question would drown a training log, and they repeat headers that servers send,
    which may echo the key.
    """
    library = logging.getLogger(name)
    if library.level == logging.NOTSET:
        library.setLevel(logging.WARNING)


def _encoded(response: httpx.Response) -> bool:
    """Whether a reply is compressed, or in any other form than it was asked for."""
    return response.headers.get("content-encoding", "").strip().lower() not in ("", "identity")


async def _received(response: httpx.Response) -> bytes:
    received = bytearray()
    async for chunk in response.aiter_raw():
        received += chunk
        if len(received) > MAX_BYTES:
            raise ExchangeError(TOO_BIG)
    return bytes(received)


def _distrusts(error: BaseException) -> bool:
    """Whether a connection was given up because of the other side's certificate."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _seconds(after: str | None) -> float:
    """The seconds that a ``Retry-After`` header asks for; 0 if it is a date."""
    try:
        seconds = float(after or 0)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable, without blanks around it; None if there is none.

    Raises:
        ConfigError: a header cannot hold it; the message does not repeat it.
    """
    key = os.environ.get(variable, "").strip() if variable else ""
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"{variable} holds blanks or characters beyond ASCII, which no key has: set it again"
        )
    return key or None


def check_httpx() -> None:
    """Raises if the client is not installed.

    Raises:
        MissingDependencyError: it is not; the message has the command.
    """
    try:
        import httpx  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "the server judge needs httpx: pip install 'posh-reward[server]'"
        ) from None
