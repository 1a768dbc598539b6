"""Errors for a caller's mistakes; each message names the value and the remedy.

A failed judgment is not an error but a ``Verdict`` without probabilities.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution, version
from shlex import quote
from urllib.parse import unquote, urlsplit


class PoshError(Exception):
    """Base of all errors that this package raises on purpose."""


class InputError(PoshError, ValueError):
    """An argument has a value that cannot be used."""


class MissingDependencyError(PoshError, ImportError):
    """An optional package or model is not installed; the message has the install command."""


class JudgeError(PoshError, RuntimeError):
    """A judge cannot work at all (as opposed to a single failed judgment)."""


class BusyError(PoshError, RuntimeError):
    """A queue is full, or another process writes the file; a later attempt may succeed."""


class ForkError(PoshError, RuntimeError):
    """This process was forked while another thread was scoring, so a lock may never be released."""


class ConfigError(PoshError, ValueError):
    """A configuration file or flag has a value that cannot be used."""


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    The package is not on PyPI, so it names the folder or address that it was installed from.
    """
    try:
        origin = json.loads(distribution("posh-reward").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    parts = urlsplit(url)
    if parts.scheme == "file":
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}{quote(f'{unquote(parts.path)}[{extra}]')}"
    if url:
        vcs = origin.get("vcs_info", {}).get("vcs")
        if vcs:
            url = f"posh-reward[{extra}] @ {vcs}+{url}"
        return f"pip install {quote(url)}"
    return f"pip install '.[{extra}]' in a clone of posh_reward"


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed here."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


UNSAFE_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text that follows."""


def escape_controls(text: str) -> str:
    r"""Return the text with control characters escaped (``\x1b``), safe to print to a terminal."""
    return UNSAFE_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


MAX_LINE_CHARACTERS = 300  # characters of a name, or of a message about one, that are printed


def on_one_line(name: str) -> str:
    """Return a name or message on one line, shortened and without control characters."""
    return cut_middle(" ".join(escape_controls(name).split()), MAX_LINE_CHARACTERS)


def cut_middle(text: str, most: int) -> str:
    """Cut the middle out of a text longer than ``most`` characters; remedies stand at the end."""
    if len(text) <= most:
        return text
    half = most // 2 - 3
    return f"{text[:half]} ... {text[-half:]}"
