"""Judged items on one page: marked texts, people's judgments, a metric's scores, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posh_reward.datasets.images import stored_source
from posh_reward.pages import element_marks
from posh_reward.pages.html import LocalImages, image_uri, number, render
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    legend_text,
    list_difference_rows,
    list_figure_rows,
    list_gaps,
)
from posh_reward.study.agreement.judged_items import JudgedAxis, JudgedItem, JudgedSet
from posh_reward.study.agreement.metric_scores import TextPair
from posh_reward.tables.tables import AXIS_SCORES
from posh_reward.types import Scores

MAX_ITEMS = 100  # on a page: 12 MB of long texts
PAIR_LEAD = (
    "Two texts that people compared, beside the scores of {metric}. Disagreement is half the "
    "difference of two ranks: of people's preference, and of the difference of the scores, from -1 "
    "to 1. Above 0, people prefer text 1 more than {metric} does."
)
TEXT_LEAD = (
    "Texts that people rated, beside the scores of {metric}. Disagreement is the difference of two "
    "ranks, of people's rating and of the score, from -1 to 1. Above 0, people think better of the "
    "text than {metric} does."
)


@dataclass(frozen=True, slots=True)
class JudgedCard:
    """One item on the page."""

    item: JudgedItem
    title: str
    headings: tuple[str, ...]  # above each text
    scores: tuple[Scores | None, ...]  # of each text, for its marks
    image: str | None  # data URI


def judged_page(
    judged: JudgedSet,
    report: AgreementReport,
    scored: Mapping[TextPair, Scores],
    images: LocalImages,
) -> str:
    """Render the report's tables and the most disputed items as one HTML document.

    ``scored`` has POSH's scores with elements, whose marks are shown; texts without any are plain.
    """
    shown = judged.items[:MAX_ITEMS]
    cards = [_make_card(item, scored, images) for item in shown]
    signatures = list(dict.fromkeys(line.signature for line in report.lines if line.signature))
    compares = any(len(item.texts) > 1 for item in shown)
    axes = [f"{axis} with {score}" for axis, score in AXIS_SCORES.items()]
    return render(
        "judged_page.html",
        "posh_reward.study.agreement",
        title=report.title,
        lead=(PAIR_LEAD if compares else TEXT_LEAD).format(metric=judged.metric),
        cards=cards,
        total=len(judged.items),
        heads=_list_heads(judged, compares),
        list_cells=_list_cells,
        legend=legend_text(report),
        blocks=_list_blocks(report),
        against=report.against,
        notes=[*list_gaps(report), *report.notes],
        has_marks=any(any(card.scores) for card in cards),
        has_witness=element_marks.has_witness(signatures),
        has_sentences=any(each.sentences for each in scored.values()),
        footer=[
            f"Judgments are compared with scores: {', '.join(axes)}.",
            element_marks.QUESTION_GLOSS,
            *element_marks.explain_reader(signatures),
            *signatures,
        ],
        **element_marks.PAIR_VALUES,
    )


def _make_card(
    item: JudgedItem, scored: Mapping[TextPair, Scores], images: LocalImages
) -> JudgedCard:
    title = item.name
    if (dispute := item.dispute) is not None:
        title += f": disagreement {dispute.disagreement:+.2f} on {dispute.axis}"
    headings = []
    for place, model in enumerate(item.models, start=1):
        name = f"Text {place}" if len(item.models) > 1 else "Text"
        headings.append(f"{name}: {model}" if model else name)
    return JudgedCard(
        item,
        title,
        tuple(headings),
        tuple(map(scored.get, item.texts)),
        _copy_image(item.texts[0].image, images),
    )


def _copy_image(image: object, images: LocalImages) -> str | None:
    if isinstance(image, Mapping):
        image = stored_source({"bytes": None, "path": None, **image})
    source = image if isinstance(image, bytes) else images.source(image, None, None)
    copy = None if source is None else images.copy_as_jpeg(source)
    return None if copy is None else image_uri(copy)


def _list_heads(judged: JudgedSet, compares: bool) -> list[str]:
    scores = [judged.metric]
    if compares:
        scores = [f"{judged.metric} 1", f"{judged.metric} 2", "difference"]
    return ["", *judged.heads, "people", *scores, "disagreement"]


def _list_cells(judged: JudgedAxis) -> list[str]:
    """Return the cells of an item's row for one axis, in the order of the heads."""
    cells = [judged.axis, *judged.judgments, _signed(judged.people, len(judged.scores) > 1)]
    cells += map(number, judged.scores)
    if len(judged.scores) > 1:
        first, second = judged.scores
        difference = None if first is None or second is None else first - second
        cells.append(_signed(difference, True, 3))
    return [*cells, _signed(judged.disagreement, True)]


def _signed(value: float | None, has_sign: bool, digits: int = 2) -> str:
    if value is None or not has_sign:
        return number(value, digits)
    return f"{value:+.{digits}f}"


def _list_blocks(report: AgreementReport) -> list[tuple[str, list[list[str]], list[list[str]]]]:
    """Return each axis with the rows of its figures, and of the differences; heads come first."""
    blocks = []
    for axis, figures in report.table_blocks:
        rows = list_figure_rows(report, axis, figures)
        blocks.append((axis, rows, list_difference_rows(report, figures)))
    return blocks
