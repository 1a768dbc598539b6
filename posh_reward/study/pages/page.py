"""Scores -> HTML without scripts: mistakes marked in the generation, omissions in the reference.

Texts are untrusted: all of them are escaped, and a page's content policy allows neither scripts nor
network.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from posh_reward.metrics.signature import field_of
from posh_reward.metrics.wording import filled
from posh_reward.study.pages.marks import (
    Stretch,
    asked,
    level_of,
    stretches,
    worst_first,
)
from posh_reward.study.rows.scored import AXES, EXPLAINED, SCALE
from posh_reward.types import Direction, Element, Scores

LEAD = (
    "What was written, with its mistakes marked, next to the reference, with its omissions "
    "marked. The number after a mark is the lowest grade, rounded down, among the elements that "
    "rest on those words. Point at a mark, or reach it with the Tab key, to see what the judge "
    f"was asked. {EXPLAINED}."
)
TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}
NAMES = (
    "In a question about what was written, DESCRIPTION 1 is the reference and DESCRIPTION 2 what "
    "was written; in one about the reference, the DESCRIPTION is what was written."
)
KEY = (
    '<ul class="key" aria-label="Marks">'
    '<li><mark class="absent">absent<sup>1</sup></mark> not in the other text, or contradicted'
    ' by it</li><li><mark class="weak">weak<sup>2</sup></mark> hinted at</li>'
    '<li><mark class="partial">partial<sup>3</sup></mark> in part</li>'
    "{seen}<li>unmarked: clear (4, 5), or not an element</li></ul>"
)
SEEN_KEY = (
    '<li><mark class="seen">seen<sup>*</sup></mark> clear in the image, not in the reference</li>'
)


@dataclass(frozen=True, slots=True)
class Item:
    """One scored pair on a page."""

    title: str
    scores: Scores
    image: bytes | None = None
    """A PNG or a JPEG, shown above the texts."""
    image_text: str = "The image that is described"


def page(
    items: Sequence[Item],
    title: str = "POSH: mistakes and omissions",
    *,
    in_pairs: bool = False,
    figure: bytes | None = None,
    figure_text: str = "",
) -> str:
    """One HTML document that shows every item, one below the other; it needs no other file.

    Args:
        items: what to show, in order.
        title: the page's heading.
        in_pairs: show two items in a row, where the window is wide enough.
        figure: a PNG or a JPEG above the items.
        figure_text: what it shows, for those who cannot see it.
    """
    signatures = dict.fromkeys(item.scores.signature for item in items)
    articles = "\n".join(_article(item) for item in items)
    values = {
        "title": escape(title),
        "lead": escape(LEAD),
        "style": template("posh.css") + template("shell.css"),
        "figure": _figure(figure, figure_text),
        "key": key(signatures),
        "items": f'<div class="pairs">{articles}</div>' if in_pairs else articles,
        "footer": "<br>".join(map(escape, [NAMES, *signatures])),
    }
    return filled(template("page.html"), values)


def fragment(scores: Scores) -> str:
    """A piece of HTML with its own style: one pair in a notebook, or inside another page."""
    return (
        f'<div class="posh" style="padding: 1rem; border-radius: 8px"><style>{template("posh.css")}'
        f"</style>{key([scores.signature])}{_body(scores)}<footer>{EXPLAINED}.<br>{escape(scores.signature)}</footer>"
        "</div>"
    )


def key(signatures: Iterable[str]) -> str:
    """What the marks mean; those of an image only where one was asked."""
    witnessed = any(field_of(each, "witness") is not None for each in signatures)
    return filled(KEY, {"seen": SEEN_KEY if witnessed else ""})


def template(name: str, package: str = "posh_reward.study.pages") -> str:
    """The text of one of our templates."""
    return (resources.files(package) / "templates" / name).read_text("utf-8")


def number(value: float | None, digits: int = 3) -> str:
    """A number as people read it."""
    return "none" if value is None else f"{value:.{digits}f}"


def _article(item: Item) -> str:
    return f"<article><h2>{escape(item.title)}</h2>{_image(item)}{_body(item.scores)}</article>"


def _image(item: Item) -> str:
    return _figure(item.image, item.image_text)


def _figure(content: bytes | None, text: str) -> str:
    if content is None:
        return ""
    kind = "jpeg" if content.startswith(b"\xff\xd8") else "png"
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    return f'<figure><img src="{source}" alt="{escape(text)}"></figure>'


def _body(scores: Scores) -> str:
    figures = "".join(
        f"<span>{axis.name} <b>{number(getattr(scores, axis.field))}</b></span>" for axis in AXES
    )
    failure = (
        f'<p class="failure">No score: {escape(str(scores.failure))}</p>' if scores.failure else ""
    )
    texts = "".join(_text(scores, direction) for direction in TITLES)
    return (
        f'<div class="scores">{figures}<span>{SCALE}</span></div>{failure}'
        f'<div class="texts">{texts}</div>'
        f"{_table(scores) if scores.elements else ''}"
    )


def _text(scores: Scores, direction: Direction) -> str:
    marked = "".join(
        _stretch(stretch, scores.signature) for stretch in stretches(scores, direction)
    )
    return f'<section><h3>{TITLES[direction]}</h3><p class="text" dir="auto">{marked}</p></section>'


def _stretch(stretch: Stretch, signature: str) -> str:
    text = escape(stretch.text)
    if not stretch.marked:
        return text
    why = "".join(
        f"<span><b>{number(element.grade, 1)}</b>{escape(asked(element, signature))}</span>"
        for element in worst_first(stretch.elements)
    )
    return (
        f'<mark class="{stretch.level}" tabindex="0">{text}<sup>{stretch.digit}</sup>'
        f'<span class="why" role="tooltip">{why}</span></mark>'
    )


def _table(scores: Scores) -> str:
    rows = "".join(_row(element, scores.signature) for element in worst_first(scores.elements))
    return (
        f"<details><summary>All {len(scores.elements)} elements, worst first</summary>"
        '<table><thead><tr><th class="n">grade</th><th>of</th><th>kind</th><th>asked</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></details>"
    )


def _row(element: Element, signature: str) -> str:
    level = "failed" if element.grade is None else level_of(element.grade)
    return (
        f'<tr><td class="n {level}">{number(element.grade, 1)}</td>'
        f"<td>{TITLES[element.direction].lower()}</td><td>{element.kind}</td>"
        f"<td>{escape(asked(element, signature))}</td></tr>"
    )
