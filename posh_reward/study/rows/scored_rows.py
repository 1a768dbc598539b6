"""Rows of a table in any format -> the scores that they were written from."""

from __future__ import annotations

import json
from reprlib import repr as short
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.records import EARLIER, fields_of_record, main_type, read_scores
from posh_reward.study.rows.tables import Row, cell_number
from posh_reward.types import Scores

AXES = {
    "precision": "how much of the description the reference supports",
    "recall": "how much of the reference the description covers",
    "f1": "their harmonic mean",
}
"""Field of ``Scores`` -> meaning."""
NAMES = tuple(AXES)
SCALE = "0.2 to 1, higher is better"
EXPLANATION = f"Scores are {SCALE}; " + "; ".join(f"{name}: {AXES[name]}" for name in AXES)
"""Shown once on each page and under each table."""
JUDGED = {"mistakes": "precision", "omissions": "recall", "overall": "f1"}
"""Axis that people judge -> score that is compared with it."""


def scores_of(row: Row) -> Scores:
    """The scores that a row of any format was written from; ``InputError`` if it is not scored."""
    scores: Scores = read_row("posh", row)
    return scores


def read_row(metric: str, row: Row) -> Any:
    """The record of a metric's row; ``InputError`` if it is no such row."""
    return read_scores(metric, parse_cells(metric, row))


def parse_cells(metric: str, row: Row) -> Row:
    """A metric's row read from CSV, with numbers and lists where it has their texts."""
    fields = fields_of_record(metric)
    types = {**fields, **{old: fields.get(new) for old, new in EARLIER[metric].items()}}
    read = dict(row)
    if "failure_kind" in row:  # before 0.2 a reason was a text
        read["failure"] = row.get("failure") or None
        del types["failure"]
    for name, hint in types.items():
        cell, kind = read.get(name), main_type(hint)
        if isinstance(cell, str) and kind not in (str, type(None)):
            try:
                read[name] = _parsed(cell, kind) if cell else None
            except (ValueError, RecursionError) as error:
                what = "a number" if kind in (float, int) else f"JSON ({error})"
                raise InputError(f"{name} is {short(cell)}, not {what}") from None
    return read


def _parsed(cell: str, kind: Any) -> object:
    if kind is bool:
        return cell == "True"
    number = cell_number(cell) if kind in (float, int) else None
    if number is None:
        return json.loads(cell)
    return int(number) if kind is int and number.is_integer() else number
