"""Scored rows of the other metrics -> one page: image, texts, and each score with its reason.

All metrics share one layout: a row has texts and groups of scores. The page has no scripts, and all
texts are escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from posh_reward.errors import InputError
from posh_reward.metrics.records import read_metric_name
from posh_reward.models.model import DOUBTFUL_MASS
from posh_reward.other_metrics.harmonic_eval import CriterionScore, HarmonicScores
from posh_reward.other_metrics.prove.prove import ProveScores, ResponseClaim
from posh_reward.other_metrics.rows import HARMONIC_SCALE, average_values
from posh_reward.other_metrics.rubric_judge import RubricScores
from posh_reward.pages.html import Thumbnails, render
from posh_reward.pages.report_page import format_label
from posh_reward.provenance import Origins
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.statistics import bootstrap_mean
from posh_reward.tables.tables import Row, read_row

HARMONIC_RANGE, PROVE_RANGE = (1.0, 5.0), (0.0, 1.0)  # ranges of scores
TEXT_HEADINGS = {
    "question": "Question",
    "generation": "Written",
    "response": "Response",
    "reference": "Reference",
    "answer": "True answer",
    "caption": "Caption",
}
"""Text columns -> headings, in page order."""


@dataclass(frozen=True, slots=True)
class PageScore:
    """One score with its name. Higher is better."""

    name: str
    value: float | None  # None if missing; ``detail`` may have the reason
    lowest: float
    highest: float
    detail: str = ""  # a judge's reason, or the evidence for the score
    digits: int = 2
    first: bool = False  # True for the metric's overall score
    title: str = ""  # full name

    @property
    def width(self) -> float:
        """Filled part of the bar, in percent."""
        share = ((self.value or 0) - self.lowest) / (self.highest - self.lowest)
        return 100 * min(max(share, 0), 1)


class ScoreGroup(NamedTuple):
    """Scores below one heading."""

    scores: Sequence[PageScore]
    title: str = ""


@dataclass(frozen=True, slots=True)
class MetricSheet:
    """One row on the page."""

    name: str  # its id
    model: str  # "" without one
    texts: tuple[tuple[str, str], ...]  # (heading, text)
    groups: Sequence[ScoreGroup]  # the scores first, then the evidence
    failure: str | None
    signature: str


@dataclass(slots=True)
class SheetsOfId:
    """One id, with its image and each model's row."""

    name: str
    image: int | None = None  # index among the copies
    sheets: list[MetricSheet] = field(default_factory=list)


def render_metric_page(
    rows: Iterable[Row],
    metric: str,
    origins: Origins,
    ids: ItemIds,
    title: str | None = None,
    images: Thumbnails | None = None,
) -> str:
    """Render scored rows of a metric, one of ``METRIC_PAGES``, as one HTML document.

    Rows with the same ``id`` by several models are shown side by side. Each row's origin is added
    to ``origins``, and its id to ``ids``.
    """
    items = _group_by_id(rows, metric, images, origins, ids)
    if not items:
        raise InputError("there are no rows to report on")
    kind = METRIC_PAGES[metric]
    sheets = [sheet for item in items for sheet in item.sheets]
    return render(
        "metric_page.html",
        title=title or kind.title,
        lead=_write_lead(sheets, kind.explanation, len(set(origins.signatures.values()))),
        items=items,
        copies=images.copies if images else [],
        means=_collect_values(sheets, metric),
        bootstrap_mean=bootstrap_mean,
        footer=[*dict.fromkeys(sheet.signature for sheet in sheets), *origins.lines()],
    )


def _group_by_id(
    rows: Iterable[Row],
    metric: str,
    images: Thumbnails | None,
    origins: Origins,
    ids: ItemIds,
) -> list[SheetsOfId]:
    items: list[SheetsOfId] = []
    by_name: dict[str, SheetsOfId] = {}
    for place, row in enumerate(rows, start=1):
        try:
            sheet = parse_sheet(row, metric)
        except InputError as error:
            raise InputError(f"row {place} is not a row of {metric} scores ({error})") from None
        try:
            origins.add(row)
            if row.get("id") is not None:
                ids.add(row["id"], sheet.model, row.get("reference"), "keep one of these rows")
        except InputError as error:
            raise InputError(f"row {place}: {error}") from None
        item = by_name.get(sheet.name) if sheet.model else None
        if item is None or sheet.model in [other.model for other in item.sheets]:
            item = SheetsOfId(sheet.name or str(place))
            items.append(item)
            by_name[sheet.name] = item
        if item.image is None and images is not None:
            item.image = images.place(row.get("image"), row.get("id"), row.get("reference"))
        item.sheets.append(sheet)
    return items


def _write_lead(sheets: Sequence[MetricSheet], explanation: str, signatures: int) -> str:
    count = sum(sheet.failure is not None for sheet in sheets)
    lead = f"{len(sheets):,} row{'s' * (len(sheets) != 1)}"
    if count:
        lead += f", {count:,} of them without some or all scores"
    lead += f". {explanation}. Models' texts, including reasons, are shown unedited."
    if signatures > 1:
        lead += f" These scores have {signatures} signatures: they are not comparable."
    return lead


def _collect_values(
    sheets: Sequence[MetricSheet], metric: str
) -> dict[str, dict[str, list[float]]]:
    values: dict[str, dict[str, list[float]]] = {}
    for model in dict.fromkeys(sheet.model for sheet in sheets):
        scores: dict[str, list[float | None]] = defaultdict(list)
        for sheet in sheets:
            if sheet.model == model:
                for score in sheet.groups[0].scores:
                    scores[score.name].append(score.value)
        own: dict[str, list[float]] = {}
        for name, some in scores.items():
            own[name] = [value for value in some if value is not None]
        if metric == "prove":
            own["average"] = average_values(scores["helpfulness"], scores["truthfulness"])
        values[model] = own
    return values


def _group_harmonic(scores: HarmonicScores) -> list[ScoreGroup]:
    overall = PageScore("overall", scores.overall, *HARMONIC_RANGE, first=True)
    return [ScoreGroup([overall, *map(_format_criterion, scores.criteria)])]


def _format_criterion(each: CriterionScore) -> PageScore:
    """Format a score with its reasons; ``mass`` is the probability that the reply is a score."""
    detail = "" if each.failure is None else each.failure.detail
    if not detail:
        if each.sigma is not None:
            detail = f"sigma {each.sigma:.2f} (0: sure)"
        if each.weight is not None:
            detail += f", weight {each.weight:.2f}"
        if each.mass is not None and each.mass < DOUBTFUL_MASS:
            detail += f", doubtful: only {each.mass:.2f} of the probability is on a score"
        if each.reason:
            detail += f". {each.reason}"
    return PageScore(each.criterion, each.mean, *HARMONIC_RANGE, detail=detail)


def _group_rubric(scores: RubricScores) -> list[ScoreGroup]:
    points = []
    for each in scores.metric_points:
        if each.lowest >= each.highest:
            raise InputError(f"{each.metric} goes from {each.lowest} to {each.highest} points")
        points.append(
            PageScore(each.metric, each.points, each.lowest, each.highest, each.feedback, 0,
                      title=each.title)
        )  # fmt: skip
    if not points:
        return [ScoreGroup([])]
    lowest = sum(each.lowest for each in points)
    highest = sum(each.highest for each in points)
    total = PageScore("total", scores.total, lowest, highest, digits=0, first=True)
    return [ScoreGroup([total, *points])]


def _group_prove(scores: ProveScores) -> list[ScoreGroup]:
    means = [
        PageScore(name, getattr(scores, name), *PROVE_RANGE, first=name == "average")
        for name in ("average", "helpfulness", "truthfulness")
    ]
    answer: list[PageScore] = []
    for each in scores.answer_tuples:
        detail = "not in the response"
        if each.closest:
            detail = f"closest in the response: {_join_words(each.closest)}"
        answer.append(PageScore(_join_words(each.tuple), each.score, *PROVE_RANGE, detail=detail))
    claims = list(map(_format_claim, scores.claims))
    return [
        ScoreGroup(means),
        ScoreGroup(answer, "True answer: how far the response covers each part"),
        ScoreGroup(claims, "Response: the evidence for each claim"),
    ]


def _format_claim(each: ResponseClaim) -> PageScore:
    """Format a claim with its two witnesses, the better one first."""
    witnesses = {}
    if each.caption is not None:
        closest = _join_words(each.closest) or "nothing"
        witnesses["caption"] = f"caption {each.caption:.2f} (closest: {closest})"
    if each.image is not None:
        witnesses["image"] = f"image {each.image:.2f}"
    better = witnesses.pop(str(each.witness), None)
    parts = list(witnesses.values())
    if better:
        parts.insert(0, f"best witness: {better}")
    if each.failure:
        parts.append(each.failure.detail)
    return PageScore(_join_words(each.tuple), each.score, *PROVE_RANGE, detail="; ".join(parts))


def _join_words(parts: Sequence[str] | None) -> str:
    return ", ".join(parts or ())


class MetricPage(NamedTuple):
    """Page of one of the other metrics."""

    title: str
    explanation: str  # range of scores, and that higher is better
    groups: Callable[[Any], list[ScoreGroup]]  # the scores first, then the evidence


METRIC_PAGES = {
    "harmonic": MetricPage(
        "HarmonicEval: five criteria of texts about images", HARMONIC_SCALE, _group_harmonic
    ),
    "rubric": MetricPage(
        "Rubric: points with a judge's reasons",
        "Scores are points, higher is better; total is the sum of the points",
        _group_rubric,
    ),
    "prove": MetricPage(
        "PROVE: helpful and truthful responses",
        "Scores are 0 to 1, higher is better. helpfulness: how much of the true answer the "
        "response covers; truthfulness: how much of the response the caption or the image "
        "supports; average: the mean of the two, for a model the mean of its two means",
        _group_prove,
    ),
}
"""First word of a signature -> page of its rows."""


def parse_sheet(row: Row, metric: str) -> MetricSheet:
    """Parse a row of any table format; raise ``InputError`` unless ``metric`` scored it."""
    if read_metric_name(row) != metric:
        raise InputError(f"its signature is {format_label(row.get('signature'))!r}")
    scores = read_row(metric, row)
    groups = METRIC_PAGES[metric].groups(scores)
    texts: list[tuple[str, str]] = []
    for name, heading in TEXT_HEADINGS.items():
        if row.get(name):
            texts.append((heading, str(row[name])))
    failure = None
    if scores.failure is not None:
        partial = any(each.value is not None for each in groups[0].scores)
        failure = f"{'Not all could be scored' if partial else 'No score'}: {scores.failure}"
    name, model = format_label(row.get("id")), format_label(row.get("model"))
    return MetricSheet(name, model, tuple(texts), groups, failure, row["signature"])
