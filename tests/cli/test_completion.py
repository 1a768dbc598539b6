"""Completion in a real bash, by the script that the command prints."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.cli import EXIT_UNUSABLE, main

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"$(complete -p posh-reward | sed 's/.* -F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shtab")
    if shutil.which("bash") is None:
        pytest.skip("bash is not here")
    command = [sys.executable, "-m", "posh_reward.cli", "--print-completion", "bash"]
    path = tmp_path_factory.mktemp("completion") / "posh-reward.bash"
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return path


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("sc", ["score"]),
        ("packets r", ["read"]),
        ("score --ele", ["--elements"]),
        ("score pa", ["pairs.csv"]),
        ("score pairs.csv -o pa", ["pairs.csv"]),
        ("score pairs.csv --images fo", ["folder"]),
        ("score pairs.csv --format p", ["parquet"]),
    ],
)
def test_bash_completes_commands_flags_and_files(
    words: str, completed: list[str], script: Path, tmp_path: Path
) -> None:
    (tmp_path / "pairs.csv").touch()
    (tmp_path / "folder").mkdir()
    shell = ["bash", "-c", COMPLETE, "bash", str(script), "posh-reward", *words.split(" ")]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == completed


def test_without_its_package_the_install_command_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == EXIT_UNUSABLE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("posh-reward: completion needs shtab: pip install ")
    assert "[completion]" in said.err
