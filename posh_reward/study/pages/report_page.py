"""Scored rows -> one page to look through: distributions, a table, and each pair's marked texts.

The page needs no network and no other file. Texts are untrusted: they are embedded as JSON that
cannot close its element, and reach the document only through ``textContent``. The content policy
allows our script, by its hash, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short
from statistics import fmean, median
from typing import Any

from posh_reward.errors import InputError
from posh_reward.study.pages.element_marks import Stretch, names, stretches, wording, worst_first
from posh_reward.study.pages.html import render, script_json
from posh_reward.study.pages.pair_page import NAMES, TITLES, has_witness
from posh_reward.study.pages.thumbnails import Thumbnails
from posh_reward.study.rows.dataset_images import OTHER_IMAGES
from posh_reward.study.rows.posh_rows import elements_in, parse_cells, scores_of
from posh_reward.study.rows.score_axes import AXES, EXPLANATION, SCALE
from posh_reward.study.rows.standings import (
    GAINS,
    Gain,
    IdScores,
    Tally,
    baseline_of,
    best_first,
    gains,
    verdict,
)
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Interval, bootstrap_mean
from posh_reward.types import Element, Scores

TITLE = "POSH: mistakes and omissions"
START = 160  # characters of a generation that the table shows; CSS cuts them to what fits
KINDS = ("entity", "attribute", "relation")
LOW, HIGH, BINS = 0.2, 1.0, 16  # the range that scores lie in, cut into bins of 0.05
ENOUGH = 10  # fewer values than this get no interval


@dataclass(slots=True)
class ReportLine:
    """One line of the table: a pair, or what several models wrote under one id."""

    name: str
    # By model, "" without one: scores, number of elements, first words, number of the pair.
    members: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(slots=True)
class ReportContents:
    """Contents of a page, collected row by row."""

    images: Thumbnails | None
    lines: list[ReportLine] = field(default_factory=list)
    # The last line of each id that has a model.
    by_id: dict[str, ReportLine] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    pairs: list[str] = field(default_factory=list)  # as JSON, in script elements
    # Each wording of a question, with its place in the list that pairs refer to.
    wordings: dict[str, int] = field(default_factory=dict)
    signatures: dict[str, None] = field(default_factory=dict)
    has_marks: bool = False  # True if any pair has elements

    def add(self, row: Row) -> None:
        """Add one scored row.

        Raises:
            InputError: it is not a scored row.
            ConfigError: the dataset's image is of something else.
        """
        row = parse_cells(row)
        scores = scores_of(row)
        count = len(scores.elements) or elements_in(row)
        number = len(self.pairs)
        model, name = label(row.get("model")), label(row.get("id")) or str(number + 1)
        axes = [getattr(scores, axis.field) for axis in AXES]  # rounded once, by the page
        line = self._line(name, model)
        line.members[model] = [*axes, count, scores.generation[:START], number]
        pair = [*_pair(scores, self.wordings), self._image(row, model)]
        self.pairs.append(script_json(pair, f"pair-{number}"))
        self.tally.add({**row, "model": model, "id": name})
        self.signatures[scores.signature] = None
        self.has_marks = self.has_marks or bool(scores.elements)

    def _image(self, row: Row, model: str) -> int | None:
        """The place of a row's image; a text about another image than its id's has none."""
        if self.images is None or model.endswith(OTHER_IMAGES):
            return None
        return self.images.place(row.get("image"), row.get("id"), row.get("reference"))

    def _line(self, name: str, model: str) -> ReportLine:
        """The line that a row joins: the one with its id, unless it has this model already."""
        line = self.by_id.get(name) if model else None
        if line is None or model in line.members:
            line = ReportLine(name)
            self.lines.append(line)
            if model:
                self.by_id[name] = line
        return line

    @property
    def models(self) -> list[str]:
        """Their names, in the order in which they came up."""
        return list(self.tally.models)

    def gains(self, baseline: str | None = None) -> list[Gain]:
        """Each other model's gain over the baseline, which is the first by default."""
        items: list[IdScores] = [line.members for line in self.lines]
        return gains(items, self.models, baseline_of(self.models, baseline))


def contents_of(rows: Iterable[Row], images: Thumbnails | None = None) -> ReportContents:
    """Collect what a page shows.

    Args:
        rows: as ``posh-reward score`` writes them; read once, one at a time. Without ``elements``
            they are shown unmarked. Those of one ``id`` by several models are side by side.
        images: makes the small copies of what ``image`` names; None shows no images.

    Raises:
        InputError: a row is not a scored row, or there is none.
        ConfigError: the images' dataset is not what the rows were generated from.
    """
    contents = ReportContents(images)
    for number, row in enumerate(rows, start=1):
        try:
            contents.add(row)
        except InputError as error:
            raise InputError(
                f"row {number} is not a row of scores ({error}): write them with `posh-reward "
                "score --elements`"
            ) from None
    if not contents.pairs:
        raise InputError("there are no rows to report on")
    return contents


def report_page(
    contents: ReportContents,
    title: str = TITLE,
    baseline: str | None = None,
    plots: Sequence[tuple[str, bytes]] = (),
) -> str:
    """The page about rows that have been collected, as one HTML document.

    ``plots`` are of the models: what each shows, in words, and its SVG.

    Raises:
        InputError: no row is of the baseline.
    """
    models, tally = contents.models, contents.tally
    base = baseline_of(models, baseline)
    several = len(models) > 1
    return render(
        "report_page.html",
        title=title,
        lead=_lead(contents),
        doubts=tally.doubts,
        models=models,
        base=base,
        standings=best_first(tally.standings()) if several else [],
        gains=contents.gains(base),
        explanation=GAINS,
        verdict=verdict,
        cards=[] if several else [axis_card(each, tally) for each in AXES],
        axes=AXES,
        scale=SCALE,
        plots=plots,
        has_witness=has_witness(contents.signatures),
        footer=[NAMES, *contents.signatures],
        wordings=list(contents.wordings),
        rows=[[line.name, [line.members.get(m) for m in models]] for line in contents.lines],
        pairs=contents.pairs,
        copies=contents.images.copies if contents.images else [],
    )


@dataclass(frozen=True, slots=True)
class AxisCard:
    """The scores of one axis: their mean and their distribution."""

    title: str
    field: str
    meaning: str
    values: Sequence[float]
    bins: list[int]
    mean: float | None
    interval: Interval | None  # None: too few values
    median: float | None


def axis_card(axis: Any, tally: Tally) -> AxisCard:
    """Return the card of an axis, of the only model of a page."""
    [totals] = tally.models.values()
    values = totals.scores[axis.name]
    return AxisCard(
        axis.name.capitalize(),
        axis.field,
        axis.meaning,
        values,
        counts(values),
        fmean(values) if values else None,
        bootstrap_mean(values, resamples=1000) if len(values) >= ENOUGH else None,
        median(values) if values else None,
    )


def counts(values: Sequence[float]) -> list[int]:
    """Count the values in each bin; those outside the range count at its end."""
    bins = [0] * BINS
    for value in values:
        place = int((value - LOW) / (HIGH - LOW) * BINS + 1e-9)  # 0.25 - 0.2 is a little below 0.05
        bins[min(max(place, 0), BINS - 1)] += 1
    return bins


def label(value: object) -> str:
    """Return a model's or a row's name as text, however odd; "" for none."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)


def _pair(scores: Scores, wordings: dict[str, int]) -> list[Any]:
    """A pair's marked texts, its elements and its failure. Fills in ``wordings``."""
    # Marks name elements by their place. Lists, not records: the page's search runs over this
    # JSON and would find the names of fields.
    elements = worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    texts = [[_run(stretch, places) for stretch in stretches(scores, each)] for each in TITLES]
    rows = [
        _element(element, wordings.setdefault(wording(element, scores.signature), len(wordings)))
        for element in elements
    ]
    return [*texts, rows, None if scores.failure is None else str(scores.failure)]


def _run(stretch: Stretch, places: Mapping[int, int]) -> list[Any]:
    if not stretch.has_mark:
        return [stretch.text]
    numbers = sorted(places[id(element)] for element in stretch.elements)
    run = [stretch.text, _round(stretch.lowest), numbers]
    return [*run, 1] if stretch.level == "seen" else run


def _element(element: Element, wording_place: int) -> list[Any]:
    direction = list(TITLES).index(element.direction)
    kind = KINDS.index(element.kind)
    blanks = names(element)
    while blanks and blanks[-1] is None:
        blanks.pop()
    return [wording_place, direction, kind, _round(element.grade), *blanks]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _lead(contents: ReportContents) -> str:
    pairs, count = len(contents.pairs), sum(f.count for f in contents.tally.failures.values())
    lead = f"{pairs:,} pair{'s' * (pairs != 1)}"
    lead += f", {count:,} of them without a score. " if count else ". "
    lead += f"{EXPLANATION}. "
    if contents.has_marks:
        lead += "Open a pair to see its mistakes and omissions in the texts."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    if contents.images and contents.images.left_out:
        lead += f" Only the first {len(contents.images.copies):,} images are shown."
    dataset = contents.images.dataset if contents.images else None
    if dataset and dataset.beyond:
        lead += f" Without an image: {dataset.too_far}."
    if len(contents.signatures) > 1:
        lead += (
            f" These scores have {len(contents.signatures)} signatures: they are not comparable."
        )
    return lead
