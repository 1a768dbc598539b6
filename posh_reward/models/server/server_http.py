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
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from posh_reward.errors import ConfigError
from posh_reward.types import Failure, FailureKind

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

MAX_REPLY_BYTES = 4_000_000  # one token with twenty alternatives takes about 3 kB
MAX_MESSAGE_CHARACTERS = 300  # of a server's message in our messages
CONNECT_SECONDS = 10.0  # without a connection before a machine counts as down
POLL_SECONDS = 0.1  # of a waiting thread, which misses a signal that arrives just before it waits

SERVER_TIMED_OUT = "the server gave no answer in time"
UNREACHABLE = "the server cannot be reached"
UNTRUSTED_CERTIFICATE = "the server's certificate is not trusted"
PROXY_REFUSES = "the environment's proxy does not forward requests"
BAD_ADDRESS = "the server's address cannot be used"
BROKEN_OFF = "the server broke off its reply"
BUSY = "the server is too busy (429)"
NO_JSON = "the server's reply is not JSON"
REPLY_TOO_LONG = "the server's reply is too long"
PROMPT_TOO_LONG = "the prompt is longer than the model's context"

CONTEXT_OVERFLOW_PHRASES = (
    "context length", "context_length", "context size", "context_size", "context window",
    "maximum model length", "too many tokens", "prompt is too long", "prompt too long",
)  # fmt: skip
"""Phrases in errors about prompts longer than the context: OpenAI, vLLM before and since 0.16,
SGLang, TensorRT-LLM, llama.cpp."""


class ExchangeError(Exception):
    """An exchange without an answer, where a retry would not help.

    ``detail`` is the server's own message, sanitised; ``after``, seconds until it wants a retry.
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


def check_url(url: str) -> str:
    """Normalise a base address: no trailing slash, ``/v1`` after a bare host."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        usable = bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:  # a malformed host or port
        usable = False
    if not usable or not url.isprintable() or " " in url:
        _, at, rest = url.partition("?")[0].rpartition("@")
        shown = f"...@{rest}" if at else rest
        raise ConfigError(
            f"base_urls: {shown[:200]!r} is not an address: write it as http://localhost:8000/v1, "
            "with a port from 1 to 65535"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"base_urls: the address at {parts.hostname} has more than scheme, host and path: "
            "pass keys through the environment (api_key_env)"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def is_local(host: str) -> bool:
    """True for a name or address of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable, stripped; None if there is none."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(
            f"{variable} contains spaces or non-ASCII characters, which no key has: set it again"
        )
    return key or None


def clean_message(words: str, key: str | None) -> str:
    """The start of a server's message, on one line; empty if it contains the key."""
    if key is not None and key in words:
        return ""
    start = words[: 10 * MAX_MESSAGE_CHARACTERS]
    printable = "".join(each if each.isprintable() else " " for each in start)
    return " ".join(printable.split())[:MAX_MESSAGE_CHARACTERS]


class ServerClient:
    """JSON over HTTP; ``timeout`` bounds a whole exchange, including the connection."""

    def __init__(self, client: httpx.AsyncClient, key: str | None, timeout: float) -> None:
        self._client, self._key, self._timeout = client, key, timeout

    async def get(self, url: str, seconds: float) -> dict[str, Any]:
        """Get a JSON object within this many seconds; raises as ``post``."""
        return await self._exchange_within("GET", url, None, seconds)

    async def post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post a JSON object and return the one in the response."""
        # json.dumps escapes lone surrogates of broken descriptions, which UTF-8 could not encode.
        return await self._exchange_within("POST", url, json.dumps(body).encode("ascii"))

    async def _exchange_within(
        self, method: str, url: str, content: bytes | None, seconds: float = math.inf
    ) -> dict[str, Any]:
        import httpx

        try:
            exchange = self._unbounded_exchange(method, url, content)
            return await asyncio.wait_for(exchange, min(seconds, self._timeout))
        except asyncio.TimeoutError:
            failure = SERVER_TIMED_OUT
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = UNTRUSTED_CERTIFICATE if _is_certificate_error(error) else UNREACHABLE
        except httpx.ProxyError:
            failure = PROXY_REFUSES
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
            body = bytearray()
            # Raw: a few compressed kB, which were not requested, could expand to gigabytes.
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_REPLY_BYTES:
                    raise ExchangeError(REPLY_TOO_LONG)
            if not response.is_success:
                error = self._read_refusal(response, bytes(body))
                error.body = bytes(body)
                raise error
        reply: object = None
        with suppress(ValueError, RecursionError):
            reply = json.loads(body)
        if not isinstance(reply, dict):
            raise TransientError(NO_JSON, self._clean_body(bytes(body)))
        return reply

    def _read_refusal(self, response: httpx.Response, body: bytes) -> ExchangeError:
        status, detail = response.status_code, self._clean_body(body)
        place = f"{response.url.scheme}://{response.url.netloc.decode()}"
        if status in (408, 429) or status >= 500:
            reason = BUSY if status == 429 else f"the server failed ({status})"
            return TransientError(reason, detail, status, _read_retry_after(response.headers))
        if status == 413 or any(words in detail.lower() for words in CONTEXT_OVERFLOW_PHRASES):
            return RefusalError(PROMPT_TOO_LONG, detail, status)
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
        return clean_message(words, self._key)

    def _clean_body(self, body: bytes) -> str:
        return self.clean(body.decode("utf-8", errors="replace"))


@asynccontextmanager
async def server_client(
    key: str | None, timeout: float, urls: Sequence[str]
) -> AsyncIterator[ServerClient]:
    """Open a client for one batch, within one event loop; raises as ``_http_client``."""
    import httpx

    for library in map(logging.getLogger, ("httpx", "httpcore")):
        # Several lines per question would flood the log and repeat headers that may echo the key.
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    # No redirects: key and descriptions would follow them. ``_exchange_within`` bounds an exchange
    # as a whole, whereas httpx's timeouts restart with each byte.
    client = _http_client(
        urls,
        headers=headers,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )
    async with client:
        yield ServerClient(client, key, timeout)


def _http_client(urls: Iterable[str], **options: Any) -> httpx.AsyncClient:
    """Make an HTTP client that uses the environment's proxies, but not for this machine."""
    import httpx

    urls = list(urls)
    hosts = {urlsplit(url).hostname or "" for url in urls}
    local = set(filter(is_local, hosts))
    no_proxy: dict[str, None] = {}
    for host in local:
        address = f"[{host}]" if ":" in host else host
        no_proxy[f"all://{address}"] = None
    try:
        if any(url.startswith("https:") for url in urls):
            verify = _load_certificates()
        else:
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(
            trust_env=local != hosts, mounts=no_proxy, verify=verify, **options
        )
    except OSError as error:
        cause = f"SSL_CERT_FILE or SSL_CERT_DIR ({error.strerror})"
    except (ImportError, ValueError, httpx.InvalidURL):  # SOCKS needs `pip install 'httpx[socks]'`
        cause = "http_proxy, https_proxy, all_proxy or no_proxy"
    # Outside the handlers: httpx's errors may contain a proxy's password.
    raise ConfigError(f"the HTTP client cannot use the variable {cause}: correct or unset it")


@cache
def _load_certificates() -> ssl.SSLContext:
    """The certificates to trust; cached, since loading them takes longer than a small batch."""
    import httpx

    return httpx.create_ssl_context()


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _read_retry_after(headers: Mapping[str, str]) -> float:
    """The seconds in ``Retry-After``; 0 if it is a date."""
    try:
        seconds = float(headers.get("retry-after") or 0)
    except ValueError:
        return 0.0
    if not math.isfinite(seconds) or seconds < 0:
        return 0.0
    return seconds


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop and a thread of its own.

    So it works in a notebook, in a trainer and after a fork. Thread and loop end with it: there is
    nothing to close, to pickle or to lose in a fork. An interrupt cancels the work.
    """
    outcome: Future[T] = Future()
    started: Future[Callable[[], object]] = Future()

    async def start_work() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def run_loop() -> None:
        try:
            outcome.set_result(asyncio.run(start_work()))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run_loop, name="posh-server-judge", daemon=True)
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
