"""One exchange with a server: bounded in time and size, with a reason for every fault.

Reasons are counted by their text, so they are few and contain no varying numbers. A server's own
message goes to ``ExchangeError.detail``, sanitised.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import ssl
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import cache
from ipaddress import IPv4Address, ip_address
from socket import inet_aton
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from posh_reward.errors import ConfigError, MissingDependencyError
from posh_reward.types import Failure, FailureKind

if TYPE_CHECKING:
    import httpx


SERVERS = ("http", "https")
PROXIES = ("http", "https", "socks5", "socks5h")
LONGEST = 200  # characters of an address in a message
HOST_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.IGNORECASE)
"""One part of a host name; Docker's contain underscores."""


def check_url(url: str) -> str:
    """Normalise a base address: no trailing slash, ``/v1`` after a bare host.

    Raises:
        ConfigError: not an address, or one with credentials.
    """
    url = url.strip()
    fault = _fault(url, SERVERS)
    if fault is not None:
        raise ConfigError(
            f"base_urls: {_in_message(url)} is not an address: {fault}; "
            "write it as http://localhost:8000/v1"
        )
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"base_urls: the address at {parts.hostname} has more than scheme, host and path: "
            "pass keys through the environment (api_key_env)"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def origin(url: str) -> str:
    """An address for messages: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_local(url: str) -> bool:
    """True for an address of this machine, in any notation."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ip = ip_address(host)
    except ValueError:
        try:
            ip = IPv4Address(inet_aton(host))  # "127.1"
        except (OSError, ValueError):
            return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified


def http_client(urls: Iterable[str], **options: Any) -> httpx.AsyncClient:
    """Make an HTTP client that uses the environment's proxies, except for servers on this machine.

    Raises:
        ConfigError: the environment's proxy or certificates cannot be used.
        MissingDependencyError: the proxy needs a package that is not installed.
    """
    import httpx

    urls = list(urls)
    local = [urlsplit(url).hostname or "" for url in urls if is_local(url)]
    remote = len(local) < len(urls)
    proxies = getproxies() if remote else {}
    used = {f"{s}_proxy": proxies[s] for s in ("http", "https", "all", "no") if proxies.get(s)}
    for name, value in used.items():
        fault = _fault(value if "://" in value else f"http://{value}", PROXIES)
        if name != "no_proxy" and fault is not None:
            raise ConfigError(
                f"{name} is {_in_message(value)}, which is not a proxy's address: {fault}; "
                "write it as http://host:port, or unset it"
            )
    variables = ", ".join(f"{name} is {_in_message(value)}" for name, value in used.items())
    try:
        return httpx.AsyncClient(
            trust_env=remote,
            mounts={f"all://{f'[{host}]' if ':' in host else host}": None for host in local},
            verify=_certificates()
            if any(url.startswith("https:") for url in urls)
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            **options,
        )
    except ImportError:
        error: Exception = MissingDependencyError(
            f"{variables}: a SOCKS proxy needs another package: pip install 'httpx[socks]'"
        )
    except ConfigError:
        raise
    except (ValueError, httpx.InvalidURL):
        error = ConfigError(f"{variables}: the HTTP client cannot use this; unset or correct it")
    raise error  # outside the handlers: httpx's errors may contain a proxy's password


def _fault(url: str, schemes: Collection[str]) -> str | None:
    """The reason why an address cannot be used, or None."""
    if not url.isprintable() or " " in url:
        return "it contains spaces or control characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text may repeat a password
        return "its host or port is malformed (ports are 1 to 65535)"
    if parts.scheme not in schemes:
        return f"it does not begin with {' or '.join(f'{each}://' for each in schemes)}"
    if port == 0:
        return "its port is 0"
    return None if host and _is_host(host) else "its host is neither a name nor an IP address"


def _is_host(host: str) -> bool:
    try:
        if ":" in host:
            return bool(ip_address(host))
        if re.fullmatch(r"[\d.]+", host):
            return bool(inet_aton(host))
        labels = host.encode("idna").removesuffix(b".").split(b".")
        for label in labels:
            label.decode("idna")  # raises for invalid punycode
    except (OSError, ValueError):
        return False
    return all(HOST_LABEL.fullmatch(label.decode("ascii")) for label in labels)


def _in_message(url: str) -> str:
    """An address for a message: no credentials, no query, truncated."""
    _, at, rest = url.partition("?")[0].rpartition("@")
    return repr(f"{'...' if at else ''}{at}{rest}"[:LONGEST])


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates to trust; cached, since loading them takes longer than a small batch."""
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        path = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise ConfigError(
            f"SSL_CERT_FILE is {path!r}, which cannot be read as certificates "
            f"({error.strerror}): set it to a PEM file, or unset it"
        ) from None


T = TypeVar("T")

MAX_BYTES = 4_000_000  # of a reply; one token with twenty alternatives takes about 3 kB
CONNECT_SECONDS = 10.0  # without a connection before a machine counts as down
POLL_SECONDS = 0.1  # of a waiting thread, which misses a signal that arrives just before it waits

TIMEOUT = "the server gave no answer in time"
UNREACHABLE = "the server cannot be reached"
DISTRUSTED = "the server's certificate is not trusted"
PROXY = "the environment's proxy does not forward requests"
BAD_ADDRESS = "the server's address cannot be used"
BROKEN_OFF = "the server broke off its reply"
BUSY = "the server is too busy (429)"
NO_JSON = "the server's reply is not JSON"
TOO_BIG = "the server's reply is too long"
COMPRESSED = "the server's reply is compressed, which was not requested"
TOO_LONG = "the prompt is longer than the model's context"

OVERFLOW = (
    "context length", "context_length", "context size", "context_size", "context window",
    "maximum model length", "too many tokens", "prompt is too long", "prompt too long",
)  # fmt: skip
"""Phrases in errors about prompts longer than the context: OpenAI, vLLM before and since 0.16,
SGLang, TensorRT-LLM, llama.cpp."""

MAX_WORDS = 300  # characters of a server's message in our messages
MAX_CLEANED = 20_000  # characters of a server's message that are processed
DATA_URI = re.compile(r"data:[\w.+-]+/[^\s\"'<>]*", re.ASCII)
BASE64 = re.compile(r"[\w+/=\\-]{64,}", re.ASCII)


class ExchangeError(Exception):
    """An exchange without an answer, where a retry would not help.

    Args:
        reason: for the verdict's failure.
        detail: the server's own message, sanitised.
        status: HTTP status, if there was a response.
        after: seconds after which the server wants the retry.
    """

    kind: FailureKind = "reply"
    body = b""  # of a response with an error status, not sanitised

    def __init__(
        self, reason: str, detail: str = "", status: int | None = None, after: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.status, self.after = reason, detail, status, after

    @property
    def failure(self) -> Failure:
        """The judgment's failure, without the server's own message, which varies."""
        return Failure(self.kind, self.reason)

    def __str__(self) -> str:
        return f"{self.reason}; it says: {self.detail}" if self.detail else self.reason


class RefusalError(ExchangeError):
    """A request that the server rejects."""

    kind = "prompt"


class TransientError(ExchangeError):
    """An exchange without an answer, where a retry may help."""

    kind = "engine"


class ServerClient:
    """JSON over HTTP; ``timeout`` bounds a whole exchange, including the connection."""

    def __init__(self, client: httpx.AsyncClient, key: str | None, timeout: float) -> None:
        self._client, self._key, self._timeout = client, key, timeout

    async def get(self, url: str, seconds: float) -> dict[str, Any]:
        """Get a JSON object within this many seconds; raises as ``post``."""
        return await self._exchange("GET", url, None, seconds)

    async def post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post a JSON object and return the one in the response.

        Raises:
            ExchangeError: there is none; ``TransientError`` if a retry may help.
        """
        # json.dumps escapes lone surrogates of broken descriptions, which UTF-8 could not encode.
        return await self._exchange("POST", url, json.dumps(body).encode("ascii"))

    async def _exchange(
        self, method: str, url: str, content: bytes | None, seconds: float = math.inf
    ) -> dict[str, Any]:
        import httpx

        try:
            exchange = self._unbounded_exchange(method, url, content)
            return await asyncio.wait_for(exchange, min(seconds, self._timeout))
        except asyncio.TimeoutError:
            failure = TIMEOUT
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = DISTRUSTED if _is_certificate_error(error) else UNREACHABLE
        except httpx.ProxyError:
            failure = PROXY
        except httpx.HTTPError:
            failure = BROKEN_OFF
        except (httpx.InvalidURL, ValueError, OverflowError):  # IDNA's errors are ValueErrors
            failure = BAD_ADDRESS
        # Outside the handlers: httpx's errors contain the request, and so the key.
        raise TransientError(failure)

    async def _unbounded_exchange(
        self, method: str, url: str, content: bytes | None
    ) -> dict[str, Any]:
        async with self._client.stream(method, url, content=content) as response:
            # httpx would decode any encoding: a few kB could expand to gigabytes.
            encoding = response.headers.get("content-encoding", "").strip().lower()
            encoded = encoding not in ("", "identity")
            body_bytes = b"" if encoded else await _body(response)
            if not response.is_success:
                error = self._refusal(response, body_bytes)
                error.body = body_bytes
                raise error
            if encoded:
                raise ExchangeError(COMPRESSED)
        reply: object = None
        with suppress(ValueError, RecursionError):
            reply = json.loads(body_bytes)
        if not isinstance(reply, dict):
            raise TransientError(NO_JSON, self._words(body_bytes))
        return reply

    def _refusal(self, response: httpx.Response, body_bytes: bytes) -> ExchangeError:
        status, detail = response.status_code, self._words(body_bytes)
        place = origin(str(response.url))
        if status == 429:
            return TransientError(BUSY, detail, status, _seconds(response.headers))
        if status == 413 or (status < 500 and any(w in detail.lower() for w in OVERFLOW)):
            return RefusalError(TOO_LONG, detail, status)
        if status == 408 or status >= 500:
            after = _seconds(response.headers)
            return TransientError(f"the server failed ({status})", detail, status, after)
        if 300 <= status < 400:
            return RefusalError(f"{place} redirects elsewhere: give the final address", "", status)
        if status in (401, 403):
            # No server message: it may contain the key in a form that is not recognised.
            return RefusalError(f"{place} does not accept the key ({status})", "", status)
        if status == 404:
            return RefusalError(f"{place} has no such model or address (404)", detail, status)
        return RefusalError(f"the server refuses the request ({status})", detail, status)

    def clean(self, words: str) -> str:
        """Sanitise a server's message for ours, without the key."""
        return clean(words, self._key)

    def _words(self, body_bytes: bytes) -> str:
        return self.clean(body_bytes[: 4 * MAX_CLEANED].decode("utf-8", errors="replace"))


@asynccontextmanager
async def server_client(
    key: str | None, timeout: float, urls: Sequence[str]
) -> AsyncIterator[ServerClient]:
    """Open a client for one batch, within one event loop; raises as ``http_client``."""
    import httpx

    for library in map(logging.getLogger, ("httpx", "httpcore")):
        # Several lines per question would flood the log and repeat headers that may echo the key.
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    # No redirects: key and descriptions would follow them. ``_exchange`` bounds an exchange as a
    # whole, whereas httpx's timeouts restart with each byte.
    client = http_client(
        urls,
        headers=headers,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )
    async with client:
        yield ServerClient(client, key, timeout)


async def _body(response: httpx.Response) -> bytes:
    body_bytes = bytearray()
    async for chunk in response.aiter_raw():
        body_bytes += chunk
        if len(body_bytes) > MAX_BYTES:
            raise ExchangeError(TOO_BIG)
    return bytes(body_bytes)


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _seconds(headers: Mapping[str, str]) -> float:
    """The seconds in ``Retry-After``; 0 if it is a date."""
    try:
        seconds = float(headers.get("retry-after") or 0)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable, stripped; None if there is none.

    Raises:
        ConfigError: it does not fit into a header; the message does not repeat it.
    """
    key = os.environ.get(variable, "").strip() if variable else ""
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"{variable} contains spaces or non-ASCII characters, which no key has: set it again"
        )
    return key or None


def clean(words: str, key: str | None) -> str:
    """The start of a server's message, on one line; empty if it contains the key.

    Control characters of any kind (terminal escapes, marks of text direction) become spaces, and
    images three dots.
    """
    words = words[:MAX_CLEANED]
    if key is not None and key in words:
        return ""
    words = BASE64.sub(_dots_for_base64, DATA_URI.sub("...", words))
    words = "".join(each if each.isprintable() else " " for each in words)
    return " ".join(words.split())[:MAX_WORDS]


def _dots_for_base64(match: re.Match[str]) -> str:
    """Replace text that looks like base64: lower and upper case letters, and digits."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return "..." if all(any(map(kind, match[0])) for kind in kinds) else match[0]


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop and a thread of its own.

    So it works in a notebook, in a trainer and after a fork. Thread and loop end with it: there is
    nothing to close, to pickle or to lose in a fork. An interrupt cancels the work.
    """
    outcome: Future[T] = Future()
    started: Future[Callable[[], object]] = Future()

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="posh-server-judge", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except BaseException:
        with suppress(RuntimeError):  # the loop has just closed
            started.result()()
        thread.join()
        raise
    return outcome.result()
