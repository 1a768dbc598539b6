"""Limits of settings files: those from others name data, never programs, code or variables.

Whoever runs a command may let its files do more: ``--trust-settings``, or ``POSH_TRUST_SETTINGS=1``
in the environment, which worker processes inherit. Mappings made in Python are not restricted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from posh_reward.errors import ConfigError, on_one_line

TRUST = "POSH_TRUST_SETTINGS"
"""Environment variable that lets settings files do everything, if it is not empty."""
KEY_VARIABLE = re.compile(r"[A-Z0-9_]*_API_KEY")
DEFAULT_KEY = "POSH_JUDGE_API_KEY"
"""Variable with the key of a served model whose settings name no other."""
ROLES = ("judge", "witness", "first", "model")  # settings whose value may be a server's address
LOCAL = ("localhost", "127.0.0.1", "::1")

HARMS = {
    "python": "it is a program to run",
    "env": "it sets environment variables",
    "trust_remote_code": "it runs code that a model brings along",
    "push_to_hub": "it uploads the model",
    "hub_token": "it is an account to upload with",
    "log_completions_hub_repo": "it uploads completions",
    "trackio_space_id": "it uploads the log",
}
"""Setting -> what it would do, whatever its value."""


def trust_settings() -> None:
    """Let settings files do everything, here and in child processes."""
    os.environ[TRUST] = "1"


def refuse_harm(settings: object, file: str) -> None:
    """Check all mappings of a settings file, nested ones included.

    Raises:
        ConfigError: a setting would run something, or send a secret, that the user has not named.
    """
    if os.environ.get(TRUST):
        return
    for mapping in _mappings(settings):
        for name, value in mapping.items():
            harm = _harm(name, value, mapping) if value not in (None, False, "") else None
            if harm is not None:
                raise ConfigError(
                    f"{file}: {name} is {on_one_line(repr(value))}: {harm}, which a settings file "
                    "may do only with --trust-settings, if you trust whoever wrote it (docs/cli.md)"
                )


def _mappings(settings: object) -> Iterator[Mapping[Any, Any]]:
    rest = [settings]
    while rest:
        each = rest.pop()
        if isinstance(each, Mapping):
            yield each
            rest += each.values()
        elif isinstance(each, list):
            rest += each


def _harm(name: object, value: object, others: Mapping[Any, Any]) -> str | None:
    if name == "encoder":
        return "it is code to run" if ":" in str(value) else None
    if name == "attn_implementation":
        return "it is a kernel to download and run" if "/" in str(value) else None
    if name == "api_key_env":
        fits = KEY_VARIABLE.fullmatch(str(value))
        return None if fits else "it sends a variable whose name does not end in _API_KEY"
    if name in ROLES:
        address = isinstance(value, str) and value.startswith(("http://", "https://"))
        return _key_sent(value, DEFAULT_KEY) if address else None
    if name == "base_urls":
        return _key_sent(value, others.get("api_key_env", DEFAULT_KEY))
    return HARMS.get(str(name))


def _key_sent(urls: object, variable: object) -> str | None:
    """Tell which key would be sent to an address that the file, not the user, chose."""
    if not isinstance(variable, str) or not os.environ.get(variable, "").strip():
        return None
    for url in urls if isinstance(urls, list) else [urls]:
        try:
            host = urlsplit(str(url).strip()).hostname
        except ValueError:
            host = None
        if host not in LOCAL:
            return f"it sends the key in {variable} to {host}"
    return None
