"""The lines of the README and of the page on training work as printed, in a fresh clone.

Blocks are read out of the pages, in order. The word after a block's language says what it needs:
``slow`` takes minutes, ``gpu`` a GPU and the network, ``make`` installs; .ci/run runs the last
ones.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from posh_reward.cli import command_line
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_metric import load_metric
from posh_reward.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    language: str
    needs: str
    code: str

    @property
    def script(self) -> str:
        """The block as lines of bash."""
        return self.code if self.language == "bash" else f"python - <<'README'\n{self.code}README\n"


FENCE = re.compile(r"^```(bash|python) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
BLOCKS = [Block(*fields) for page in (README, TRAINING) for fields in FENCE.findall(page)]
COMMANDS = [
    shlex.split(line, comments=True)
    for block in BLOCKS
    if block.language == "bash"
    for line in re.sub(r"<<'END'\n.*?^END$", "", block.code, flags=re.M | re.S).splitlines()
    if line.strip()
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of the checkout that git knows, and an environment in ``.venv``."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(
        f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"
        f"export PYTHONPATH={shlex.quote(str(tmp_path))}\n"
    )
    return tmp_path


def run(clone: Path, *needs: str) -> str:
    """Runs the blocks that need no more than this, as one session; returns what they printed."""
    script = "".join(block.script for block in BLOCKS if block.needs in needs)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script], cwd=clone, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_the_quick_lines_work(clone: Path) -> None:
    printed = run(clone, "")
    assert "posh|preset:released|judge:embedded" in printed
    scores = (clone / "runs/scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(scores) == 2
    assert (clone / "runs/report.html").stat().st_size > 10_000
    assert (clone / "runs/mine/recipes/dapo_posh.py").is_file()


@pytest.mark.slow
def test_all_lines_that_need_no_gpu_work(clone: Path) -> None:
    run(clone, "", "slow")
    assert (clone / "runs/dapo/model.safetensors").is_file()
    scores = (clone / "runs/said_scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(scores) == 2 * 32, "two models, 32 images"


def test_the_command_line_takes_every_posh_reward_line() -> None:
    lines = [words[1:] for words in COMMANDS if words[0] == "posh-reward"]
    assert len(lines) >= 3
    for line in lines:
        command_line().parse_args(line)


def test_the_published_metric_is_one_settings_file() -> None:
    settings = read_settings(ROOT / "configs" / "metric" / "published.yaml")
    assert settings["judge"]["model"] == "Qwen/Qwen3-14B"
    assert settings["judge"]["reading"] == "top-20"
    assert (settings["parser"], settings["coref"]) == ("en_core_web_trf", "maverick")
    # Maverick has an environment of its own, which is not here.
    posh = load_metric("published", coref="none")
    assert isinstance(posh.judge, PromptJudge), "nothing is loaded before it is asked"
