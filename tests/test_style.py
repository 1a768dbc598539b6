"""The habits that docs/architecture.md promises a reader, kept by reading the code as text."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from tests.syntax import nodes, tree

ROOT = Path(__file__).resolve().parents[1]
CODE = ("posh_reward", "recipes", "data", "research", "tools", "examples")
PACKAGE = sorted((ROOT / "posh_reward").rglob("*.py"))
FILES = sorted(path for room in CODE for path in (ROOT / room).rglob("*.py"))
HEADLESS = re.compile(r"(What|Whether|How|Which|Where|Why|Who|Whose|When|If)\b(?! is\?)")
"""Openings that announce a docstring's subject instead of saying it."""


def documented(path: Path) -> list[ast.Module | ast.ClassDef | ast.FunctionDef]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return [node for node in nodes(path) if isinstance(node, kinds)]


def attribute_docstrings(path: Path) -> list[str]:
    """Texts that stand behind the assignments that they describe."""
    bodies = [getattr(node, "body", None) for node in nodes(path)]
    pairs = (pair for body in bodies if isinstance(body, list) for pair in pairwise(body))
    return [
        text.value.value
        for assignment, text in pairs
        if isinstance(assignment, ast.Assign | ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]


def test_docstrings_of_attributes_say_their_subject() -> None:
    headless = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in FILES
        for text in attribute_docstrings(path)
        if HEADLESS.match(text)
    ]
    assert not headless, "begin with a noun phrase"


def test_docstrings_say_their_subject() -> None:
    headless = [
        f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}: {first}"
        for path in FILES
        for node in documented(path)
        if HEADLESS.match(first := (ast.get_docstring(node) or "").partition("\n")[0])
    ]
    assert not headless, "begin with an imperative or a noun phrase"


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
