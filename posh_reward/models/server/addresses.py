"""Addresses of servers and of proxies, and which certificates are trusted."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Address, ip_address
from socket import inet_aton
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from posh_reward.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    import httpx

SERVERS = ("http", "https")
PROXIES = ("http", "https", "socks5", "socks5h")
LONGEST = 200
"""Characters of an address that a message repeats."""
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.IGNORECASE)
"""One part of a host's name; Docker's have underscores."""


def check_url(url: str) -> str:
    """A base address without the last slash; ``/v1`` is put after a host alone.

    Raises:
        ConfigError: it is not an address, or holds credentials.
    """
    url = url.strip()
    wrong = _fault(url, SERVERS)
    if wrong is not None:
        raise ConfigError(
            f"base_urls: {_shown(url)} is not an address: {wrong}; "
            "write it as http://localhost:8000/v1"
        )
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"base_urls: the address at {parts.hostname} holds more than scheme, host and path: "
            "give a key through the environment (api_key_env)"
        )
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def address(url: str) -> str:
    """An address as messages show it: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_here(url: str) -> bool:
    """Whether an address is this machine's own, in whichever form it is written."""
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


def client(urls: Iterable[str], **options: Any) -> httpx.AsyncClient:
    """An HTTP client that heeds the environment's proxies, except for this machine's own servers.

    Args:
        urls: all addresses that it will be asked for.
        **options: of the client.

    Raises:
        ConfigError: the environment names a proxy or certificates that cannot be used.
        MissingDependencyError: its proxy needs a package that is not installed.
    """
    import httpx

    urls = list(urls)
    here = [url for url in urls if is_here(url)]
    if len(here) < len(urls):
        _check_proxies()
    secure = any(urlsplit(url).scheme == "https" for url in urls)
    trusted = _trust() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which trusts none
    try:
        return httpx.AsyncClient(
            trust_env=len(here) < len(urls),
            mounts={f"all://{_host(url)}": None for url in here},
            verify=trusted,
            **options,
        )
    except ImportError:
        error: Exception = MissingDependencyError(
            f"{_proxies()}: a SOCKS proxy needs another package: pip install 'httpx[socks]'"
        )
    except (ValueError, httpx.InvalidURL):
        error = ConfigError(f"{_proxies()}: the HTTP client cannot use this; unset or correct it")
    raise error


def _fault(url: str, schemes: Collection[str]) -> str | None:
    """What is wrong with an address; None if nothing is."""
    if not url.isprintable() or " " in url:
        return "it holds blanks or control characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text may repeat a password
        return "its host or its port is malformed (ports are 1 to 65535)"
    if parts.scheme not in schemes:
        return f"it does not begin with {' or '.join(f'{each}://' for each in schemes)}"
    if port == 0:
        return "its port is 0"
    return None if host and _is_host(host) else "its host is neither a name nor an IP address"


def _is_host(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    if re.fullmatch(r"[\d.]+", host):
        with suppress(OSError):
            return bool(inet_aton(host))
        return False
    try:
        labels = host.encode("idna").decode("ascii").removesuffix(".").split(".")
        for label in labels:
            label.encode("ascii").decode("idna")
    except UnicodeError:
        return False
    return all(map(LABEL.fullmatch, labels))


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def _shown(url: str) -> str:
    """An address in a message: without credentials and query, and not too long."""
    _, at, rest = url.partition("?")[0].rpartition("@")
    return repr(f"{'...' if at else ''}{at}{rest}"[:LONGEST])


def _settings() -> dict[str, str]:
    """The environment's proxy settings that the client would use, by lower-case name."""
    found = getproxies()
    return {f"{s}_proxy": found[s] for s in ("http", "https", "all", "no") if found.get(s)}


def _check_proxies() -> None:
    """Refuses a proxy with a malformed address.

    Raises:
        ConfigError: the message names the variable and its value, without credentials.
    """
    for name, value in _settings().items():
        if name == "no_proxy":
            continue
        wrong = _fault(value if "://" in value else f"http://{value}", PROXIES)
        if wrong is not None:
            raise ConfigError(
                f"{name} is {_shown(value)}, which is not a proxy's address: {wrong}; "
                "write it as http://host:port, or unset it"
            )


def _proxies() -> str:
    """The environment's proxy settings in a message."""
    return ", ".join(f"{name} is {_shown(value)}" for name, value in _settings().items())


@cache
def _trust() -> ssl.SSLContext:
    """The certificates to trust, read once: it takes longer than a small batch.

    Raises:
        ConfigError: the environment names a file without certificates.
    """
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        why = error.strerror
    raise ConfigError(
        f"SSL_CERT_FILE is {named!r}, which cannot be read as certificates ({why}): "
        "name a PEM file, or unset it"
    )
