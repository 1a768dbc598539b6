"""Every block of every page runs in a fresh clone, in order, or says by a word what it needs.

The word stands after the language: ``bash gpu``. A file's name there, as in ``python mine.py``, is
where the block is saved instead. The Python blocks of a page share their names.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from posh_reward.cli import command_line

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {
    "make": "installs, then runs for minutes; .ci/run does",
    "install": "installs packages",
    "slow": "minutes; run with --run-slow",
    "gpu": "a GPU, and weights from the hub",
    "hub": "downloads",
    "serves": "starts a server, which does not end",
    "server": "posh-reward serve, which listens at its usual port",
    "slurm": "a cluster",
    "framework": "a trainer or an evaluator that is no extra of ours",
    "trained": "a model that you have trained",
    "yours": "a file of your own",
}
"""Word after a block's language -> what the block needs."""
SERVER = ("127.0.0.1", 8000)
SECONDS_BETWEEN_TRIES = 0.2
WRITTEN = {
    "README.md": ("runs/scores.jsonl", "runs/report.html", "runs/mine/recipes/dapo_posh.py"),
    "docs/other_metrics.md": ("runs/harmonic.html",),
    "docs/study.md": ("packet/READ-ME-FIRST.txt", "result.html"),
    "docs/training.md": ("runs/dapo/model.safetensors", "runs/said.html"),
    "docs/your_script.md": ("runs/mine/model.safetensors",),
}
"""Page -> files that its blocks write, among others."""
FENCE = re.compile(r"^```(bash|python)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<'END'\n.*?^END$", re.MULTILINE | re.DOTALL)
INDENTED_COMMAND = re.compile(
    r"^    (?:posh-reward|python3?|pip|accelerate|vllm|llama-server|swift|uvicorn|serve) .*",
    re.MULTILINE,
)
RUN = """
import json, subprocess, sys
names = {"__name__": "page"}
for language, code in json.load(sys.stdin):
    if language == "python":
        exec(compile(code, "page", "exec"), names)
    else:
        command = ["bash", "-euxo", "pipefail", "-c", code]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
"""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    word: str
    code: str

    @property
    def is_file(self) -> bool:
        return "." in self.word


PAGES = ("README.md", "data/README.md", *(f"docs/{each.name}" for each in ROOT.glob("docs/*.md")))
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in sorted(PAGES)}
BLOCKS = [Block(page, *found) for page, text in TEXTS.items() for found in FENCE.findall(text)]


def runs(block: Block, *words: str) -> bool:
    return block.is_file or block.word in words


def pages_with(*words: str) -> list[str]:
    commands = (block for block in BLOCKS if not block.is_file and runs(block, *words))
    return sorted({block.page for block in commands})


def copy_checkout(folder: Path) -> None:
    """Copy what git knows, except tests, with an environment in ``.venv``."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    activate = folder / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n")


def run_page(page: str, folder: Path, *words: str) -> None:
    """Run the page's blocks that need no more than this, as one session."""
    copy_checkout(folder)
    chosen = [block for block in BLOCKS if block.page == page and runs(block, *words)]
    for block in chosen:
        if block.is_file:
            (folder / block.word).write_text(block.code, encoding="utf-8")
    code = [(block.language, block.code) for block in chosen if not block.is_file]
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=folder, env=environment, input=json.dumps(code),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for name in WRITTEN.get(page, ()):
        assert (folder / name).stat().st_size > 0, name


@pytest.fixture
def server() -> Iterator[None]:
    """``posh-reward serve``, ready to answer."""
    pytest.importorskip("uvicorn")
    with socket.socket() as port:
        if port.connect_ex(SERVER) == 0:
            pytest.skip(f"something listens at port {SERVER[1]} already")
    command = [sys.executable, "-m", "posh_reward.cli", "serve"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with socket.socket() as port:
                if port.connect_ex(SERVER) == 0:
                    break
            time.sleep(SECONDS_BETWEEN_TRIES)
        yield
        process.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with(""))
def test_the_quick_blocks_run(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path, "")


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("slow"))
def test_all_lines_that_need_no_gpu_run(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path, "", "slow")


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("server"))
def test_blocks_that_ask_a_server_run(page: str, tmp_path: Path, server: None) -> None:
    run_page(page, tmp_path, "", "server")


def test_each_word_is_known() -> None:
    words = {block.word for block in BLOCKS if not block.is_file}
    assert words <= {"", *NEEDS}
    assert len(BLOCKS) > 60


def test_each_command_stands_in_a_block() -> None:
    """One that is merely indented would not be run. The README's installation is the first."""
    found = {
        page: INDENTED_COMMAND.findall(ANY_FENCE.sub("", text)) for page, text in TEXTS.items()
    }
    found.pop("README.md")
    assert {page: lines for page, lines in found.items() if lines} == {}


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS}))
def test_blocks_that_are_not_run_can_be_read(page: str) -> None:
    for block in BLOCKS:
        if block.page == page and block.language == "python":
            compile(block.code, page, "exec")
        if block.page == page and block.language == "bash":
            subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)


def posh_reward_lines() -> Iterator[list[str]]:
    """The arguments of each ``posh-reward`` command in a block."""
    for block in BLOCKS:
        if block.language == "bash":
            for line in HERE_DOCUMENT.sub("", block.code).replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["posh-reward"]:
                    ends = [words.index(each) for each in ("|", "||", "&") if each in words]
                    yield words[1 : min(ends, default=None)]


def test_the_command_line_takes_every_posh_reward_line() -> None:
    lines = list(posh_reward_lines())
    assert len(lines) > 30
    for line in lines:
        command_line().parse_args(line)
