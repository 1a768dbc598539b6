"""The habits that docs/architecture.md promises a reader, kept by reading the code as text."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.syntax import tree

ROOT = Path(__file__).resolve().parents[1]
CODE = ("posh_reward", "recipes", "data", "research", "tools", "examples")
PACKAGE = sorted((ROOT / "posh_reward").rglob("*.py"))
FILES = sorted(path for room in CODE for path in (ROOT / room).rglob("*.py"))


def test_one_class_one_name() -> None:
    homes = defaultdict(list)
    for path in PACKAGE:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_one_file_one_name() -> None:
    homes = defaultdict(list)
    for path in PACKAGE:
        if not path.stem.startswith("__"):
            homes[path.name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
