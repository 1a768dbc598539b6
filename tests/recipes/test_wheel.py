"""What ``pip install`` gives is enough: recipes, configurations and judges by name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.errors import ConfigError
from posh_reward.models.model import model_settings
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.settings import read_settings
from posh_reward.shipped import FOLDERS

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, folder: Path, path: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_judges_name_alone_means_its_shipped_settings() -> None:
    assert isinstance(PoSh("vllm").judge, PromptJudge), "nothing is loaded before it is asked"
    meant = model_settings("vllm", ("vllm",), "judge")
    assert meant == read_settings(ROOT / "configs" / "judge" / "vllm.yaml")
    assert meant["model"] == "Qwen/Qwen3-14B"


def test_a_server_needs_its_address() -> None:
    with pytest.raises(ConfigError, match="judge server needs base_urls"):
        load_judge("server")


@pytest.mark.slow
def test_an_installed_wheel_has_all_that_a_clone_has(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "runs", "build", "__pycache__")
    )
    quiet = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*quiet, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source),
        folder=tmp_path)  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    run(*quiet, "install", "--no-deps", "--target", str(site), str(wheel), folder=tmp_path)
    run("-m", "posh_reward.cli", "init", "mine", folder=tmp_path, path=site)
    for folder in FOLDERS:
        there, copied = (
            {path.relative_to(root): path.read_bytes() for path in (root / folder).rglob("*.*")
             if path.is_file() and "__pycache__" not in path.parts}
            for root in (ROOT, tmp_path / "mine")
        )  # fmt: skip
        assert copied == there
    printed = run(
        "-c",
        "import posh_reward; print(posh_reward.__file__);"
        "[getattr(posh_reward, name) for name in dir(posh_reward)];"
        "print(posh_reward.PoSh('vllm').judge);"
        "print(posh_reward.PoSh().score(['A dog.'], ['A dog.'])[0].f1)",
        folder=tmp_path,
        path=site,
    )
    assert printed.startswith(str(site))
    run("recipes/generate.py", "--help", folder=tmp_path / "mine", path=site)
