"""What another run needs to reproduce a score, in one line (after sacrebleu)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version() -> str:
    """Our own version, or "unknown" when run from a folder that was never installed."""
    try:
        return version("posh-reward")
    except PackageNotFoundError:
        return "unknown"


def signature(metric: str, fields: Mapping[str, str]) -> str:
    """``metric|key:value|...|version:...``, the fields in the order given."""
    whole = {**fields, "version": package_version()}
    return f"{metric}|" + "|".join(f"{key}:{value}" for key, value in whole.items())


def field_of(signature: str, key: str) -> str | None:
    """What a signature says of one field; None if it does not have it."""
    found = re.search(rf"\|{re.escape(key)}:([^|]+)", signature)
    return found[1] if found else None
