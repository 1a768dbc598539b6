"""``PoSh`` from settings files, shipped names and flags."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError
from posh_reward.run_record import RUN_FILE, UNCHECKED_WARNING, read_run
from posh_reward.settings import (
    SETTINGS_SUFFIXES,
    build_from_settings,
    read_settings,
    suggest_name,
    validate_safety,
)
from posh_reward.shipped import list_settings, shipped_path

if TYPE_CHECKING:
    from posh_reward.posh.posh import PoSh


logger = logging.getLogger(__name__)


def _make_setting(help: str, metavar: str = "NAME") -> Any:
    return field(default=None, metadata={"help": help, "metavar": metavar})


@dataclass
class MetricSettings:
    """Arguments of ``PoSh`` that the command and the recipes offer as flags, with their help.

    None leaves an argument to the settings file, or else to the default of ``PoSh``.
    """

    judge: str | None = _make_setting(
        "embedded (default, needs no download), vllm (Qwen3-14B), transformers (Qwen3-1.7B), a "
        "server's address (http://localhost:8080), or a settings file"
    )
    parser: str | None = _make_setting(
        "embedded (default), or a spaCy pipeline (the paper's: en_core_web_trf)"
    )
    coref: str | None = _make_setting(
        "coreference: rules (default), none, or maverick (docs/coref.md)"
    )
    preset: str | None = _make_setting(
        "wording and rules of graphs: released (default), paper, prefix-first"
    )
    reader: str | None = _make_setting(
        "reads sentences whole (docs/sentences.md): judge, embedded, an NLI cross-encoder, a "
        "settings file, none (default, but judge in rewards by the embedded judge)"
    )
    witness: str | None = _make_setting(
        "looks at the image where the reference does not support the text: judge, a settings "
        "file, or drawn images, such as scenes:plain=1 (default: none)"
    )
    store: str | None = _make_setting(
        "file that keeps scene graphs and language models' answers for other runs",
        "FILE",
    )
    processes: int | None = _make_setting(
        "worker processes (default: as cores, memory and work allow; 1: none)",
        "N",
    )


def metric_flags(flags: object) -> dict[str, Any]:
    """Pick the metric's settings from parsed flags; None for unused flags."""
    return {f.name: getattr(flags, f.name, None) for f in fields(MetricSettings)}


METRICS = {"posh": "posh_reward.posh.posh:PoSh"}  # name -> module:class


def load_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """Make a metric from settings and from flags, which take precedence.

    Args:
        settings: arguments of ``PoSh`` as a YAML or JSON file or a mapping; or the name of a
            shipped file, such as "published" for ``configs/metric/published.yaml``.
        **flags: arguments of ``PoSh``; None leaves one to the settings.

    Raises:
        ConfigError: the file is unreadable, or a setting is invalid.
        InputError: a name is unknown.
    """
    metric: PoSh = build_from_settings(
        METRICS, {**read_metric(settings, **flags), "name": "posh"}, "metric"
    )
    return metric


def read_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> dict[str, Any]:
    """Merge settings and flags into arguments of ``PoSh``, as ``load_metric`` does."""
    options = _read_options(settings) | {k: v for k, v in flags.items() if v is not None}
    if options.get("reader") in ("none", False):  # False is YAML's off
        options["reader"] = None
    return options


def _read_options(settings: str | PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    if settings is None or isinstance(settings, Mapping):
        return dict(settings or {})
    path = Path(settings)
    if path.is_dir() and path.suffix.lower() not in SETTINGS_SUFFIXES:
        run = read_run(path)
        if run is None or run.metric is None:
            raise InputError(
                f"{str(path)!r} has no {RUN_FILE} that names a metric: name the folder of a run of "
                "dapo_posh.py, or the metric's settings"
            )
        validate_safety(run.metric, str(path / RUN_FILE))
        if run.unchecked:
            logger.warning("%s %s", path, UNCHECKED_WARNING)
        return dict(run.metric)
    if path.suffix.lower() in SETTINGS_SUFFIXES:
        return read_settings(path, "the metric's settings")
    names = list_settings("configs/metric")
    if path.name != str(settings) or path.name not in names:
        hint = suggest_name(settings, names)
        raise InputError(
            f"unknown settings {str(settings)!r}{hint}: use a .yaml or .json file, or one of "
            f"{', '.join(names)}"
        )
    return read_settings(shipped_path(f"configs/metric/{path.name}.yaml"))


def read_reward_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> dict[str, Any]:
    """Merge settings and flags into arguments of a reward's metric.

    The embedded judge reads sentences, too, unless they have a ``reader``: false sentences earn
    less, and its facts are at hand (docs/sentences.md). A language model does so when asked to,
    since that takes more questions.
    """
    options = read_metric(settings, **flags)
    judge = options.get("judge", "embedded")
    if isinstance(judge, Mapping):
        judge = judge.get("name")
    if judge == "embedded":
        options.setdefault("reader", "judge")
    return options


def load_reward_metric(
    settings: str | PathLike[str] | Mapping[str, Any] | None = None, **flags: object
) -> PoSh:
    """Make a reward's metric: as ``load_metric``, with the defaults of ``read_reward_metric``."""
    return load_metric(read_reward_metric(settings, **flags))
