"""Scored rows of POSH's siblings -> one page: image, texts, and each named score with its reason.

One layout for every metric: a row is texts and groups of named scores (``named`` reads them). The
page has no scripts, and every text on it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from posh_reward.errors import InputError
from posh_reward.metrics.inputs import filled
from posh_reward.study.pages.html import number, template
from posh_reward.study.pages.named import KINDS, Group, Named, Sheet, sheet_of
from posh_reward.study.pages.thumbnails import Images
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import bootstrap_mean


@dataclass(slots=True)
class Item:
    """One image, or one id, with what each model wrote about it."""

    name: str
    image: int | None = None
    """Its place among the copies."""
    sheets: list[Sheet] = field(default_factory=list)


def sheets_page(
    rows: Iterable[Row], metric: str, title: str | None = None, images: Images | None = None
) -> str:
    """One HTML document about the scored rows of a metric; it needs no other file.

    Args:
        rows: as ``harmonic score``, ``rubric score`` or ``prove score`` write them. Those of one
            ``id`` by several models are shown side by side.
        metric: one of ``KINDS``.
        title: its heading; by default the metric's.
        images: makes the small copies of what ``image`` names; None shows no images.

    Raises:
        InputError: a row is not a scored row of this metric, or there is none.
    """
    items = _items(rows, metric, images)
    if not items:
        raise InputError("there are no rows to report on")
    kind = KINDS[metric]
    sheets = [sheet for item in items for sheet in item.sheets]
    signatures = dict.fromkeys(sheet.signature for sheet in sheets)
    copies = images.copies if images else []
    values = {
        "title": escape(title or kind.title),
        "lead": escape(_lead(sheets, kind.explained, len(signatures))),
        "style": "".join(map(template, ("posh.css", "shell.css", "sheets.css"))),
        "figure": "",
        "key": _means(sheets),
        "items": "\n".join(_article(item, copies) for item in items),
        "footer": "<br>".join(map(escape, signatures)),
    }
    page = filled(template("page.html"), values)
    return page.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair


def _items(rows: Iterable[Row], metric: str, images: Images | None) -> list[Item]:
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    for place, row in enumerate(rows, start=1):
        try:
            sheet = sheet_of(row, metric)
        except InputError as error:
            raise InputError(f"row {place} is not a row of {metric} scores ({error})") from None
        item = by_name.get(sheet.name) if sheet.model else None
        if item is None or sheet.model in [other.model for other in item.sheets]:
            item = Item(sheet.name or str(place))
            items.append(item)
            by_name[sheet.name] = item
        if item.image is None and images is not None:
            item.image = images.place(row.get("image"), row.get("id"), row.get("reference"))
        item.sheets.append(sheet)
    return items


def _lead(sheets: Sequence[Sheet], explained: str, signatures: int) -> str:
    failed = sum(sheet.failure is not None for sheet in sheets)
    lead = f"{len(sheets):,} row{'s' * (len(sheets) != 1)}"
    lead += f", {failed:,} of them without a score or without all. " if failed else ". "
    lead += f"{explained}. What a model wrote, its reasons included, is shown as it was written."
    if signatures > 1:
        lead += f" These scores have {signatures} signatures: they are not comparable."
    return lead


def _means(sheets: Sequence[Sheet]) -> str:
    """A table of means with intervals, one line for each model."""
    found: dict[str, dict[str, list[float]]] = {}
    for sheet in sheets:
        means = found.setdefault(sheet.model, {})
        for score in sheet.scores.scores:
            values = means.setdefault(score.name, [])
            if score.value is not None:
                values.append(score.value)
    names = list(dict.fromkeys(name for means in found.values() for name in means))
    heads = "".join(f'<th class="n">{escape(name)}</th>' for name in names)
    body = "".join(
        f"<tr><td>{escape(model or 'all')}</td>"
        + "".join(f'<td class="n">{_mean(means.get(name, []))}</td>' for name in names)
        + "</tr>"
        for model, means in found.items()
    )
    return (
        '<div class="card means"><table><caption>Means with 95 % intervals, and over how many rows'
        f"</caption><thead><tr><th>Model</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "none"
    if len(values) == 1:
        return f"<b>{number(values[0], 2)}</b> <small>(1)</small>"
    mean = bootstrap_mean(values)
    return (
        f"<b>{number(mean.mean, 2)}</b> <small>{number(mean.low, 2)} to {number(mean.high, 2)}"
        f" ({len(values):,})</small>"
    )


def _article(item: Item, copies: Sequence[str]) -> str:
    image = ""
    if item.image is not None:
        source = escape(copies[item.image])
        image = f'<figure><img src="{source}" alt="The image that the texts are about"></figure>'
    sheets = "".join(_sheet(sheet, several=len(item.sheets) > 1) for sheet in item.sheets)
    return (
        f'<article class="sheet"><h2>{escape(item.name)}</h2><div class="beside">{image}'
        f'<div class="sides">{sheets}</div></div></article>'
    )


def _sheet(sheet: Sheet, *, several: bool) -> str:
    model = f"<h3 class=model>{escape(sheet.model)}</h3>" if several or sheet.model else ""
    texts = "".join(
        f'<h4>{escape(name)}</h4><p class="said" dir="auto">{escape(text)}</p>'
        for name, text in sheet.texts
    )
    failure = f'<p class="failure">{escape(sheet.failure)}</p>' if sheet.failure else ""
    groups = "".join(map(_group, (sheet.scores, *sheet.details)))
    return f'<section class="side">{model}{texts}{failure}{groups}</section>'


def _group(group: Group) -> str:
    if not group.scores:
        return ""
    title = f"<h4>{escape(group.title)}</h4>" if group.title else ""
    return f'{title}<ul class="named">{"".join(map(_score, group.scores))}</ul>'


def _score(score: Named) -> str:
    gauge = '<span class="gauge"></span>'
    if score.value is not None:
        share = (score.value - score.lowest) / (score.highest - score.lowest)
        width = f"{100 * min(max(share, 0), 1):.1f}%"
        gauge = f'<span class="gauge" aria-hidden="true"><i style="width: {width}"></i></span>'
    reason = f'<p class="reason" dir="auto">{escape(score.detail)}</p>' if score.detail else ""
    name = f"{score.name}: {score.title}" if score.title else score.name
    of = f"<small> of {score.highest:g}</small>"
    return (
        f'<li{" class=first" if score.first else ""}><span class="what">{escape(name)}</span>'
        f"{gauge}<span class=n><b>{number(score.value, score.digits)}</b>{of}</span>{reason}</li>"
    )
