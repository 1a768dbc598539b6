"""Settings -> metric: the one way in for the command, the recipes and other trainers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.settings import make, read_settings

if TYPE_CHECKING:
    from posh_reward.metrics.posh.metric import PoSh

METRICS = {"posh": "posh_reward.metrics.posh.metric:PoSh"}
"""Name -> ``module:class``."""


def load_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """The metric that a settings file, and flags that win over it, describe.

    Args:
        settings: a YAML or JSON file, or a mapping, of arguments of ``PoSh``.
        **flags: arguments of ``PoSh``; those that are None are left to the settings.

    Raises:
        ConfigError: the file cannot be read, or a setting cannot be used.
        InputError: a name is unknown.
    """
    if isinstance(settings, Mapping):
        options = dict(settings)
    else:
        options = read_settings(Path(settings)) if settings is not None else {}
    options |= {name: value for name, value in flags.items() if value is not None}
    metric: PoSh = make(METRICS, {**options, "name": "posh"}, "metric")
    return metric
