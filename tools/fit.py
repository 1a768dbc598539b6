"""Estimate whether training runs fit their GPUs' memory, without a GPU or downloads.

    python -m tools.fit configs/dapo/qwen2_5_vl_7b.yaml [the recipe's flags]
    python -m tools.fit --table

The first runs ``--check`` of the recipe in the configuration's launch line. The second prints the
table of research/results/performance.md, for every configuration of a model whose shape is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from posh_reward.errors import ConfigError, PoshError
from posh_reward.training.doctor.diagnosis import recipe_settings
from posh_reward.training.fit import disk_size, machine_memory, phases
from posh_reward.training.run_check import RunCheck, check_run, print_run_check

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
| configuration | GPUs | generate | judge | train | a machine's memory | disk |
|---|---|---|---|---|---|---|"""


def main(argv: list[str]) -> int:
    """Print the table, or the report on one configuration; 1 if it does not fit."""
    try:
        if argv == ["--table"]:
            print("\n".join(table()))
            return 0
        if not argv or argv[0].startswith("-"):
            raise ConfigError("name a configuration, such as configs/dapo/qwen2_5_vl_7b.yaml")
        config, *flags = argv
        return print_run_check(recipe_settings(Path(config)), ["--config", config, *flags])
    except PoshError as error:
        print(f"fit: {error}", file=sys.stderr)
        return 2


def table() -> Iterator[str]:
    """Yield a row per shipped configuration: GiB of a GPU, GiB of a machine, GB of disk."""
    yield HEADER
    folders = (ROOT / "configs" / name for name in ("sft", "dapo", "distill"))
    for config in sorted(path for folder in folders for path in folder.glob("*.yaml")):
        check = check_run(recipe_settings(config), ["--config", str(config)])
        if check.run is not None:
            yield row(config, check)


def row(config: Path, check: RunCheck) -> str:
    """Format a row of the table."""
    assert check.run is not None
    by_name = {phase.name: "{:.0f} to {:.0f}".format(*phase.bounds) for phase in phases(check.run)}
    machines, processes = check.layout.machines, check.layout.processes
    cells = [
        f"`{config.relative_to(ROOT).as_posix()}`",
        f"{machines} x {processes // machines}" if machines > 1 else str(processes),
        *(by_name.get(name, "-") for name in ("generate", "judge", "train")),
        "{:.0f} to {:.0f} GiB".format(*machine_memory(check.run).bounds),
        f"{disk_size(check.run):.0f} GB",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
