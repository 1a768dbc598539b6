"""Scored rows -> one page to look through: distributions, a table, and each pair's marked texts.

The page needs no network and no file beside it. Texts are untrusted: they lie in it as JSON that
cannot end its element, reach the document through ``textContent`` alone, and the content policy
lets nothing run but our script, by its hash.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.pages.histogram import axis
from posh_reward.study.pages.marks import Stretch, preset_of, stretches, wording, worst_first
from posh_reward.study.pages.page import AXES, KEY, NAMES, TITLES, fill, template
from posh_reward.study.rows.journal import Row
from posh_reward.study.rows.scored import scores_of, typed
from posh_reward.types import Direction, Element, Scores

START = 160
"""Characters of a generation that the table shows; CSS cuts them to what fits."""
KINDS = ("entity", "attribute", "relation")
COUNTS = ("generation_elements", "reference_elements")


def report(rows: Iterable[Row], title: str = "POSH: mistakes and omissions") -> str:
    """One HTML document about scored rows, as ``posh-reward score`` writes them.

    Args:
        rows: read once, one at a time. Without ``elements`` they are shown unmarked.
        title: its heading.

    Raises:
        InputError: a row lacks what a scored row has.
    """
    wordings: dict[str, int] = {}
    table: list[list[Any]] = []
    pairs: list[str] = []
    signatures: dict[str, None] = {}
    marked = 0
    for index, row in enumerate(rows):
        scores = _scores(row, index)
        table.append(_table_row(row, index, scores))
        pairs.append(_json(_pair(scores, wordings), f"pair-{index}"))
        signatures[scores.signature] = None
        marked += bool(scores.elements)
    values = {
        "title": escape(title),
        "lead": escape(_lead(table, marked, len(signatures))),
        "axes": "".join(_axes(table)),
        "key": KEY,
        "footer": "<br>".join(map(escape, [NAMES, *signatures])),
        "wordings": _json(list(wordings)),
        "rows": _json(table),
        "pairs": "\n".join(pairs),
        "script": template("report.js"),
        "style": template("posh.css") + template("shell.css") + template("report.css"),
    }
    hashes = {f"{name}_hash": _hash(values[name]) for name in ("script", "style")}
    return fill(template("report.html"), {**values, **hashes})


def _scores(row: Row, index: int) -> Scores:
    try:
        return scores_of(typed(row))
    except InputError as error:
        raise InputError(
            f"row {index + 1} is not a row of scores ({error}): write them with `posh-reward "
            "score --elements`"
        ) from None


def _table_row(row: Row, index: int, scores: Scores) -> list[Any]:
    """What the table shows of a pair: name, three scores, number of elements, first words."""
    name = ": ".join(str(row[key]) for key in ("model", "id") if row.get(key) is not None)
    count = len(scores.elements) or sum(int(row.get(key) or 0) for key in COUNTS)
    axes = [_rounded(getattr(scores, field)) for _, field in AXES]
    return [str(name) or str(index + 1), *axes, count, scores.generation[:START]]


def _pair(scores: Scores, wordings: dict[str, int]) -> dict[str, Any]:
    """A pair's marked texts; elements are named in them by place. Fills in ``wordings``."""
    elements = worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    preset = preset_of(scores.signature)
    sides: dict[str, Direction] = {name.lower(): side for side, name in TITLES.items()}
    runs = {
        name: [_run(stretch, places) for stretch in stretches(scores, side)]
        for name, side in sides.items()
    }
    packed = [
        _element(element, wordings.setdefault(wording(element, preset), len(wordings)))
        for element in elements
    ]
    return {
        **runs,
        "elements": packed,
        "failure": None if scores.failure is None else str(scores.failure),
    }


def _run(stretch: Stretch, places: Mapping[int, int]) -> list[Any]:
    if not stretch.marked:
        return [stretch.text]
    return [
        stretch.text,
        _rounded(stretch.lowest),
        sorted(places[id(element)] for element in stretch.elements),
    ]


def _element(element: Element, wording_place: int) -> list[Any]:
    side = list(TITLES).index(element.direction)
    kind = KINDS.index(element.kind)
    failure = None if element.failure is None else str(element.failure)
    names = [element.text, element.identifier, element.other, failure]
    while names and names[-1] is None:
        names.pop()
    return [wording_place, side, kind, _rounded(element.grade), *names]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _lead(table: Sequence[Sequence[Any]], marked: int, signatures: int) -> str:
    failed = sum(row[3] is None for row in table)
    lead = f"{len(table):,} scored pair{'s' * (len(table) != 1)}"
    lead += f", {failed:,} of them without a score. " if failed else ". "
    lead += "Scores lie between 0.2 and 1; higher is better on every axis. "
    if marked:
        lead += "Open a pair to see its mistakes and omissions in the texts."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    if signatures > 1:
        lead += f" These scores have {signatures} signatures: they are not comparable."
    return lead


def _axes(table: Sequence[Sequence[Any]]) -> list[str]:
    return [
        axis(name, what, [row[column] for row in table if row[column] is not None])
        for column, (name, what) in enumerate(
            (
                ("Mistakes", "how much of what was written is true (precision)"),
                ("Omissions", "how much of the reference was written (recall)"),
                ("Overall", "harmonic mean of the two (f1)"),
            ),
            start=1,
        )
    ]


def _json(data: object, element: str | None = None) -> str:
    """JSON that can stand in a script element: it holds no ``<``, so it cannot end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair
    if element is None:
        return text
    return f'<script type="application/json" id="{element}">{text}</script>'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
