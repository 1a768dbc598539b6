"""End a recipe with one line where the extra ``train`` is not installed: its first import.

A recipe needs TRL's classes at once, so without this line it would end in a traceback.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from posh_reward.errors import install_command

EXIT_UNUSABLE = 2  # as of the command line
MISSING_PACKAGES = [
    name
    for name in ("accelerate", "datasets", "torch", "transformers", "trl")
    if find_spec(name) is None
]
if MISSING_PACKAGES:
    print(
        f"{Path(sys.argv[0]).name}: {', '.join(MISSING_PACKAGES)} missing: "
        f"{install_command('train')}",
        file=sys.stderr,
    )
    sys.exit(EXIT_UNUSABLE)
