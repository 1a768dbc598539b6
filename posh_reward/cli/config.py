"""Flags and a configuration file -> the metric."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.settings import read_settings

if TYPE_CHECKING:
    from posh_reward.metric.posh import PoSh

NAMES = ("judge", "parser", "coref", "preset", "store")
COUNTS = ("max_characters", "pairs_at_once")
KINDS = ("entity", "attribute", "relation")
KNOWN = (*NAMES, *COUNTS, "weights")
"""What a configuration file may say: arguments of ``PoSh``."""


def metric(flags: argparse.Namespace) -> PoSh:
    """The metric that the flags and their configuration file describe.

    Raises:
        ConfigError: the file cannot be read, or has a value that cannot be used.
        InputError: a name is unknown.
    """
    settings = read_config(Path(flags.config)) if flags.config else {}
    given = {name: getattr(flags, name) for name in NAMES}
    settings.update((name, value) for name, value in given.items() if value is not None)
    from posh_reward.metric.aggregate import EQUAL, Weights
    from posh_reward.metric.posh import PoSh

    weights = settings.pop("weights", None)
    return PoSh(**settings, weights=EQUAL if weights is None else Weights(**weights))


def read_config(path: Path) -> dict[str, Any]:
    """Checked settings from a YAML or JSON file.

    Raises:
        ConfigError: it cannot be read, or has a value that cannot be used.
        MissingDependencyError: it is YAML, and PyYAML is not installed.
    """
    settings = read_settings(path)
    for name, value in settings.items():
        wanted = _wanted(name, value)
        if wanted is not None:
            raise ConfigError(f"{path.name}: {name}: {value!r}, but {wanted}")
    return settings


def _wanted(name: object, value: object) -> str | None:
    """What a setting should have been; None if it is that."""
    if name == "judge" and isinstance(value, dict):
        return None  # a judge's own settings, which its loader checks
    if name in NAMES:
        return None if isinstance(value, str) else "it takes a name"
    if name in COUNTS:
        return None if type(value) is int and value > 0 else "it takes a number from 1"
    if name == "weights":
        sound = isinstance(value, dict) and all(
            kind in KINDS and type(weight) in (int, float) and weight >= 0
            for kind, weight in value.items()
        )
        return None if sound else f"it takes weights from 0 for {', '.join(KINDS)}"
    return f"there is no such setting: choose among {', '.join(KNOWN)}"
