"""Maverick's environment, separate from the one that trains.

    python -m posh_reward.graph.coref.maverick_setup [ENV_DIR]

Running it again repairs the environment. For torch's CPU build, set ``PIP_EXTRA_INDEX_URL`` to the
index that pytorch.org names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ENV_VARIABLE = "POSH_MAVERICK_ENV"  # the environment's folder, if not the default one
WORKER = Path(__file__).with_name("maverick_worker.py")

MAVERICK = "maverick-coref==1.0.7"
"""Installed without its dependencies: protobuf 3.20 and nltk 3.8.1 conflict with current ones."""

IMPORTED = (
    "torch==2.13.0",
    # Not 5, which loads an encoder in its stored precision, maybe half: Maverick's own layers are
    # in single precision.
    "transformers==4.57.6",
    "antlr4-python3-runtime==4.9.3",  # the version that omegaconf's grammar needs
    *"hydra-core omegaconf jsonlines nltk pytorch-lightning torchmetrics joblib scipy".split(),
    *"pandas spacy".split(),  # imported at the top of maverick, never called here
    *"sentencepiece protobuf".split(),  # the encoder's tokenizer is a sentencepiece model
)
"""Packages that Maverick imports."""


def default_env() -> Path:
    """Return the environment's folder: ``$POSH_MAVERICK_ENV``, or one in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(ENV_VARIABLE) or cache / "posh-reward" / "maverick")


def python_of(env: Path) -> Path:
    """Return the interpreter of an environment."""
    return env / "bin" / "python"


def setup_command(env: Path) -> str:
    """Return the shell command that makes an environment."""
    return f"python -m posh_reward.graph.coref.maverick_setup {env}"


def make_env(env: Path) -> None:
    """Make or repair the environment, and check that it can import Maverick.

    Raises:
        subprocess.CalledProcessError: venv, pip or the check failed; stderr has the reason.
    """
    python = str(python_of(env))
    pip = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)  # noqa: S603
    subprocess.run([*pip, *IMPORTED], check=True)  # noqa: S603
    # Published as source only: pip builds the wheel. torch is named, or pip takes the newest.
    subprocess.run([*pip, "--no-deps", MAVERICK, IMPORTED[0]], check=True)  # noqa: S603
    subprocess.run([python, "-I", str(WORKER), "--check"], check=True)  # noqa: S603


def main() -> None:
    """Make the environment named on the command line, or the default one."""
    parser = argparse.ArgumentParser(description="Make Maverick's environment.")
    parser.add_argument("env", nargs="?", type=Path, default=default_env(), metavar="ENV_DIR")
    env = parser.parse_args().env.absolute()
    try:
        make_env(env)
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot make {env}: {error}")
    print(f'{env} is ready. Unless it is the default folder, set {ENV_VARIABLE}="{env}".')


if __name__ == "__main__":
    main()
