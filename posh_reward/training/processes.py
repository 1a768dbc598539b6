"""A run's processes, and how they share its model."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError
from posh_reward.settings import brief, guess, misfit, read_settings


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run; each has its own GPU, unless the run is on the CPU."""

    processes: int = 1
    """On all machines together."""
    machines: int = 1
    zero_stage: int = 0
    """DeepSpeed's: 1 spreads optimizer states over the processes, 2 gradients too, 3 parameters
    too. 0: no DeepSpeed; each process has everything."""
    offloads_optimizer: bool = False
    """Optimizer states are in the host's memory."""
    offloads_parameters: bool = False
    gathers_on_save: bool = True
    """Under ``zero_stage`` 3 the whole model can be saved."""

    @property
    def on_one_machine(self) -> int:
        """Processes of each machine."""
        return self.processes // self.machines

    @classmethod
    def of_this_run(cls, args: Any) -> Processes:
        """Read the running processes from the trainer's arguments and the environment."""
        processes = args.world_size
        machines = max(processes // max(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), 1), 1)
        plugin = getattr(args, "deepspeed_plugin", None)
        return cls(processes, machines) if plugin is None else _sharded(processes, machines, plugin)


def read_processes(path: Path) -> Processes:
    """Read the processes from a file for ``accelerate launch --config_file``.

    accelerate's own code parses it, up to the settings that DeepSpeed would get.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or accelerate refuses the file.
    """
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
    from accelerate.utils import DeepSpeedPlugin

    settings = read_settings(path)
    inner = settings.get("deepspeed_config") or {}
    if not isinstance(inner, dict):
        raise ConfigError(f"{path.name}: deepspeed_config is {brief(inner)}: use a mapping")
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
    """Return the settings of a dataclass; raise ConfigError for unknown ones.

    The launcher's own are dropped. ``accelerate launch`` silently accepts unknown names under
    ``deepspeed_config``.
    """
    hints = {field.name: field.type for field in fields(kind)}
    for name in settings.keys() - set(LAUNCHER):
        if name not in hints:
            raise ConfigError(
                f"{path.name}: unknown setting {name!r}{guess(name, [*hints, *LAUNCHER])}"
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
