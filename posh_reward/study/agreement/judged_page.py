"""Judged items on one page: marked texts, people's judgments, a metric's scores, and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from posh_reward.study.agreement.judged_items import (
    JudgedAxis,
    JudgedItem,
    JudgedSet,
    find_model,
)
from posh_reward.study.agreement.judged_marks import MarkedItem, MarkedText
from posh_reward.study.agreement.metric_scores import PoshMeasure, TextPair
from posh_reward.tables.tables import AXIS_SCORES
from posh_reward.types import Scores

MAX_ITEMS = 100  # on a page: 12 MB of long texts
PAIR_LEAD = (
    "Two texts that people compared, beside the scores of {metric}. Disagreement says how "
    "differently people and {metric} see a pair, from -1 to 1: 0 is agreement, and above 0 people "
    "prefer text 1 more than {metric} does. It is half the difference of two ranks, of people's "
    "preference and of the difference of the scores."
)
TEXT_LEAD = (
    "Texts that people rated, beside the scores of {metric}. Disagreement says how differently "
    "people and {metric} see a text, from -1 to 1: 0 is agreement, and above 0 people think better "
    "of the text than {metric} does. It is the difference of two ranks, of rating and score."
)
FIGURE_GLOSSES = {
    "acc": "acc: how often a metric says, as people do, which text is better or that both are "
    "equally good.",
    "rho": "rho (Spearman): how far a metric's order is people's order; 1 is the same, 0 "
    "unrelated, -1 the reverse.",
    "tau": "tau (Kendall): likewise, by comparing every two of them.",
    "tau_b": "tau_b (Kendall): how far a metric's order is people's order, by comparing every two "
    "of them; 1 is the same, 0 unrelated, -1 the reverse.",
    "tau_c": "tau_c: likewise, for scales of different lengths.",
    "r": "r (Pearson): how far scores and ratings lie on a straight line.",
    "pairs": "pairs: of two texts of an image that people rate differently, how often a metric "
    "orders them as people do.",
}
"""By figure, what it says, in a sentence."""


MARK_LEAD = (
    "Texts in which people marked mistakes and references in which they marked what is missing, "
    "then POSH's marks. The number after people's marks says how many raters made them. Tokens are "
    "words and punctuation marks: of people, those that at least half of the raters marked; of "
    "POSH, those with a grade below {threshold:g}. Disagreement is the share of them that only one "
    "side marked, from 0 to 1."
)
MARK_HEADS = ("", "raters", "people's tokens", "POSH's tokens", "both", "disagreement")
MARK_TITLES = {"mistakes": "Written, as people marked it", "omissions": "Reference, likewise"}


@dataclass(frozen=True, slots=True)
class JudgedCard:
    """One item on the page."""

    title: str
    rows: list[list[str]]  # judgments and scores, one row for each axis
    comments: tuple[str, ...]
    headings: tuple[str, ...]  # above each text
    texts: tuple[TextPair, ...]
    scores: tuple[Scores | None, ...]  # of each text, for its marks
    image: str | None  # data URI
    marked: tuple[tuple[str, MarkedText], ...] = ()  # texts with people's marks, and their titles


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
    compares = any(len(item.texts) > 1 for item in shown)
    lead = (PAIR_LEAD if compares else TEXT_LEAD).format(metric=judged.metric)
    return _render(report, lead, _list_heads(judged, compares), cards, len(judged.items))


def marked_page(
    items: Sequence[MarkedItem], report: AgreementReport, measure: PoshMeasure, images: LocalImages
) -> str:
    """Render the report's tables, and the texts on which people's marks and POSH's differ most."""
    cards = [_make_marked_card(item, measure.scored, images) for item in items[:MAX_ITEMS]]
    lead = MARK_LEAD.format(threshold=measure.threshold)
    return _render(report, lead, MARK_HEADS, cards, len(items))


def _render(
    report: AgreementReport,
    lead: str,
    heads: Sequence[str],
    cards: Sequence[JudgedCard],
    total: int,
) -> str:
    signatures = list(dict.fromkeys(line.signature for line in report.lines if line.signature))
    scores = [each for card in cards for each in card.scores if each is not None]
    names = dict.fromkeys(figure.name for figure in report.figures)
    glosses = [FIGURE_GLOSSES[name] for name in names if name in FIGURE_GLOSSES]
    axes = [f"{axis} with {score}" for axis, score in AXIS_SCORES.items()]
    return render(
        "judged_page.html",
        "posh_reward.study.agreement",
        title=report.title,
        lead=lead,
        cards=cards,
        total=total,
        heads=heads,
        legend=legend_text(report),
        glosses=glosses,
        blocks=_list_blocks(report),
        against=report.against,
        notes=[*list_gaps(report), *report.notes],
        has_marks=bool(scores),
        has_witness=element_marks.has_witness(signatures),
        has_sentences=any(each.sentences for each in scores),
        shown_figures=element_marks.list_shown_figures(map(element_marks.list_figures, scores)),
        footer=[
            f"Judgments are compared with scores: {', '.join(axes)}.",
            element_marks.QUESTION_GLOSS,
            *element_marks.explain_stand_ins(signatures),
            *signatures,
        ],
        **element_marks.PAIR_VALUES,
    )


def _make_card(
    item: JudgedItem, scored: Mapping[TextPair, Scores], images: LocalImages
) -> JudgedCard:
    title = _shorten_path(item.name)
    if (dispute := item.dispute) is not None:
        title += f": disagreement {dispute.disagreement:+.2f} on {dispute.axis}"
    headings = []
    for place, model in enumerate(item.models, start=1):
        name = f"Text {place}" if len(item.models) > 1 else "Text"
        headings.append(f"{name}: {model}" if model else name)
    return JudgedCard(
        title,
        list(map(_list_cells, item.axes)),
        item.comments,
        tuple(headings),
        item.texts,
        tuple(map(scored.get, item.texts)),
        _copy_image(item.texts[0].image, images),
    )


def _make_marked_card(
    item: MarkedItem, scored: Mapping[TextPair, Scores], images: LocalImages
) -> JudgedCard:
    pair, dispute = item.pair, item.dispute
    model = find_model(dict(pair.row), "")
    name = _shorten_path(pair.image_id or "Text")
    rows = []
    for side in item.sides:
        numbers = map(str, (side.raters, side.people, side.metric, side.both))
        rows.append([side.axis, *numbers, f"{side.disagreement:.2f}"])
    return JudgedCard(
        f"{name}: disagreement {dispute.disagreement:.2f} on {dispute.axis}",
        rows,
        item.comments,
        (f"POSH's marks: {model}" if model else "POSH's marks",),
        (pair,),
        (scored.get(pair),),
        _copy_image(pair.image, images),
        tuple((MARK_TITLES[side.axis], side) for side in item.sides),
    )


def _shorten_path(name: str) -> str:
    """A name as it is, but the file's name of a path that is somebody's own."""
    path = Path(name)
    return path.name if path.is_absolute() else name


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
