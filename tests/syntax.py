"""Syntax trees of our own files, for tests that read code as text."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Everything in a file's syntax tree: walking it takes longer than parsing it."""
    return list(ast.walk(tree(path)))
