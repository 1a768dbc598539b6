"""The API page has every public name."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import posh_reward
from tests.syntax import tree

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_the_page_has_every_public_name() -> None:
    names = set(re.findall(r"^::: posh_reward\.(\w+)$", PAGE.read_text("utf-8"), re.MULTILINE))
    errors = {name for name in posh_reward.__all__ if name.endswith("Error")}
    assert names == {*posh_reward.__all__, "errors"} - errors


def test_every_field_of_a_result_is_on_the_page() -> None:
    """A field without a docstring is not: at first the page lacked precision, recall and f1."""
    types = Path(posh_reward.__file__).with_name("types.py")
    records = [each for each in tree(types).body if isinstance(each, ast.ClassDef)]
    for record in (each for each in records if each.name in ("Scores", "Element")):
        for field, after in pairwise(record.body):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(after, ast.Expr), ast.unparse(field)
