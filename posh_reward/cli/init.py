"""``posh-reward init``: copies of the recipes and configurations, to change and to run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from posh_reward.cli.exits import OK
from posh_reward.shipped import FOLDERS, copy_to

INIT = f"""\
Copies {", ".join(FOLDERS)} into a folder. They are meant to be changed: each recipe is one file
and one run, and each configuration opens with its launch line. Run them from that folder. Nothing
is overwritten."""


def init(flags: argparse.Namespace) -> int:
    """Copies what the package ships, and says where it is."""
    for folder in copy_to(Path(flags.folder)):
        print(folder, file=sys.stderr)
    return OK
