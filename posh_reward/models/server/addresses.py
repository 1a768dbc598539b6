"""Addresses of servers, and httpx's client for them.

httpx reads proxies and certificates from the environment, but accepts port 0, ports beyond 65535
and empty host labels, and its errors do not name the variable: so addresses are checked here first.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Collection, Iterable
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
