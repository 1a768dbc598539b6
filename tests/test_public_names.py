"""Names that users import: there, typed as they are found, and defined where both say."""

import ast
from pathlib import Path

import posh_reward
from tests.syntax import tree

FACE = Path(posh_reward.__file__)


def typed() -> dict[str, str]:
    """Public name -> its module below this package, as type checkers read it."""
    [block] = [
        node
        for node in tree(FACE).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: str(node.module).removeprefix("posh_reward.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_users_get_each_name_from_where_type_checkers_read_it() -> None:
    assert typed() == posh_reward._HOME


def test_every_public_name_is_there() -> None:
    assert len(set(posh_reward.__all__)) == len(posh_reward.__all__)
    assert posh_reward._HOME.keys() <= set(posh_reward.__all__)
    assert set(dir(posh_reward)) == {*posh_reward.__all__, "__version__"}
    for name in dir(posh_reward):
        assert getattr(posh_reward, name) is not None
    for name, module in posh_reward._HOME.items():
        found = getattr(posh_reward, name)
        assert (found.__name__, found.__module__) == (name, f"posh_reward.{module}")
