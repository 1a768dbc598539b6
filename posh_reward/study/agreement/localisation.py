"""Mistakes and omissions located in texts: token-level macro F1 (paper, section 5; Table 2).

People mark mistakes in the generation and omissions in the reference; a metric scores spans, lower
meaning likelier an error. A token raises an alert if the lowest score of the spans that cover it is
below a threshold; an uncovered token never does. Macro F1 is the mean F1 of marked and unmarked
tokens, over the tokens of all texts.

- *best*: at the threshold that is best on the measured texts themselves, as in the paper;
- *fixed*: at a threshold set in advance;
- *held out*: each half of the images at the best threshold of the other half. The honest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    Figure,
    Judgments,
    Sample,
    make_report,
)
from posh_reward.study.agreement.judgment_files import as_list, check_columns, image_in, text_in
from posh_reward.study.agreement.metric_scores import (
    Alerts,
    ScoreColumn,
    TextPair,
    score_in_batches,
)
from posh_reward.study.agreement.rater_agreement import spans_overlap, token_spans
from posh_reward.tables.statistics import Floats, Ints, number_groups
from posh_reward.tables.tables import Row
from posh_reward.types import Failure, Span

MARKED_AXES = ("mistakes", "omissions")
THRESHOLD_KINDS = ("best", "fixed", "held out")
MAX_RESAMPLES_PER_BATCH = 50  # bounds memory


@dataclass(frozen=True)
class SpanColumns:
    """Column names of a table of marked texts."""

    generation: str = "generation"
    reference: str = "reference"
    # Spans in the generation: ``[[start, end], ...]`` or ``[{"start": ..., "end": ...}, ...]``.
    mistakes: str = "mistakes"
    omissions: str = "omissions"  # spans in the reference
    image: str = "uuid"


@dataclass(frozen=True)
class SpanAnnotations:
    """Pairs of texts with people's marks."""

    name: str
    pairs: Sequence[TextPair]
    marks: Mapping[str, Sequence[Sequence[Span]]]  # axis -> (pairs,) marked spans
    groups: Sequence[Hashable]

    def split_text(self, axis: str, place: int) -> list[Span]:
        """Tokens of a pair's generation (mistakes) or reference (omissions)."""
        pair = self.pairs[place]
        text = {"mistakes": pair.generation, "omissions": pair.reference}[axis]
        return token_spans(text)

    def token_marks(self, axis: str, place: int) -> NDArray[np.bool_]:
        """(tokens,) True where people marked the token."""
        tokens = self.split_text(axis, place)
        marked = np.zeros(len(tokens), dtype=bool)
        for span in self.marks[axis][place]:
            marked |= np.array([spans_overlap(token, span) for token in tokens], dtype=bool)
        return marked


def read_marks(rows: Sequence[Row], columns: SpanColumns, name: str) -> SpanAnnotations:
    names = ("generation", "reference", *MARKED_AXES)
    check_columns(rows, {f"--{each}": getattr(columns, each) for each in names}, name)
    pairs: list[TextPair] = []
    groups: list[Hashable] = []
    marks: dict[str, list[list[Span]]] = {axis: [] for axis in MARKED_AXES}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        generation = text_in(row, columns.generation, where)
        reference = text_in(row, columns.reference, where)
        image_id, image = image_in(row, columns.image)
        pairs.append(TextPair(generation, (reference,), image_id, image, row))
        groups.append(place if image_id is None else image_id)
        for axis, text in zip(MARKED_AXES, (generation, reference), strict=True):
            marks[axis].append(_spans_in(row, getattr(columns, axis), text, where))
    return SpanAnnotations(name, pairs, marks, groups)


def _spans_in(row: Row, column: str, text: str, where: str) -> list[Span]:
    cells = as_list(row.get(column))
    if cells is None:
        raise InputError(f"{where}: {column} is {str(row.get(column))[:40]!r}, not a list of spans")
    spans = []
    for cell in cells:
        match cell:
            case [int(start), int(end)] | {"start": int(start), "end": int(end)}:
                pass
            case _:
                raise InputError(f"{where}: {column} has {str(cell)[:40]}, not [start, end]")
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{where}: {column} has {start} to {end}, not within a text of {len(text)} "
                "characters: spans are [start, end), in characters from 0"
            )
        spans.append((start, end))
    return spans


class Localiser(Protocol):
    """A metric that locates errors."""

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> str: ...

    @property
    def threshold(self) -> float:
        """Fixed threshold: spans with lower scores are errors."""

    def alerts(self, pairs: Sequence[TextPair]) -> list[Alerts | Failure]:
        """Score the spans of each pair, in order."""


@dataclass(frozen=True)
class TokenCounts:
    """One metric's alerts on one axis, counted at every threshold."""

    thresholds: Floats  # (thresholds,) ascending; the last is above every score
    hits: Floats  # (texts, thresholds) marked tokens with an alert
    false: Floats  # (texts, thresholds) unmarked tokens with an alert
    positives: Floats  # (texts,) marked tokens
    negatives: Floats  # (texts,) unmarked tokens

    def macro_f1(self, weights: Floats) -> Floats:
        """(samples, thresholds) macro F1, weighting texts by ``weights`` (samples, texts)."""
        hits, false = weights @ self.hits, weights @ self.false
        sums = (weights @ self.positives)[:, None], (weights @ self.negatives)[:, None]
        return _macro_f1(hits, false, *sums)

    def threshold_index(self, threshold: float) -> int:
        """Index of the counted threshold that raises the same alerts."""
        return min(int(np.searchsorted(self.thresholds, threshold)), len(self.thresholds) - 1)


def _macro_f1(hits: Floats, false: Floats, positives: Floats, negatives: Floats) -> Floats:
    """Mean F1 of marked and unmarked tokens; nan where people marked all tokens or none."""
    # Both classes have the same errors: one class's false positive is the other's false negative.
    wrong = false + positives - hits
    # Raising no alert where there is no error does not show how well errors are found.
    both = (positives > 0) & (negatives > 0)
    rejected = negatives - false  # unmarked tokens without an alert
    f1_marked = 2 * hits / np.where(both, 2 * hits + wrong, 1)
    f1_unmarked = 2 * rejected / np.where(both, 2 * rejected + wrong, 1)
    macro: Floats = np.where(both, (f1_marked + f1_unmarked) / 2, np.nan)
    return macro


def count_alerts(
    marks: SpanAnnotations, axis: str, alerts: Sequence[Alerts | Failure]
) -> TokenCounts:
    scores = []
    people = []
    for place, found in enumerate(alerts):
        spans: Sequence[tuple[Span, float]] = ()
        if not isinstance(found, Failure):
            spans = found[axis]
        scores.append(score_tokens(marks.split_text(axis, place), spans))
        people.append(marks.token_marks(axis, place))
    return count_tokens(scores, people)


def count_tokens(scores: Sequence[Floats], marks: Sequence[NDArray[np.bool_]]) -> TokenCounts:
    """Count alerts at every threshold that makes a difference.

    Per text (tokens,) scores, infinite for no score, and people's marks.
    """
    # Only scores that occur matter as thresholds; the one above them all raises every alert.
    every = np.concatenate([np.zeros(0), *scores])
    thresholds = np.append(np.unique(every[np.isfinite(every)]), inf)
    # After sorting, one search counts a text's alerts at all thresholds. With a table of counts per
    # text, a resample of texts is a matrix product, whatever the number of tokens.
    hits, false, positives, negatives = [], [], [], []
    for values, marked in zip(scores, marks, strict=True):
        on_marks, elsewhere = np.sort(values[marked]), np.sort(values[~marked])
        hits.append(np.searchsorted(on_marks, thresholds))
        false.append(np.searchsorted(elsewhere, thresholds))
        positives.append(len(on_marks))
        negatives.append(len(elsewhere))
    return TokenCounts(
        thresholds,
        np.array(hits, dtype=float),
        np.array(false, dtype=float),
        np.array(positives, dtype=float),
        np.array(negatives, dtype=float),
    )


def score_tokens(tokens: Sequence[Span], spans: Sequence[tuple[Span, float]]) -> Floats:
    """(tokens,) lowest score of the spans that cover each; infinite if none does."""
    scores = np.full(len(tokens), inf)
    starts, ends = np.array(tokens, dtype=int).reshape(-1, 2).T
    for (start, end), score in spans:
        inside = (starts < end) & (start < ends)
        scores[inside] = np.minimum(scores[inside], score)
    return scores


@dataclass(frozen=True)
class Localisation:
    """One metric's counted alerts in all texts."""

    column: ScoreColumn  # 0 for texts that the metric has scores for
    by_axis: Mapping[str, TokenCounts]
    threshold: float


def locate_errors(
    localiser: Localiser, marks: SpanAnnotations, quiet: bool = False
) -> Localisation:
    """Locate errors with a metric; each distinct pair is scored once."""
    alerts = score_in_batches(localiser.name, localiser.alerts, marks.pairs, quiet)
    failures = Counter(str(each) for each in alerts if isinstance(each, Failure))
    failed = np.array([isinstance(each, Failure) for each in alerts], dtype=bool)
    scored = np.where(failed, nan, 0.0)
    column = ScoreColumn(
        localiser.name, dict.fromkeys(MARKED_AXES, scored), failures, localiser.signature
    )
    by_axis = {axis: count_alerts(marks, axis, alerts) for axis in MARKED_AXES}
    return Localisation(column, by_axis, localiser.threshold)


def _cross_validate(counts: TokenCounts, weights: Floats, half: Floats) -> Floats:
    """(samples,) macro F1 of all texts, each half at the best threshold of the other."""
    samples = np.arange(len(weights))
    hits, false = np.zeros(len(weights)), np.zeros(len(weights))
    for side in (1 - half, half):
        best = counts.macro_f1(weights * (1 - side)).argmax(axis=1)  # (samples,)
        own = weights * side
        hits += (own @ counts.hits)[samples, best]
        false += (own @ counts.false)[samples, best]
    # Add counts, then compute F1: the mean of two F1s would give a small half too much weight.
    macro = _macro_f1(hits, false, weights @ counts.positives, weights @ counts.negatives)
    empty = (weights @ half == 0) | (weights @ (1 - half) == 0)  # no texts to choose on
    return np.where(empty, np.nan, macro)


def span_figures(
    localisations: Mapping[str, Localisation], groups: Sequence[Hashable]
) -> list[Figure]:
    half = (number_groups(groups) % 2).astype(float)  # (texts,) 1 for texts of every other image

    def measure_axis(axis: str, kind: str, all: Sample, draws: Sequence[Ints]) -> list[float]:
        metric = localisations[all.metric]
        counts = metric.by_axis[axis]
        values: list[float] = []
        for start in range(0, len(draws), MAX_RESAMPLES_PER_BATCH):
            some = draws[start : start + MAX_RESAMPLES_PER_BATCH]
            weights = np.array([np.bincount(rows, minlength=len(half)) for rows in some], float)
            if kind == "held out":
                found = _cross_validate(counts, weights, half)
            elif kind == "fixed":
                found = counts.macro_f1(weights)[:, counts.threshold_index(metric.threshold)]
            else:
                # Choosing the threshold again in each resample puts the luck of the choice into
                # the interval. It is still optimistic, so "held out" is shown as well.
                found = counts.macro_f1(weights).max(axis=1)
            values += found.tolist()
        return values

    figures = []
    for axis in MARKED_AXES:
        for kind in THRESHOLD_KINDS:
            figures.append(Figure(axis, kind, partial(measure_axis, axis, kind), centre=False))
    return figures


def spans_report(
    marks: SpanAnnotations, localisers: Sequence[Localiser], settings: AgreementSettings
) -> AgreementReport:
    """Token-level figures of mistakes and omissions, above the paper's Table 2."""
    localisations = {each.name: locate_errors(each, marks, settings.quiet) for each in localisers}
    columns = [each.column for each in localisations.values()]
    columns += [ScoreColumn(name, {}, missing=why) for name, why in settings.missing]
    shares = []
    places = range(len(marks.pairs))
    for axis in MARKED_AXES:
        marked = np.concatenate([marks.token_marks(axis, place) for place in places])
        shares.append(f"{axis} {marked.sum() / max(len(marked), 1):.1%}")
    thresholds = ", ".join(f"{name} {each.threshold:g}" for name, each in localisations.items())
    notes = [
        "Macro F1 over marked and unmarked tokens. best: at the best threshold for these texts, as "
        f"in the paper; fixed: at a threshold set in advance ({thresholds}); held out: each half "
        "of the images at the best threshold of the other half.",
        f"Tokens that people marked: {', '.join(shares)}.",
    ]
    title = f"{marks.name}: {len(marks.pairs):,} marked pairs, {len(set(marks.groups)):,} images"
    judgments = Judgments(
        marks.name,
        dict.fromkeys(MARKED_AXES, np.zeros(len(marks.pairs))),
        marks.groups,
        lambda column, axis: column.scores[axis],
    )
    figures = span_figures(localisations, marks.groups)
    return make_report(title, judgments, columns, figures, replace(settings, table=2), notes)
