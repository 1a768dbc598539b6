"""Make the environment for ``pytest --run-deepspeed``: DeepSpeed's ZeRO-3, on a CPU.

    python3 -m tools.deepspeed_env .venv-deepspeed

The versions are those that the extra ``gpu`` resolves to on Python 3.11, without vLLM. DeepSpeed
compiles a part of itself at its first run, which needs a C++ compiler.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.install import TORCH, FailedError, at_work, make_env

VERSIONS = ("deepspeed==0.19.8", "transformers==5.17.0", "trl==1.16.0", "accelerate==1.15.0")


def main(folder: str) -> int:
    """Install; return an exit status."""
    try:
        pip = make_env(Path(folder))
        at_work("installing DeepSpeed", [*pip, "install", TORCH, *VERSIONS, "-e", ".[train]"])
    except FailedError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
