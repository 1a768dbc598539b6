"""Scored rows -> one page to browse: distributions, a table, and each pair's marked texts.

The page needs no network and no other file. Texts are untrusted: they are embedded as JSON that
cannot close its element, and reach the document only through ``textContent``. The content policy
allows only our script, by its hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short
from statistics import fmean, median
from typing import Any

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.records import row_of
from posh_reward.pages import element_marks
from posh_reward.pages.html import Thumbnails, render, script_json
from posh_reward.posh.means import counted
from posh_reward.provenance import ORIGIN_COLUMN
from posh_reward.tables import standings
from posh_reward.tables.dataset_images import OTHER_IMAGES
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.statistics import Interval, bootstrap_mean
from posh_reward.tables.tables import AXES, EXPLANATION, SCALE, Row, scores_of
from posh_reward.types import KINDS, Element, Scores

START = 160  # characters of a generation in the table; CSS cuts them to fit
LOW, HIGH, BINS = 0.2, 1.0, 16  # range of scores, in bins of 0.05
ENOUGH = 10  # least values for an interval


@dataclass(slots=True)
class ReportLine:
    """One line of the table: a pair, or several models' texts with one id."""

    name: str
    # By model, "" for none: scores, number of elements, start of the text, number of the pair, and
    # all figures as texts.
    members: dict[str, list[Any]] = field(default_factory=dict)
    scores: dict[str, list[float | None]] = field(default_factory=dict)  # by model, as in means


@dataclass(slots=True)
class ReportContents:
    """Contents of a page, collected row by row."""

    images: Thumbnails | None
    lines: list[ReportLine] = field(default_factory=list)
    by_id: dict[str, ReportLine] = field(default_factory=dict)  # lines of rows with a model
    tally: standings.Tally = field(default_factory=standings.Tally)
    pairs: list[str] = field(default_factory=list)  # JSON in script elements
    wordings: dict[str, int] = field(default_factory=dict)  # wording -> index, which pairs refer to
    signatures: dict[str, None] = field(default_factory=dict)
    figures: tuple[str, ...] = ()  # names
    has_marks: bool = False  # True if any pair has elements
    ids: ItemIds = field(default_factory=ItemIds)

    def add(self, row: Row, scores: Scores) -> None:
        count = scores.generation_elements + scores.reference_elements
        figures = element_marks.figures_of(scores)
        self.figures = tuple(figures)
        number = len(self.pairs)
        model, name = label(row.get("model")), label(row.get("id")) or str(number + 1)
        self.ids.add(name, model, row.get("reference"), "keep one of these rows")
        axes = [getattr(scores, axis) for axis in AXES]  # rounded once, by the page
        line = self._line(name, model)
        start = scores.generation[:START]
        failed = scores.f1 is None  # perhaps on one side only
        line.scores[model] = [None if failed else counted(scores, axis) for axis in AXES]
        line.members[model] = [*axes, count, start, number, list(figures.values())]
        pair = [*_pair(scores, self.wordings), self._image(row, model)]
        self.pairs.append(script_json(pair, f"pair-{number}"))
        known = {"model": model, "id": name, ORIGIN_COLUMN: row.get(ORIGIN_COLUMN)}
        self.tally.add({**row_of("posh", scores), **known})
        self.signatures[scores.signature] = None
        self.has_marks = self.has_marks or bool(scores.elements)

    def _image(self, row: Row, model: str) -> int | None:
        """Index of a row's image; None for a text about another image than its id's."""
        if self.images is None or model.endswith(OTHER_IMAGES):
            return None
        return self.images.place(row.get("image"), row.get("id"), row.get("reference"))

    def _line(self, name: str, model: str) -> ReportLine:
        """Find or add a row's line: the one with its id."""
        line = self.by_id.get(name) if model else None
        if line is None:
            line = ReportLine(name)
            self.lines.append(line)
            if model:
                self.by_id[name] = line
        return line

    @property
    def models(self) -> list[str]:
        return list(self.tally.models)

    def gains(self, baseline: str | None = None) -> list[standings.Gain]:
        items: list[standings.IdScores] = [line.scores for line in self.lines]
        return standings.gains(items, self.models, standings.baseline_of(self.models, baseline))


def contents_of(rows: Iterable[Row], images: Thumbnails | None = None) -> ReportContents:
    contents = ReportContents(images)
    for number, row in enumerate(rows, start=1):
        try:
            scores = scores_of(row)
        except InputError as error:
            raise InputError(
                f"row {number} is not a row of scores ({error}): write them with `posh-reward "
                "score --elements`"
            ) from None
        try:
            contents.add(row, scores)
        except InputError as error:
            raise InputError(f"row {number}: {error}") from None
    if not contents.pairs:
        raise InputError("there are no rows to report on")
    return contents


def report_page(
    contents: ReportContents,
    title: str = element_marks.TITLE,
    baseline: str | None = None,
    plots: Sequence[tuple[str, bytes]] = (),
) -> str:
    """Render the collected rows as one HTML document.

    ``plots`` has an alternative text and an SVG for each plot of the models.
    """
    models, tally = contents.models, contents.tally
    base = standings.baseline_of(models, baseline)
    several = len(models) > 1
    return render(
        "report_page.html",
        title=title,
        lead=_lead(contents),
        doubts=tally.doubts,
        models=models,
        base=base,
        standings=standings.best_first(tally.standings()) if several else [],
        gains=contents.gains(base),
        explanation=standings.GAINS,
        verdict=standings.verdict,
        cards=[] if several else [axis_card(each, tally) for each in AXES],
        axes=AXES,
        scale=SCALE,
        plots=plots,
        has_witness=element_marks.has_witness(contents.signatures),
        footer=[element_marks.GLOSS, *contents.signatures, *contents.tally.origins.lines()],
        wordings=list(contents.wordings),
        figures=contents.figures,
        rows=[[line.name, [line.members.get(m) for m in models]] for line in contents.lines],
        pairs=contents.pairs,
        copies=contents.images.copies if contents.images else [],
    )


@dataclass(frozen=True, slots=True)
class AxisCard:
    """Scores of one axis, with mean and distribution."""

    title: str
    meaning: str
    values: Sequence[float]
    bins: Sequence[int]
    mean: float | None
    interval: Interval | None  # None for fewer than ``ENOUGH`` values
    median: float | None


def axis_card(axis: str, tally: standings.Tally) -> AxisCard:
    [totals] = tally.models.values()
    values = totals.values(axis)
    # Values out of range count in the nearest bin.
    bins, _ = np.histogram(np.clip(values, LOW, HIGH), BINS, (LOW, HIGH))
    return AxisCard(
        axis,
        AXES[axis],
        values,
        bins.tolist(),
        fmean(values) if values else None,
        bootstrap_mean(values, resamples=1000) if len(values) >= ENOUGH else None,
        median(values) if values else None,
    )


def label(value: object) -> str:
    """Return a model's or a row's name as text, whatever its type; "" for None."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)


def _pair(scores: Scores, wordings: dict[str, int]) -> list[Any]:
    """Pack a pair's marked texts, elements and failure; add to ``wordings``."""
    # Marks refer to elements by index. Lists, not objects: the page searches this JSON and would
    # find the names of fields.
    elements = element_marks.worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    texts = [
        [_run(stretch, places) for stretch in element_marks.stretches(scores, each)]
        for each in element_marks.TITLES
    ]
    rows = [
        _element(
            element,
            wordings.setdefault(element_marks.wording(element, scores.signature), len(wordings)),
        )
        for element in elements
    ]
    return [*texts, rows, None if scores.failure is None else str(scores.failure)]


def _run(stretch: element_marks.Stretch, places: Mapping[int, int]) -> list[Any]:
    if not stretch.has_mark:
        return [stretch.text]
    numbers = sorted(places[id(element)] for element in stretch.elements)
    run = [stretch.text, stretch.lowest and round(stretch.lowest, 4), numbers]
    return [*run, 1] if stretch.level == "seen" else run


def _element(element: Element, wording_place: int) -> list[Any]:
    direction, kind = list(element_marks.TITLES).index(element.direction), KINDS.index(element.kind)
    blanks = element_marks.names(element)
    while blanks and blanks[-1] is None:
        blanks.pop()
    return [wording_place, direction, kind, element.grade and round(element.grade, 4), *blanks]


def _lead(contents: ReportContents) -> str:
    pairs, count = len(contents.pairs), sum(f.count for f in contents.tally.failures.values())
    lead = f"{pairs:,} pair{'s' * (pairs != 1)}"
    lead += f", {count:,} of them without a score. " if count else ". "
    lead += f"{EXPLANATION}. "
    lead += "".join(f"{line.capitalize()}. " for line in contents.tally.partial_means())
    if contents.has_marks:
        lead += "Open a pair to see what was not found in the other text."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    if contents.images and contents.images.left_out:
        lead += f" Only the first {len(contents.images.copies):,} images are shown."
    dataset = contents.images.dataset if contents.images else None
    if dataset and dataset.beyond:
        lead += f" Without an image: {dataset.too_far}."
    if (count := len(set(contents.tally.origins.signatures.values()))) > 1:
        lead += f" These scores have {count} signatures: they are not comparable."
    return lead
