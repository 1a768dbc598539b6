"""Each number of the embedded judge has a row in the docs that says where it comes from."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from posh_reward import lexicon
from posh_reward.metrics.posh.judges import embedded

FOLDERS = [Path(embedded.__file__).parent, Path(lexicon.__file__).parent]
TABLE = Path(__file__).parents[3] / "docs" / "embedded_judge.md"
ROW = re.compile(r"^\| `(\w+)\.(\w+)` \| ([\d.]+) \| (\w+) \|", re.MULTILINE)


def constants() -> dict[tuple[str, str], str]:
    """(Module, name) of each number that stands in the head of a module -> the number."""
    return {
        (path.stem, target.id): f"{node.value.value:g}"
        for folder in FOLDERS
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int | float)
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # fmt: skip


def test_the_table_has_every_constant_with_its_value_and_source() -> None:
    rows = ROW.findall(TABLE.read_text(encoding="utf-8"))
    table = {(module, name): f"{float(value):g}" for module, name, value, _ in rows}
    assert table == constants()
    assert {source for *_, source in rows} <= {"hand", "bound"}
