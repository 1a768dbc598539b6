"""Each number of the embedded judge says what it is."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

from posh_reward import lexicon
from posh_reward.metrics.posh.judges import embedded

FOLDERS = [Path(embedded.__file__).parent, Path(lexicon.__file__).parent]


def constants() -> dict[str, bool]:
    """Each number in the head of a module, as ``module.NAME``, and if a comment stands there."""
    numbers = {}
    for path in (path for folder in FOLDERS for path in folder.glob("*.py")):
        code = path.read_text(encoding="utf-8")
        for node, below in pairwise(ast.parse(code).body):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                line, docstring = code.splitlines()[node.lineno - 1], isinstance(below, ast.Expr)
                if isinstance(node.value.value, int | float):
                    name = f"{path.stem}.{ast.unparse(node.targets[0])}"
                    numbers[name] = "  # " in line or docstring
    return numbers


def test_every_constant_says_what_it_is() -> None:
    numbers = constants()
    assert len(numbers) > 60
    assert [name for name, documented in numbers.items() if not documented] == []
