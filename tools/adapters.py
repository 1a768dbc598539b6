"""Test an adapter against its framework, in an environment made for it.

    python3 -m tools.adapters swift        # or: all
    python3 -m tools.adapters slime --source ../slime

Environments are made once, under ``.adapters``; uv shares files between them. torch is pinned for
the reason in ``tools.install``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.install import TORCH, FailedError, at_work, make_env

ROOT = Path(__file__).resolve().parents[1]
HOME = Path(os.environ.get("ADAPTERS_HOME", ROOT / ".adapters"))
COMMON = ("-e", str(ROOT), TORCH, "pytest", "hypothesis", "pillow")


@dataclass(frozen=True)
class Framework:
    """Packages to install for a framework."""

    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()
    """Packages to install without dependencies that need CUDA; ``packages`` has the others."""
    folders: tuple[str, ...] = ("",)
    """Folders of a checkout that hold its packages."""
    test: str = ""
    """Name of its test, if it is another framework's."""


FROM_GIT = (
    *("transformers<5.11", "ray", "tensordict==0.10.0", "torchdata", "datasets", "accelerate"),
    *("aiohttp", "codetiming", "fastapi", "hydra-core", "matplotlib", "nvidia-ml-py", "pylatexenc"),
    *("pyzmq", "qwen-vl-utils", "tensorboard", "uvicorn"),
)
"""Imports of three frameworks that are not packaged; ``--source`` names a checkout."""
FRAMEWORKS = {
    "trl": Framework(("trl==1.16.0",)),
    "swift": Framework(("ms-swift==4.6.0", "msgspec")),
    "verl": Framework(("verl[verl-core]==0.9.1",)),
    "verifiers": Framework(("verifiers==0.4.0",)),
    "openenv": Framework(("openenv==0.10.0",)),
    "nemo_gym": Framework(("nemo-gym==0.7.0", "httpx")),  # needs Python 3.13.14
    "openrlhf": Framework(
        (*"transformers<5.11 ray aiohttp datasets einops peft pylatexenc torchdata".split(),),
        ("openrlhf==0.11.2",),
    ),
    "inspect_ai": Framework(("inspect-ai==0.3.285",)),
    "lighteval": Framework(("lighteval==0.13.0",)),
    "lm_eval": Framework(("lm-eval==0.4.13",)),
    "capeval": Framework(("capevalkit==0.1.3", "scipy")),
    "ray": Framework(
        ("ray[data,serve]==2.60.0", "fastapi-offline", "prometheus-client", "uvicorn", "httpx")
    ),
    "datatrove": Framework(("datatrove[io]==0.10.1",)),
    "slime": Framework(FROM_GIT),
    "miles": Framework(FROM_GIT, ("miles-rl==0.0.2",), test="slime"),
    "easyr1": Framework(FROM_GIT),
    "nemo_rl": Framework(FROM_GIT),
    "prime_rl": Framework(
        ("verifiers==0.4.0", "loguru", "msgspec", "wandb"),
        folders=("src", "packages/prime-rl-configs/src"),
    ),
}


def main(name: str, option: str = "", source: str = "") -> int:
    """Test frameworks; return an exit status."""
    names = list(FRAMEWORKS) if name == "all" else [name]
    if unknown := [each for each in names if each not in FRAMEWORKS]:
        print(f"unknown framework {unknown[0]!r}: choose one of {', '.join(FRAMEWORKS)}, all")
        return 2
    statuses = {each: run(each, source if option == "--source" else "") for each in names}
    print("\n".join(f"{each}: {'passed' if not s else 'failed'}" for each, s in statuses.items()))
    return max(statuses.values())


def run(name: str, source: str) -> int:
    """Install and test one framework; return pytest's exit status."""
    framework = FRAMEWORKS[name]
    env = HOME / name
    try:
        make(env, framework)
    except FailedError as error:
        print(error)
        return 1
    sources = [str(Path(source).resolve() / folder) for folder in framework.folders if source]
    path = os.pathsep.join((*sources, str(ROOT)))
    test = ROOT / "tests" / "adapters" / f"test_{framework.test or name}.py"
    pytest = [str(env / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider", "-rs"]
    # We cannot fix warnings of other libraries.
    command = [*pytest, "-W", "default", "--run-adapters", "-s", str(test)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}).returncode


def make(env: Path, framework: Framework) -> None:
    """Make an environment unless it has these packages, as listed in a file inside it.

    Raises:
        FailedError: an installer failed.
    """
    requirements = "\n".join((*COMMON, *framework.packages, *framework.bare))
    record = env / "packages.txt"
    if record.exists() and record.read_text("utf-8") == requirements:
        return
    env.parent.mkdir(exist_ok=True)
    pip = make_env(env)
    at_work("installing uv", [*pip, "install", "uv"])
    links = os.environ.get("PIP_FIND_LINKS", "").split()
    uv = [str(env / "bin" / "uv"), "pip", "install", "--python", str(env / "bin" / "python")]
    uv += [part for link in links for part in ("--find-links", link)]
    if framework.bare:
        at_work("installing the framework", [*uv, "--no-deps", *framework.bare])
    at_work(f"making {env.name}", [*uv, *COMMON, *framework.packages])
    record.write_text(requirements, "utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
