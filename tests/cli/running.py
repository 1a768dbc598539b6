"""Small tables, and the command run in this process or in its own."""

import json
import sys
from pathlib import Path
from typing import Any

from posh_reward.cli import main

COMMAND = [sys.executable, "-m", "posh_reward.cli"]
ROOT = Path(__file__).resolve().parents[2]
REFERENCE = "A small brown dog sleeps under a wooden table."
GENERATION = "A small black dog sits under a table."
Row = dict[str, Any]


def rows_in(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_rows(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs(count: int) -> list[Row]:
    animals = ("dog", "cat", "horse", "bird", "boy", "girl", "sheep")
    return [
        {"id": f"p{i}", "generation": f"A {animals[i % 7]} with {i} spots sits under a table.",
         "reference": f"A brown {animals[i % 5]} with {i + i % 2} spots sleeps."}
        for i in range(count)
    ]  # fmt: skip


def run(*arguments: object) -> int:
    return main([str(argument) for argument in (*arguments, "--judge", "fake")])
