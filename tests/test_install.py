"""Pins, and install lines in messages; nothing but metadata is downloaded."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "constraints-gpu.txt"
UNREACHABLE = ("Could not connect", "error sending request", "dns error", "Failed to fetch")


def resolve(constraints: Path, python: str) -> subprocess.CompletedProcess[str]:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not here: pip install uv")
    done = subprocess.run(
        [
            uv, "pip", "compile", "pyproject.toml", "--extra", "gpu", "--python-version", python,
            "--python-platform", "x86_64-manylinux_2_28", "--no-annotate", "--no-header",
            "--constraint", str(constraints),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    undecided = done.returncode and "No solution found" not in done.stderr
    if undecided and any(words in done.stderr for words in UNREACHABLE):
        pytest.skip("no package index can be reached")
    return done


def pins(text: str) -> set[str]:
    return {line for line in text.splitlines() if re.match(r"[\w.-]+==", line)}


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_the_pins_are_all_that_the_extra_needs(python: str) -> None:
    done = resolve(PINS, python)
    assert done.returncode == 0, done.stderr
    assert pins(done.stdout) == pins(PINS.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_pins_that_do_not_go_together_are_noticed(tmp_path: Path) -> None:
    """vLLM 0.31 holds transformers below 5.18."""
    wrong = tmp_path / "constraints.txt"
    text = PINS.read_text(encoding="utf-8")
    wrong.write_text(re.sub(r"(?m)^transformers==.*$", "transformers==5.20.0", text))
    assert wrong.read_text() != text
    done = resolve(wrong, "3.12")
    assert done.returncode != 0
    assert "transformers" in done.stderr


SHOW = "from posh_reward.errors import install_command; print(install_command('vllm'))"


def test_an_extra_of_a_clone_is_installed_from_the_clone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == f"pip install -e '{ROOT}[vllm]'"


def test_without_metadata_the_command_says_where_to_run_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", SHOW],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.strip() == "pip install '.[vllm]' in a clone of posh_reward"


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == EXIT_OK
    assert "score the pairs of a table" in capsys.readouterr().out


@pytest.mark.parametrize("recipe", ["sft", "dapo_posh", "distill_judge", "generate", "demo/demo"])
def test_a_recipe_without_the_trainers_packages_says_so(recipe: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", ROOT / "recipes" / f"{recipe}.py", "--help"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == EXIT_UNUSABLE
    assert re.fullmatch(
        rf"{Path(recipe).name}\.py: accelerate, .* missing: pip install .*\n", done.stderr
    )


DOCTOR = ("posh_reward.cli", "doctor", "--config", "configs/smoke/dapo.yaml")


@pytest.mark.parametrize(
    "command",
    [DOCTOR, (*DOCTOR, "--first-hour", "/nowhere/x.json"), ("tools.first_hour", "/nowhere/x.json")],
)
def test_a_node_without_the_trainers_packages_is_told_so(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", *command], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == EXIT_UNUSABLE
    assert re.fullmatch(r".*\.py: accelerate, .* missing: pip install .*\n", done.stderr)


OLD = "import runpy, sys; sys.version_info = (3, 9, 2, 'final', 0); "
BARE = "import runpy, sys; sys.modules['ensurepip'] = None; "


@pytest.mark.parametrize(
    ("python", "script", "says"),
    [
        (OLD, "tools/check_python.py", r".* is Python 3\.9\.2, but training needs 3\.11 .*make.*"),
        (
            BARE,
            "tools/check_python.py",
            r".* has no module venv: .*apt install python3\.\d+-venv.*",
        ),
        (OLD, "setup.py", r"posh_reward needs Python 3\.10 .* 3\.9\.2: make an environment .*"),
    ],
)
def test_a_python_that_will_not_do_is_named_in_one_line(
    python: str, script: str, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{python}runpy.run_path({script!r})"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(f"{says}\n", done.stderr)


def test_make_names_a_python_that_does_not_run(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        ["make", "PYTHON=no-python", ".venv/train.stamp"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stderr.startswith("no-python does not run: install Python 3.11 or newer, or name")
