"""The parser: one command's flags at a time, and one list of the metric's settings."""

from __future__ import annotations

import subprocess
import sys


def test_a_command_loads_its_own_parser_alone() -> None:
    code = (
        "import sys; from posh_reward.cli import command_line; command_line(['score', '--help']);"
        "loaded = [m for m in sys.modules if m.startswith('posh_reward.cli.')];"
        "assert {m.rpartition('.')[2] for m in loaded} == {'flags', 'score_command'}, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
