"""Scored rows -> one page to browse: distributions, a table, and each pair's marked texts.

The page needs no network and no other file. Texts are untrusted: they are embedded as JSON that
cannot close its element, and reach the document only through ``textContent``. The content policy
allows only our script, by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from reprlib import repr as short
from statistics import fmean, median
from typing import Any

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.records import write_row
from posh_reward.pages import element_marks, html
from posh_reward.pages.details import (
    Detail,
    DetailCounts,
    list_detail_figures,
    pack_details,
    read_detail,
)
from posh_reward.pages.html import Thumbnails, render, script_json
from posh_reward.posh.examine import MIN_SUPPORTED_GRADE
from posh_reward.posh.means import read_counted_score
from posh_reward.provenance import ORIGIN_COLUMN
from posh_reward.reward.texts import clean_reference
from posh_reward.tables import standings
from posh_reward.tables.completions import SHARES, Completion
from posh_reward.tables.dataset_images import OTHER_IMAGES_SUFFIX
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.statistics import Interval, bootstrap_mean
from posh_reward.tables.tables import (
    AXIS_MEANINGS,
    SCORE_SCALE,
    SCORES_EXPLANATION,
    Row,
    read_scores_of_row,
)
from posh_reward.types import KINDS, VALUES, Element, Scores, SentenceVerdict

MAX_START_CHARACTERS = 160  # of a generation in the table; CSS cuts them to fit
SCORE_RANGE = (0.2, 1.0)
HISTOGRAM_BINS = 16  # of 0.05 each
MIN_VALUES_FOR_INTERVAL = 10
COMPARISON_TITLE = "POSH: models compared"


@dataclass(slots=True)
class ReportLine:
    """One line of the table: a pair, or several models' texts with one id."""

    name: str
    # By model, "" for none: scores, number of elements, start of the text, number of the pair, and
    # the marks and values that it has, and f1 as it counts in means.
    members: dict[str, list[Any]] = field(default_factory=dict)
    scores: dict[str, list[float | None]] = field(default_factory=dict)  # by model, as in means
    step: int | None = None  # of a run


@dataclass(slots=True)
class ReportContents:
    """Contents of a page, collected row by row."""

    images: Thumbnails | None
    lines: list[ReportLine] = field(default_factory=list)
    by_id: dict[str, ReportLine] = field(default_factory=dict)  # lines of rows with a model
    score_totals: standings.ScoreTotals = field(default_factory=standings.ScoreTotals)
    details: DetailCounts = field(default_factory=DetailCounts)  # by model
    pairs: list[str] = field(default_factory=list)  # JSON in script elements
    wordings: dict[str, int] = field(default_factory=dict)  # wording -> index, which pairs refer to
    signatures: dict[str, None] = field(default_factory=dict)
    figures: list[Mapping[str, str]] = field(default_factory=list)  # of each pair, as texts
    has_marks: bool = False  # True if any pair has elements
    has_sentences: bool = False  # True if any pair's sentences were read
    ids: ItemIds = field(default_factory=ItemIds)
    without_image: Counter[str] = field(default_factory=Counter)  # completions, by what differs

    def add(self, row: Row, scores: Scores) -> None:
        """Add a row of a table."""
        model = format_label(row.get("model"))
        name = format_label(row.get("id")) or str(len(self.pairs) + 1)
        self.ids.add(name, model, row.get("reference"), "keep one of these rows")
        known = {"model": model, "id": name, ORIGIN_COLUMN: row.get(ORIGIN_COLUMN)}
        self.score_totals.add({**write_row("posh", scores), **known})
        self.details.add(self.models.index(model), map(read_detail, scores.elements))
        line, image = self._find_line(name, model), self._place_image(row, model)
        self._place(line, model, scores, image, element_marks.list_figures(scores))

    def add_completion(self, completion: Completion, scores: Scores) -> None:
        """Add a completion of a run: a line of its own, whatever others have its id."""
        line = ReportLine(completion.id or str(len(self.pairs) + 1), step=completion.step)
        self.lines.append(line)
        figures = dict(_format_figures(completion.figures))
        figures |= element_marks.list_figures(scores)
        self._place(line, "", scores, self._find_image(completion), figures, completion.text)

    def _find_image(self, completion: Completion) -> int | None:
        """Find the image with a completion's id, if the reference is the same, too."""
        if self.images is None or self.images.dataset is None:
            return None
        row = None if completion.id is None else self.images.dataset.find(completion.id)
        if row is None:
            self.without_image["id"] += 1
            return None
        known, logged = clean_reference(self.images.dataset.reference(row)), completion.reference
        if isinstance(known, str) and logged and known.split() != logged.split():
            self.without_image["reference"] += 1
            return None
        return self.images.place(row, completion.id)

    def missing_images(self) -> Iterator[str]:
        """Say of how many completions the dataset has another image, or none."""
        if self.images is None or self.images.dataset is None:
            return
        name = self.images.dataset.name
        if count := self.without_image["id"]:
            yield (
                f"without an image: {count:,} completions whose ids are not in {name!r}: name the "
                "dataset and split that the run was trained on (--dataset, --split)"
            )
        if count := self.without_image["reference"]:
            yield (
                f"without an image: {count:,} completions whose references {name!r} does not have "
                "under their ids: it is another dataset, or has other options"
            )

    def _place(
        self,
        line: ReportLine,
        model: str,
        scores: Scores,
        image: int | None,
        figures: Mapping[str, str],
        written: str | None = None,
    ) -> None:
        """Put a pair on its line, and its texts and figures where the line finds them.

        ``written`` is the text before it was cleaned, shown if it is another.
        """
        place = len(self.pairs)
        count = scores.generation_elements + scores.reference_elements
        axes = [getattr(scores, axis) for axis in AXIS_MEANINGS]  # rounded once, by the page
        start = scores.generation[:MAX_START_CHARACTERS]
        if scores.f1 is None:  # failed, perhaps on one side only
            line.scores[model] = [None] * len(AXIS_MEANINGS)
        else:
            line.scores[model] = [read_counted_score(scores, axis) for axis in AXIS_MEANINGS]
        f1 = line.scores[model][-1]
        line.members[model] = [*axes, count, start, place, *_list_marks(scores), f1]
        sentences = list(map(_pack_sentence, scores.sentences))
        pair = [*_pack_pair(scores, self.wordings), image, sentences]
        if written is not None and written != scores.generation:
            pair.append(written)
        self.pairs.append(script_json(pair, f"pair-{place}"))
        self.figures.append(figures)
        self.signatures[scores.signature] = None
        self.has_marks = self.has_marks or bool(scores.elements)
        self.has_sentences = self.has_sentences or bool(scores.sentences)

    def _place_image(self, row: Row, model: str) -> int | None:
        """Index of a row's image; None for a text about another image than its id's."""
        if self.images is None or model.endswith(OTHER_IMAGES_SUFFIX):
            return None
        return self.images.place(row.get("image"), row.get("id"), row.get("reference"))

    def _find_line(self, name: str, model: str) -> ReportLine:
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
        return list(self.score_totals.models)

    def gains(self, baseline: str | None = None) -> list[standings.ModelGain]:
        items: list[standings.IdScores] = [line.scores for line in self.lines]
        return standings.compare_with_baseline(
            items, self.models, standings.choose_baseline(self.models, baseline)
        )


def _format_figures(figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Format the figures of a completion that its texts do not show."""
    for name, value in figures.items():
        if name in ("cut", "lowered"):
            yield name, "yes" if value else "no"
        elif name not in (*SHARES, "words"):
            yield name, html.number(value)


def read_contents(rows: Iterable[Row], images: Thumbnails | None = None) -> ReportContents:
    contents = ReportContents(images)
    for number, row in enumerate(rows, start=1):
        try:
            scores = read_scores_of_row(row)
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
    title: str | None = None,
    baseline: str | None = None,
    plots: Sequence[tuple[str, bytes]] = (),
) -> str:
    """Render the collected rows as one HTML document.

    ``plots`` has an alternative text and an SVG for each plot of the models.
    """
    models, totals = contents.models, contents.score_totals
    base = standings.choose_baseline(models, baseline)
    several = len(models) > 1
    leaderboard = standings.sort_best_first(totals.average_by_model()) if several else []
    return render_pairs_page(
        "report_page.html",
        contents,
        title=title or (COMPARISON_TITLE if several else element_marks.PAGE_TITLE),
        lead=_write_lead(contents),
        models=models,
        base=base,
        groups=[name_model(each) for each in models],
        leaderboard=leaderboard,
        contradicted_share=standings.CONTRADICTED_SHARE,
        contradicted_explanation=standings.CONTRADICTED_EXPLANATION,
        gains=contents.gains(base),
        explanation=standings.GAINS_EXPLANATION,
        verdict=standings.describe_gain,
        cards=[] if several else [make_axis_card(each, totals) for each in AXIS_MEANINGS],
        scale=SCORE_SCALE,
        plots=plots,
    )


def render_pairs_page(
    template: str,
    contents: ReportContents,
    *,
    title: str,
    lead: str,
    models: Sequence[str] = ("",),
    base: str = "",
    groups: Sequence[str] = (),
    counts: DetailCounts | None = None,
    details: Sequence[Detail] | None = None,
    **values: Any,
) -> str:
    """Render a page with a list of pairs and a table of details.

    Args:
        template: extends ``pairs_page.html``.
        contents: the pairs.
        title: heading.
        lead: paragraph below it.
        models: of the pairs on a line, in order.
        base: model that the others are compared with.
        groups: names of the groups in which details are counted.
        counts: of details; by default those of the pairs.
        details: to list; by default the most often unsupported ones.
        values: for the template.
    """
    counts = counts or contents.details
    shown = element_marks.list_shown_figures(contents.figures)
    return render(
        template,
        title=title,
        lead=lead,
        models=models,
        base=base,
        axes=AXIS_MEANINGS,
        kinds=KINDS,
        doubts=contents.score_totals.doubts,
        has_failures=any(None in row for line in contents.lines for row in line.scores.values()),
        has_marks=contents.has_marks,
        has_witness=element_marks.has_witness(contents.signatures),
        has_sentences=contents.has_sentences,
        contradiction={
            "wording": element_marks.SENTENCE_WORDING,
            "name": element_marks.CONTRADICTED_NAME,
            "values": VALUES,
        },
        values=VALUES,
        footer=[
            element_marks.QUESTION_GLOSS,
            *element_marks.explain_stand_ins(list(contents.signatures)),
            *contents.signatures,
            *contents.score_totals.origins.lines(),
        ],
        wordings=list(contents.wordings),
        figures=shown,
        figure_values=[[each.get(name, "none") for name in shown] for each in contents.figures],
        rows=[
            [line.name, list(map(line.members.get, models)), line.step] for line in contents.lines
        ],
        pairs=contents.pairs,
        copies=contents.images.copies if contents.images else [],
        details={
            "groups": groups,
            "texts": [counts.texts[group] for group in range(counts.groups)],
            "compared": counts.compared_groups,
            "supported": MIN_SUPPORTED_GRADE,
            "rows": pack_details(counts.list_details() if details is None else details),
        },
        **values,
    )


def report_figures(contents: ReportContents, baseline: str | None = None) -> dict[str, Any]:
    """Return the figures of a page as plain data: means, differences, and the details."""
    return {
        **contents.score_totals.figures(),
        "signatures": list(contents.signatures),
        "baseline": standings.choose_baseline(contents.models, baseline),
        "differences": [asdict(each) for each in contents.gains(baseline)],
        "details": list_detail_figures(contents.details),
    }


def name_model(model: str) -> str:
    return model or "(no model)"


@dataclass(frozen=True, slots=True)
class AxisCard:
    """Scores of one axis, with mean and distribution."""

    title: str
    meaning: str
    values: Sequence[float]
    bins: Sequence[int]
    mean: float | None
    interval: Interval | None  # None for fewer than ``MIN_VALUES_FOR_INTERVAL`` values
    median: float | None


def make_axis_card(axis: str, totals: standings.ScoreTotals) -> AxisCard:
    [model] = totals.models.values()
    values = model.values(axis)
    # Values out of range count in the nearest bin.
    bins, _ = np.histogram(np.clip(values, *SCORE_RANGE), HISTOGRAM_BINS, SCORE_RANGE)
    return AxisCard(
        axis,
        AXIS_MEANINGS[axis],
        values,
        bins.tolist(),
        fmean(values) if values else None,
        bootstrap_mean(values, resamples=1000) if len(values) >= MIN_VALUES_FOR_INTERVAL else None,
        median(values) if values else None,
    )


def format_label(value: object) -> str:
    """Return a model's or a row's name as text, whatever its type; "" for None."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else short(value)


MARK_LEVELS = ("absent", "weak", "partial", "clear", "failed")
"""Levels of an element by which pairs can be filtered."""


def _list_marks(scores: Scores) -> tuple[int, int]:
    """List what a pair can be filtered by, as bits.

    Bit ``(side * 3 + kind) * 5 + level`` is set if an element has them, such as bit 5 for an
    attribute of the written text that is absent; in the second number, bit ``value`` if a sentence
    has it.
    """
    marks = values = 0
    sides = list(element_marks.TEXT_TITLES)
    for element in scores.elements:
        level = "failed"
        if element.grade is not None:
            level = element_marks.name_level(element.grade)
        place = sides.index(element.direction) * len(KINDS) + KINDS.index(element.kind)
        marks |= 1 << (place * len(MARK_LEVELS) + MARK_LEVELS.index(level))
    for sentence in scores.sentences:
        values |= 1 << VALUES.index(sentence.value)
    return marks, values


def _pack_pair(scores: Scores, wordings: dict[str, int]) -> list[Any]:
    """Pack a pair's marked texts, elements and failure; add to ``wordings``."""
    # Marks refer to elements by index. Lists, not objects: the page searches this JSON and would
    # find the names of fields.
    elements = element_marks.sort_worst_first(scores.elements)
    places = {id(element): place for place, element in enumerate(elements)}
    texts = []
    for direction in element_marks.TEXT_TITLES:
        stretches = element_marks.cut_stretches(scores, direction)
        texts.append([_pack_stretch(stretch, places, scores.sentences) for stretch in stretches])
    rows = []
    for element in elements:
        wording = element_marks.choose_wording(element, scores.signature)
        rows.append(_pack_element(element, wordings.setdefault(wording, len(wordings))))
    return [*texts, rows, None if scores.failure is None else str(scores.failure)]


def _pack_stretch(
    stretch: element_marks.Stretch,
    places: Mapping[int, int],
    sentences: Sequence[SentenceVerdict],
) -> list[Any]:
    if not stretch.has_mark:
        return [stretch.text]
    numbers = sorted(places[id(element)] for element in stretch.elements)
    run = [stretch.text, stretch.lowest and round(stretch.lowest, 4), numbers]
    if stretch.sentence is not None:
        run += [0, sentences.index(stretch.sentence)]
    elif stretch.level == "seen":
        run.append(1)
    return run


def _pack_sentence(sentence: SentenceVerdict) -> list[Any]:
    shares = [round(getattr(sentence, value), 4) for value in VALUES]
    return [VALUES.index(sentence.value), *sentence.span, *shares]


def _pack_element(element: Element, wording_place: int) -> list[Any]:
    direction = list(element_marks.TEXT_TITLES).index(element.direction)
    kind = KINDS.index(element.kind)
    blanks = element_marks.list_placeholders(element)
    while blanks and blanks[-1] is None:
        blanks.pop()
    return [wording_place, direction, kind, element.grade and round(element.grade, 4), *blanks]


def _write_lead(contents: ReportContents) -> str:
    pairs = len(contents.pairs)
    lead = "1 pair" if pairs == 1 else f"{pairs:,} pairs"
    failures = sum(each.count for each in contents.score_totals.failures.values())
    if failures:
        lead += f", {failures:,} of them without a score"
    lead += f". {SCORES_EXPLANATION}. "
    for line in contents.score_totals.partial_means():
        lead += f"{line.capitalize()}. "
    if contents.has_marks:
        lead += "Open a pair to see what was not found in the other text."
    elif contents.has_sentences:
        lead += "They were scored without --elements, so only contradicted sentences are marked."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    images = contents.images
    if images and images.left_out:
        lead += f" Only the first {len(images.copies):,} images are shown."
    if images and images.dataset and images.dataset.beyond:
        lead += f" Without an image: {images.dataset.too_far}."
    if (count := len(set(contents.score_totals.origins.signatures.values()))) > 1:
        lead += f" These scores have {count} signatures: they are not comparable."
    return lead
