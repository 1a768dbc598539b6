"""Scores -> a self-contained page: mistakes marked in the generation, omissions in the reference.

Texts are untrusted: everything that is not ours is escaped, and the page's content policy allows
neither scripts nor network.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from posh_reward.judge.render import question
from posh_reward.study.marks import Stretch, stretches
from posh_reward.types import Description, Direction, Element, Request, SceneGraph, Scores

LEAD = (
    "Left, what was written, with its mistakes marked; right, what an expert wrote, with what was "
    "left out marked. The number after a mark is the lowest grade, 1 to 5, among the elements "
    "that rest on those words. Point at a mark, or reach it with the Tab key, to see what the "
    "judge was asked."
)
TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}


@dataclass(frozen=True, slots=True)
class Item:
    """One scored pair on a page."""

    title: str
    scores: Scores
    picture: bytes | None = None
    """A PNG, shown above the texts."""
    picture_text: str = "The picture that is described"


def page(items: Sequence[Item], title: str = "POSH: mistakes and omissions") -> str:
    """One HTML document that shows every item; it needs no file beside it."""
    template = (resources.files("posh_reward.study") / "templates" / "page.html").read_text("utf-8")
    signatures = dict.fromkeys(item.scores.signature for item in items)
    values = {
        "title": escape(title),
        "lead": escape(LEAD),
        "items": "\n".join(_item(item) for item in items),
        "footer": "<br>".join(escape(signature) for signature in signatures),
    }
    return re.sub(r"\{(title|lead|items|footer)\}", lambda match: values[match[1]], template)


def _item(item: Item) -> str:
    scores = item.scores
    figures = " ".join(
        f'<span class="score">{name} <b>{_number(value)}</b></span>'
        for name, value in (
            ("mistakes (precision)", scores.precision),
            ("omissions (recall)", scores.recall),
            ("overall (f1)", scores.f1),
        )
    )
    failure = f"<p>No score: {escape(scores.failure)}</p>" if scores.failure else ""
    texts = "".join(_text(scores, direction) for direction in TITLES)
    return (
        f'<article><header class="item"><h2>{escape(item.title)}</h2>{figures}</header>{failure}'
        f'{_picture(item)}<div class="texts">{texts}</div>{_table(scores)}</article>'
    )


def _picture(item: Item) -> str:
    if item.picture is None:
        return ""
    data = base64.b64encode(item.picture).decode("ascii")
    source = f"data:image/png;base64,{data}"
    return f'<figure><img src="{source}" alt="{escape(item.picture_text)}"></figure>'


def _text(scores: Scores, direction: Direction) -> str:
    marked = "".join(_stretch(stretch) for stretch in stretches(scores, direction))
    return f'<section><h3>{TITLES[direction]}</h3><p class="text" dir="auto">{marked}</p></section>'


def _stretch(stretch: Stretch) -> str:
    text = escape(stretch.text)
    if stretch.level in ("none", "clear"):
        return text
    graded = sorted(stretch.elements, key=lambda element: element.grade or 0)
    why = "".join(f"<span>{escape(ask(element))}</span>" for element in graded)
    grades = [element.grade for element in graded if element.grade is not None]
    number = f"{min(grades):.0f}" if grades else "?"
    return (
        f'<mark class="{stretch.level}" tabindex="0">{text}<sup>{number}</sup>'
        f'<span class="why" role="tooltip">{why}</span></mark>'
    )


def _table(scores: Scores) -> str:
    graded = sorted(scores.elements, key=lambda e: e.grade if e.grade is not None else 0)
    rows = "".join(
        f'<tr><td class="n">{_number(e.grade, 1)}</td><td>{TITLES[e.direction].lower()}</td>'
        f"<td>{e.kind}</td><td>{escape(ask(e))}</td></tr>"
        for e in graded
    )
    return (
        f"<details><summary>All {len(graded)} elements, worst first</summary><table><thead><tr>"
        '<th class="n">grade</th><th>of</th><th>kind</th><th>asked</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></details>"
    )


def ask(element: Element) -> str:
    """What was asked about an element and what came of it, in one line."""
    if element.failure is not None:
        return f"{element.text}: not judged, {element.failure}"
    if not element.asked and element.kind != "entity":
        about = " and ".join(filter(None, (element.identifier, element.other)))
        return f"{element.text} ({about}): not asked, since what it belongs to is absent (1.0)"
    return f"{_question(element)} {_number(element.grade, 1)}"


def _question(element: Element) -> str:
    nothing = Description("", SceneGraph((), ()))
    request = Request(
        element.direction,
        element.kind,
        element.identifier,
        nothing,
        nothing,
        entity=0,
        text=element.text,
        other=element.other,
    )
    return question(request).rsplit("? Consider", 1)[0] + "?"


def _number(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:.{digits}f}"
