"""The parser: one command's flags at a time, and one list of the metric's settings."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

from posh_reward.cli import COMMANDS, command_line
from posh_reward.metrics.load_metric import MetricSettings
from posh_reward.metrics.posh.posh import PoSh


def test_a_command_loads_its_own_parser_alone() -> None:
    code = (
        "import sys; from posh_reward.cli import command_line; command_line(['score', '--help']);"
        "loaded = [m for m in sys.modules if m.startswith('posh_reward.cli.')];"
        "assert {m.rpartition('.')[2] for m in loaded} == {'flags', 'score_command'}, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_command_has_flags() -> None:
    for name in COMMANDS:
        assert "exit status" in command_line([name]).format_help()


def test_the_metrics_settings_are_arguments_of_posh() -> None:
    names = [each.name for each in fields(MetricSettings)]
    assert set(names) <= set(inspect.signature(PoSh).parameters)
    flags = command_line(["score"]).parse_args(["score", "in.csv", "--coref", "none"])
    assert {name: getattr(flags, name) for name in names}["coref"] == "none"
