"""Texts in CSV files, which spreadsheets open: they run a cell that begins like a formula.

Such a text is written with an apostrophe before it, and reading takes the apostrophe away again.
"""

from __future__ import annotations

import re

LIKE_A_FORMULA = re.compile(
    "'*"  # our own mark, so that texts which have it already keep theirs
    # Some programs trim what comes before the sign, and take the wide forms of it too.
    "[\\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*"
    "[\t\r\n=+@＝＋－＠-]"  # noqa: RUF001
)


def guarded(text: str) -> str:
    """A text as a cell that no spreadsheet runs; ``bared`` gives the text back."""
    return "'" + text if LIKE_A_FORMULA.match(text) else text


def bared(cell: str) -> str:
    """A cell as the text that it was written from."""
    return cell[1:] if cell.startswith("'") and LIKE_A_FORMULA.match(cell) else cell
