"""Tables in Markdown, and pages with a table between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Table:
    """A table's head and rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_between(page: Path, mark: str, text: str) -> None:
    """Replace the text between ``<!-- mark -->`` and ``<!-- /mark -->`` of a page.

    Raises:
        SystemExit: the page lacks the marks.
    """
    old = page.read_text(encoding="utf-8")
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    between = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not between.search(old):
        raise SystemExit(f"{page} has no {start} ... {end} to write into")
    new = between.sub(lambda _: f"{start}\n{text}\n{end}", old)
    page.write_text(new, encoding="utf-8")
