"""Processes of a run, and the way they share its model."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError
from posh_reward.settings import brief, guess, misfit, read_settings


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run. Each has a card of its own, unless it is on the CPU."""

    processes: int = 1
    """On all machines."""
    machines: int = 1
    zero_stage: int = 0
    """Of DeepSpeed: from 1 on optimizer states are spread over the processes, from 2 on gradients,
    with 3 parameters too. 0: no DeepSpeed; each process has everything."""
    offloads_optimizer: bool = False
    """Optimizer states are in the host's memory."""
    offloads_parameters: bool = False
    gathers_on_save: bool = True
    """With ``zero_stage`` 3: a model can be saved whole."""

    @property
    def on_one_machine(self) -> int:
        """Processes of each machine."""
        return self.processes // self.machines

    @classmethod
    def of_this_run(cls, args: Any) -> Processes:
        """Return the processes that the training settings found when they were made."""
        processes = args.world_size
        machines = max(processes // max(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), 1), 1)
        plugin = getattr(args, "deepspeed_plugin", None)
        return cls(processes, machines) if plugin is None else _sharded(processes, machines, plugin)


def read_processes(path: Path) -> Processes:
    """Read the processes that a file for ``accelerate launch --config_file`` asks for.

    It goes through accelerate's own code, up to the settings that DeepSpeed would be given.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or accelerate refuses the file.
    """
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
    from accelerate.utils import DeepSpeedPlugin

    settings = read_settings(path)
    inner = settings.get("deepspeed_config") or {}
    if not isinstance(inner, dict):
        raise ConfigError(f"{path.name}: deepspeed_config is {brief(inner)}: give a mapping")
    _check(path, settings, ClusterConfig)
    plugged = _check(path, inner, DeepSpeedPlugin)
    try:
        cluster = load_config_from_file(str(path))
        if str(cluster.distributed_type).rpartition(".")[2] != "DEEPSPEED":
            return Processes(cluster.num_processes, cluster.num_machines)
        plugin = DeepSpeedPlugin(**plugged)
        plugin.set_mixed_precision(cluster.mixed_precision)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path.name}: {error}") from None
    return _sharded(cluster.num_processes, cluster.num_machines, plugin)


LAUNCHER = ("deepspeed_multinode_launcher", "deepspeed_hostfile")
"""Keys of ``deepspeed_config`` for the launcher, not for DeepSpeed itself."""


def _check(path: Path, settings: dict[str, Any], kind: type) -> dict[str, Any]:
    """Return the settings that a dataclass has; ConfigError for others, unless the launcher's.

    ``accelerate launch`` takes unknown names under ``deepspeed_config`` without a word.
    """
    hints = {field.name: field.type for field in fields(kind)}
    for name in settings.keys() - set(LAUNCHER):
        if name not in hints:
            raise ConfigError(
                f"{path.name}: there is no setting {name!r}{guess(name, [*hints, *LAUNCHER])}"
            )
    for name, value in settings.items():
        hint = hints.get(name)
        wrong = misfit(value, hint) if hint in (int, bool) else None
        if wrong is not None:
            raise ConfigError(f"{path.name}: {name} is {brief(value)}: {wrong}")
    return {name: value for name, value in settings.items() if name in hints}


def _sharded(processes: int, machines: int, plugin: Any) -> Processes:
    stage = int(plugin.zero_stage)
    return Processes(
        processes,
        machines,
        zero_stage=stage,
        offloads_optimizer=plugin.offload_optimizer_device not in (None, "none"),
        offloads_parameters=plugin.offload_param_device not in (None, "none"),
        gathers_on_save=stage < 3 or bool(plugin.zero3_save_16bit_model),
    )
