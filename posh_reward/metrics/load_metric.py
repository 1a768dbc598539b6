"""Settings -> metric: the one way in for the command, the recipes and other trainers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError
from posh_reward.settings import ENDINGS, make, read_settings
from posh_reward.shipped import settings_names, shipped

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh


def _setting(help: str, metavar: str = "NAME") -> Any:
    return field(default=None, metadata={"help": help, "metavar": metavar})


@dataclass
class MetricSettings:
    """Settings of POSH that the command and the recipes have as flags, under one name and help.

    All of them are arguments of ``PoSh``, which settings files can set too; None leaves a setting
    to the file, and without one to the default of ``PoSh``.
    """

    judge: str | None = _setting(
        "judge: embedded (default, needs no download), vllm (Qwen3-14B), transformers "
        "(Qwen3-1.7B), or a settings file"
    )
    parser: str | None = _setting(
        "parser: embedded (default), or an installed spaCy pipeline (the paper's: en_core_web_trf)"
    )
    coref: str | None = _setting(
        "coreference resolver: rules (default, needs no download), none, or maverick, which needs "
        "a setup (docs/coref.md)"
    )
    preset: str | None = _setting(
        "wording of questions and rules of graphs: released (default), paper, prefix-first, mended"
    )
    witness: str | None = _setting(
        "model to ask about the image where the reference does not support the text: judge, if it "
        "sees images; another model's settings file; or the name of drawn images, such as "
        "scenes:plain=1 (default: none)"
    )
    store: str | None = _setting(
        "file that keeps scene graphs and language models' answers for other runs; created if "
        "missing",
        "FILE",
    )


def metric_flags(flags: object) -> dict[str, Any]:
    """Return the metric's settings among parsed flags; None where a flag was not used."""
    return {each.name: getattr(flags, each.name, None) for each in fields(MetricSettings)}


METRICS = {"posh": "posh_reward.metrics.posh.posh:PoSh"}  # name -> module:class


def load_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """Return the metric that a settings file, and flags that win over it, describe.

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
    """Return the arguments of ``PoSh`` that ``load_metric`` would use, without making anything.

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
