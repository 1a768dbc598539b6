"""Settings -> metric: the one way in for the command, the recipes and other trainers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError
from posh_reward.settings import ENDINGS, make, read_settings
from posh_reward.shipped import settings_names, shipped

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh


METRICS = {"posh": "posh_reward.metrics.posh.posh:PoSh"}
"""Name -> ``module:class``."""


def load_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """The metric that a settings file, and flags that win over it, describe.

    Args:
        settings: a YAML or JSON file, or a mapping, of arguments of ``PoSh``; or the name of a
            shipped file, such as "published" for ``configs/metric/published.yaml``.
        **flags: arguments of ``PoSh``; those that are None are left to the settings.

    Raises:
        ConfigError: the file cannot be read, or a setting cannot be used.
        InputError: a name is unknown.
    """
    metric: PoSh = make(METRICS, {**read_metric(settings, **flags), "name": "posh"}, "metric")
    return metric


def read_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> dict[str, Any]:
    """The arguments of ``PoSh`` that ``load_metric`` would use; nothing is made of them.

    Raises:
        ConfigError: the file cannot be read.
        InputError: there are no settings of that name.
    """
    return _options(settings) | {k: v for k, v in flags.items() if v is not None}


def _options(settings: str | PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    if settings is None or isinstance(settings, Mapping):
        return dict(settings or {})
    path = Path(settings)
    if path.suffix.lower() in ENDINGS:
        return read_settings(path, "the metric's settings")
    names = settings_names("configs/metric")
    if path.name != str(settings) or path.name not in names:
        raise InputError(
            f"there are no settings {str(settings)!r}: give a .yaml or .json file, or one of "
            f"{', '.join(names)}"
        )
    return read_settings(shipped(f"configs/metric/{path.name}.yaml"))
