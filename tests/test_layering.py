"""Data flows one way: a folder imports only from the folders before it, and siblings not at all."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from tests.syntax import nodes

PACKAGE = Path(__file__).resolve().parents[1] / "posh_reward"
FLOORS = [
    {"types"},
    {"errors"},
    {"shipped"},
    {"lexicon"},
    {"settings_trust"},
    {"settings"},
    {"process"},
    {"store"},
    {"datasets"},
    {"graph", "models"},
    {"metrics"},
    {"reward", "study"},
    {"training", "attack"},
    {"serve"},
    {"adapters"},
    {"cli"},
]
"""From the ground up. A folder imports from those above and from itself."""
APART = ("metrics", "adapters")
"""Folders whose own folders (``metrics/posh``) do not import each other."""
TORCH = ("models/packed", "training", "adapters")
FILES = sorted(PACKAGE.rglob("*.py"))
FACE = PACKAGE / "__init__.py"
"""Hands out names of all folders, so it stands above them."""


def modules(path: Path) -> set[str]:
    """Everything that a file imports, anywhere in it, with the names taken from a module."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


def folder_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def backward(path: Path, own: str) -> set[str]:
    """Folders that a file imports although they are not below its own."""
    floor = next(index for index, names in enumerate(FLOORS) if own in names)
    below = set().union(*FLOORS[:floor]) | {own}
    ours = {m.split(".")[1] for m in modules(path) if m.startswith("posh_reward.")}
    return ours - below


def siblings(path: Path) -> set[str]:
    """Sibling folders that a file of a metric, or of an adapter, imports."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] not in APART or len(parts) < 3:
        return set()
    others = {p.name for p in (PACKAGE / parts[0]).iterdir() if p.is_dir()} - {parts[1]}
    found = {m.split(".")[2] for m in modules(path) if m.startswith(f"posh_reward.{parts[0]}.")}
    return found & others


def test_no_import_points_back() -> None:
    for path in FILES:
        if path == FACE:
            continue
        where = path.relative_to(PACKAGE).as_posix()
        assert backward(path, folder_of(path)) == set(), where
        assert siblings(path) == set(), where
        if not where.startswith(TORCH):
            at_run_time = modules_at_run_time(path)
            assert not any(m.split(".")[0] == "torch" for m in at_run_time), f"torch in {where}"


def modules_at_run_time(path: Path) -> set[str]:
    """What a file imports when it runs: without what stands under ``if TYPE_CHECKING``."""
    typing = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in nodes(path):
        if node in typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


def test_no_modules_import_each_other() -> None:
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in FILES
        if path != FACE
    }
    homes = {name.removesuffix(".__init__"): path for name, path in names.items()}
    imports = {name: modules_at_run_time(path) & homes.keys() for name, path in homes.items()}
    # ``from package import module`` needs the module, not what else the package imports.
    needs = {
        name: {m for m in own if not any(other.startswith(f"{m}.") for other in own)}
        for name, own in imports.items()
    }
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


def test_every_room_has_its_floor() -> None:
    folders = {folder_of(path) for path in FILES if path != FACE}
    assert folders <= set().union(*FLOORS)


def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import posh_reward;"
        "seconds = time.process_time() - start;"
        "heavy = {'torch', 'spacy', 'transformers', 'numpy', 'pydantic', 'yaml'};"
        "heavy = sorted(heavy & set(sys.modules));"
        "print(seconds); assert not heavy, heavy; assert seconds < 0.5, seconds"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
