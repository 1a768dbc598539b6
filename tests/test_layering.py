"""Data flows one way: a folder imports only from the folders before it, and siblings not at all."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.syntax import nodes

PACKAGE = Path(__file__).resolve().parents[1] / "posh_reward"
FLOORS = [
    {"types", "words"},
    {"errors", "text_values", "markup"},
    {"shipped"},
    {"settings"},
    {"process"},
    {"store", "run_record"},
    {"datasets"},
    {"graph", "models"},
    {"embedded"},
    {"metrics"},
    {"posh"},
    {"provenance", "reward"},
    {"tables"},
    {"pages"},
    {"other_metrics"},
    {"study"},
    {"distill"},
    {"training"},
    {"audit"},
    {"serve"},
    {"adapters"},
    {"cli"},
]
"""From the ground up. A folder imports from those listed before it, and from itself."""
APART = ("adapters",)
"""Folders whose own folders do not import each other."""
TORCH = ("models/packed", "training", "distill", "adapters")
FILES = sorted(PACKAGE.rglob("*.py"))
FACE = PACKAGE / "__init__.py"
"""Hands out names of all folders, so it stands above them."""


NAMES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
    if path != FACE
}


@cache
def imports(path: Path, *, typing: bool = True) -> set[str]:
    """Everything that a file imports; without ``typing``, only what it imports when it runs."""
    skipped: set[ast.AST] = set()
    names: set[str] = set()
    for node in nodes(path):
        if not typing and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped.update(ast.walk(node))
        elif node in skipped:
            continue
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


def folder_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def backward(path: Path, own: str) -> set[str]:
    """Folders that a file imports although they are not below its own."""
    floor = next(index for index, names in enumerate(FLOORS) if own in names)
    below = set().union(*FLOORS[:floor]) | {own}
    ours = {m.split(".")[1] for m in imports(path) if m.startswith("posh_reward.")}
    return ours - below


def siblings(path: Path) -> set[str]:
    """Sibling folders that a file of a metric, or of an adapter, imports."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] not in APART or len(parts) < 3:
        return set()
    others = {p.name for p in (PACKAGE / parts[0]).iterdir() if p.is_dir()} - {parts[1]}
    prefix = f"posh_reward.{parts[0]}."
    return others & {m.split(".")[2] for m in imports(path) if m.startswith(prefix)}


def test_no_import_points_back() -> None:
    for path in NAMES.values():
        where = path.relative_to(PACKAGE).as_posix()
        assert backward(path, folder_of(path)) == set(), where
        assert siblings(path) == set(), where
        if not where.startswith(TORCH):
            needed = {module.split(".")[0] for module in imports(path, typing=False)}
            assert "torch" not in needed, f"torch in {where}"


def test_no_modules_import_each_other() -> None:
    found = {name: imports(path, typing=False) & NAMES.keys() for name, path in NAMES.items()}
    # ``from package import module`` needs the module, not what else the package imports.
    needs = {
        name: {m for m in own if not any(other.startswith(f"{m}.") for other in own)}
        for name, own in found.items()
    }
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle


def test_every_folder_has_its_floor() -> None:
    assert set(map(folder_of, NAMES.values())) <= set().union(*FLOORS)


def test_the_core_loads_no_stand_in() -> None:
    code = (
        "import sys; import posh_reward.reward.instance, posh_reward.reward.trl;"
        "import posh_reward.graph.reader, posh_reward.posh.posh;"
        "found = sorted(m for m in sys.modules if m.startswith('posh_reward.embedded'));"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import posh_reward;"
        "seconds = time.process_time() - start;"
        "heavy = {'torch', 'spacy', 'transformers', 'numpy', 'pydantic', 'yaml'};"
        "heavy = sorted(heavy & set(sys.modules));"
        "print(seconds); assert not heavy, heavy; assert seconds < 0.5, seconds;"
        "import posh_reward.serve.study_app; assert not {'torch', 'spacy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
