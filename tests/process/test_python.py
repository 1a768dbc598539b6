"""No command runs code from the folder that it is started in, whatever lies there."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from posh_reward.cli import COMMANDS
from posh_reward.process.child import run_command
from tests.cli.running import write_rows
from tests.processes import start

ROOT = Path(__file__).resolve().parents[2]
PLANTED = sorted(
    {*sys.stdlib_module_names} - {*sys.builtin_module_names, "antigravity", "this", "__future__"}
    | {*"numpy torch spacy yaml PIL pydantic transformers trl accelerate datasets tqdm".split()}
    | {*"sitecustomize usercustomize conftest pip cupy deepspeed vllm wandb matplotlib".split()}
    | {*"setuptools posh_reward_extra thinc starlette uvicorn fastapi posh_reward".split()}
)
"""Names of modules: all of the standard library, and others that a command may look for."""
COMMAND = """
import sys
from posh_reward.cli import main
from posh_reward.models.model import MODELS
MODELS["fake-model"] = "tests.cli.test_others:Seeing"
if __name__ == "__main__":
    sys.exit(main())
"""
"""The script that pip installs as ``posh-reward``, with a fake model that takes images."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder full of modules that leave a mark and end whoever imports them."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in PLANTED:
        line = f"import os\nos.close(os.open({str(tmp_path / 'mark')!r} + {name!r}, 64 | 1))\n"
        line = line.replace("import os", "import posix as os")  # built in
        (folder / f"{name}.py").write_text(f"{line}raise SystemExit({name!r})\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "posh-reward").write_text(COMMAND)
    return folder


def marks(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("mark") for path in folder.parent.glob("mark*"))


def interpreters() -> list[str]:
    """This Python, and pyenv's of the other versions that the package supports."""
    found = Path.home().glob(".pyenv/versions/3.1[0-9].*/bin/python3.1[0-9]")
    return [sys.executable, *map(str, sorted(found))]


@pytest.mark.parametrize("python", interpreters())
def test_a_started_python_leaves_the_working_folder_out(hostile: Path, python: str) -> None:
    (hostile.parent / "own.py").write_text("import beside, json\nprint(beside.NAME, __name__)\n")
    (hostile.parent / "beside.py").write_text("NAME = 'beside'\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{hostile.parent}:{ROOT}"}
    making = f"""
import json
from posh_reward.process.python import *
print(json.dumps([
    python_code("import json; print(*sys.argv[1:])", "a", "b c"),
    python_module("own"),
    python_module("json.tool", "--help"),
    python_script({str(hostile.parent / "own.py")!r}),
]))"""
    made = subprocess.run(
        [python, "-c", making], env=environment, capture_output=True, check=True
    ).stdout
    for command, said in zip(
        json.loads(made), ("a b c", "beside __main__", "usage: ", "beside __main__"), strict=True
    ):
        done = run_command(command, cwd=hostile, env=environment, stdout=subprocess.PIPE)
        assert (done.returncode, done.stdout[: len(said)]) == (0, said)
    assert marks(hostile) == []
    subprocess.run([python, "-c", "import json"], cwd=hostile, env=environment, check=False)
    assert marks(hostile) != [], "else the test tests nothing"


def test_only_one_module_says_how_python_is_started() -> None:
    for folder in ("posh_reward", "recipes"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found = [
                ast.unparse(node)
                for node in ast.walk(tree)
                if (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable")
                or (isinstance(node, ast.List | ast.Tuple) and "'-m'" in ast.unparse(node))
                or (isinstance(node, ast.List | ast.Tuple) and "'-c'" in ast.unparse(node))
            ]
            # The second speaks of its interpreter in a message. Compilers also know "-c".
            if name not in ("posh_reward/process/python.py", "posh_reward/models/vllm/boot.py"):
                assert not found, name


ROWS = [
    {"id": f"p{n}", "generation": f"A dog with {n} spots.", "image": "red.png", "rating": n,
     "reference": f"A brown dog with {n} spots sleeps.", "caption": f"A dog has {n} spots.",
     "question": "Which animal sleeps?", "answer": "A dog.", "response": "A brown dog.",
     "program": "def verify(sg):\n    return ['dog']"}
    for n in range(8)
]  # fmt: skip
LINES = {
    "score in.jsonl -o out.jsonl --id id --processes 2 --store kept.sqlite": 0,
    "report out.jsonl -o page.html": 0,
    "explain Dogs. Cats.": 0,
    "agreement ratings in.jsonl --reference reference --resamples 10": 0,
    "judges compare in.jsonl --judges embedded fake-model --json figures.json": 0,
    "attack in.jsonl -o attacked --budget 20 --rows 8": 1,
    "audit-references in.jsonl -o references.html": 1,
    "trace out.jsonl": 0,
    "packets make in.jsonl others.jsonl -o packet --no-images --coarse 3 --seed 1": 0,
    "packets plan": 0,
    "prove verify in.jsonl -o verified.jsonl": 0,
    "prove score in.jsonl -o proved.jsonl --entailment-judge fake-model": 0,
    "harmonic score in.jsonl -o harmonic.jsonl --judge fake-model": 0,
    "rubric score in.jsonl -o rubric.jsonl --judge fake-model": 0,
    "serve --port 0 --reward gone.yaml": 2,
    "fetch --config published --check": 2,
    "doctor --config gone.yaml": 2,
    "init copied": 0,
}
"""Cheap lines of all commands, with their exit status."""


def write_inputs(folder: Path) -> None:
    write_rows(folder / "in.jsonl", ROWS)
    others = [row | {"generation": f"A cat with {row['id']} spots."} for row in ROWS]
    write_rows(folder / "others.jsonl", others)
    Image.new("RGB", (16, 16), "red").save(folder / "red.png")


@pytest.mark.slow
def test_no_command_runs_what_lies_in_its_folder(hostile: Path) -> None:
    assert {line.split()[0] for line in LINES} == COMMANDS.keys()
    write_inputs(hostile)
    for line, status in LINES.items():
        done = posh_reward(hostile, *line.split())
        assert marks(hostile) == [], line
        assert done.returncode == status, (line, done.stderr)


def posh_reward(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder.parent / "bin" / "posh-reward"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)


@pytest.mark.slow
def test_no_server_runs_what_lies_in_its_folder(hostile: Path) -> None:
    write_inputs(hostile)
    [pack] = [line for line in LINES if line.startswith("packets make")]
    assert posh_reward(hostile, *pack.split()).returncode == 0
    command = [sys.executable, hostile.parent / "bin" / "posh-reward"]
    for line in ("serve --port 0", "packets serve packet.key.json packet --port 0"):
        server = start(*command, *line.split(), cwd=hostile, stderr=subprocess.PIPE,
                       env=ENVIRONMENT)  # fmt: skip
        assert server.stderr is not None
        assert any(re.search(r"http://127\.0\.0\.1:\d+", said) for said in server.stderr)
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        assert marks(hostile) == [], line


@pytest.mark.slow
def test_no_recipe_and_no_trial_runs_what_lies_in_its_folder(hostile: Path) -> None:
    for recipe in sorted((ROOT / "recipes").glob("[a-z]*.py")):
        subprocess.run([sys.executable, str(recipe), "--help"], cwd=hostile, check=True,
                       stdout=subprocess.DEVNULL, env=ENVIRONMENT)  # fmt: skip
        assert marks(hostile) == [], recipe
    assert posh_reward(hostile, "init", ".").returncode == 0
    told = posh_reward(hostile, "doctor", "--config", "configs/smoke/dapo.yaml")
    assert marks(hostile) == []
    assert re.search(r"^ok +ranks +2 communicate over gloo", told.stdout, re.MULTILINE), told
