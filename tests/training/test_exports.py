"""What a user needs around a trainer is one import, which loads nothing heavy by itself."""

from __future__ import annotations

import subprocess
import sys

import posh_reward.training


def test_every_name_is_there() -> None:
    for name in posh_reward.training.__all__:
        assert callable(getattr(posh_reward.training, name)), name


def test_the_import_is_light() -> None:
    code = (
        "import sys, posh_reward.training;"
        "heavy = sorted({'torch', 'transformers', 'trl'} & set(sys.modules));"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
