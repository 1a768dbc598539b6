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
from posh_reward.study.agreement.metric_scores import Alerts, ScoreColumn, TextPair, in_batches
from posh_reward.study.agreement.rater_agreement import overlaps, token_spans
from posh_reward.tables.statistics import Floats, Ints, number_groups
from posh_reward.tables.tables import Row
from posh_reward.types import Failure, Span

AXES = ("mistakes", "omissions")
KINDS = ("best", "fixed", "held out")
AT_ONCE = 50  # resamples per batch, to bound memory


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

    def tokens(self, axis: str, place: int) -> list[Span]:
        """Tokens of a pair's generation (mistakes) or reference (omissions)."""
        pair = self.pairs[place]
        return token_spans(pair.generation if axis == "mistakes" else pair.reference)

    def token_marks(self, axis: str, place: int) -> NDArray[np.bool_]:
        """(tokens,) True where people marked the token."""
        spans, tokens = self.marks[axis][place], self.tokens(axis, place)
        return np.array([any(overlaps(t, span) for span in spans) for t in tokens], dtype=bool)


def read_marks(rows: Sequence[Row], columns: SpanColumns, name: str) -> SpanAnnotations:
    names = ("generation", "reference", *AXES)
    check_columns(rows, {f"--{each}": getattr(columns, each) for each in names}, name)
    pairs: list[TextPair] = []
    groups: list[Hashable] = []
    marks: dict[str, list[list[Span]]] = {axis: [] for axis in AXES}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        generation = text_in(row, columns.generation, where)
        reference = text_in(row, columns.reference, where)
        image_id, image = image_in(row, columns.image)
        pairs.append(TextPair(generation, (reference,), image_id, image))
        groups.append(place if image_id is None else image_id)
        for axis, text in zip(AXES, (generation, reference), strict=True):
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

    def at(self, threshold: float) -> int:
        """Index of the counted threshold that raises the same alerts."""
        return min(int(np.searchsorted(self.thresholds, threshold)), len(self.thresholds) - 1)


def _macro_f1(hits: Floats, false: Floats, positives: Floats, negatives: Floats) -> Floats:
    """Mean F1 of marked and unmarked tokens; nan where people marked all tokens or none."""
    # Both classes have the same errors: one class's false positive is the other's false negative.
    wrong = false + positives - hits
    # Raising no alert where there is no error does not show how well errors are found.
    both = (positives > 0) & (negatives > 0)
    f1s = [2 * right / np.where(both, 2 * right + wrong, 1) for right in (hits, negatives - false)]
    macro: Floats = np.where(both, (f1s[0] + f1s[1]) / 2, np.nan)
    return macro


def count_alerts(
    marks: SpanAnnotations, axis: str, alerts: Sequence[Alerts | Failure]
) -> TokenCounts:
    scores = [
        _token_scores(marks.tokens(axis, place), () if isinstance(a, Failure) else a[axis])
        for place, a in enumerate(alerts)
    ]
    people = [marks.token_marks(axis, place) for place in range(len(alerts))]
    return count_tokens(scores, people)


def count_tokens(scores: Sequence[Floats], marks: Sequence[NDArray[np.bool_]]) -> TokenCounts:
    """Count alerts at every threshold that makes a difference.

    Per text (tokens,) scores, infinite for no score, and people's marks.
    """
    # Only scores that occur matter as thresholds; the one above them all raises every alert.
    every = np.concatenate(scores) if scores else np.zeros(0)
    thresholds = np.append(np.unique(every[np.isfinite(every)]), inf)
    # After sorting, one search counts a text's alerts at all thresholds. With a table of counts per
    # text, a resample of texts is a matrix product, whatever the number of tokens.
    on_marks = [np.sort(s[m]) for s, m in zip(scores, marks, strict=True)]
    elsewhere = [np.sort(s[~m]) for s, m in zip(scores, marks, strict=True)]
    return TokenCounts(
        thresholds,
        np.array([np.searchsorted(each, thresholds) for each in on_marks], dtype=float),
        np.array([np.searchsorted(each, thresholds) for each in elsewhere], dtype=float),
        np.array([m.sum() for m in marks], dtype=float),
        np.array([(~m).sum() for m in marks], dtype=float),
    )


def _token_scores(tokens: Sequence[Span], spans: Sequence[tuple[Span, float]]) -> Floats:
    """(tokens,) lowest score of the spans that cover each; infinite if none does."""
    scores = np.full(len(tokens), inf)
    starts, ends = (np.array([token[side] for token in tokens], dtype=int) for side in (0, 1))
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


def localise(localiser: Localiser, marks: SpanAnnotations, quiet: bool = False) -> Localisation:
    """Locate errors with a metric; each distinct pair is scored once."""
    alerts = in_batches(localiser.name, localiser.alerts, marks.pairs, quiet)
    failures = Counter(str(each) for each in alerts if isinstance(each, Failure))
    scored = np.array([nan if isinstance(each, Failure) else 0.0 for each in alerts])
    column = ScoreColumn(localiser.name, dict.fromkeys(AXES, scored), failures, localiser.signature)
    by_axis = {axis: count_alerts(marks, axis, alerts) for axis in AXES}
    return Localisation(column, by_axis, localiser.threshold)


def _held_out(counts: TokenCounts, weights: Floats, half: Floats) -> Floats:
    """(samples,) macro F1 of all texts, each half at the best threshold of the other."""
    samples = np.arange(len(weights))
    parts = []
    for side in (1 - half, half):
        best = counts.macro_f1(weights * (1 - side)).argmax(axis=1)  # (samples,)
        own = weights * side
        hits, false = ((own @ each)[samples, best] for each in (counts.hits, counts.false))
        parts.append((hits, false, own @ counts.positives, own @ counts.negatives))
    # Add counts, then compute F1: the mean of two F1s would give a small half too much weight.
    macro = _macro_f1(*(a + b for a, b in zip(*parts, strict=True)))
    empty = (weights @ half == 0) | (weights @ (1 - half) == 0)  # no texts to choose on
    return np.where(empty, np.nan, macro)


def span_figures(
    localisations: Mapping[str, Localisation], groups: Sequence[Hashable]
) -> list[Figure]:
    half = (number_groups(groups) % 2).astype(float)  # (texts,) 1 for texts of every other image

    def measure(axis: str, kind: str, all: Sample, draws: Sequence[Ints]) -> list[float]:
        metric = localisations[all.metric]
        counts = metric.by_axis[axis]
        values: list[float] = []
        for start in range(0, len(draws), AT_ONCE):
            some = draws[start : start + AT_ONCE]
            weights = np.array([np.bincount(rows, minlength=len(half)) for rows in some], float)
            if kind == "held out":
                found = _held_out(counts, weights, half)
            elif kind == "fixed":
                found = counts.macro_f1(weights)[:, counts.at(metric.threshold)]
            else:
                # Choosing the threshold again in each resample puts the luck of the choice into
                # the interval. It is still optimistic, so "held out" is shown as well.
                found = counts.macro_f1(weights).max(axis=1)
            values += found.tolist()
        return values

    return [
        Figure(axis, kind, partial(measure, axis, kind), centre=False)
        for axis in AXES
        for kind in KINDS
    ]


def spans_report(
    marks: SpanAnnotations, localisers: Sequence[Localiser], settings: AgreementSettings
) -> AgreementReport:
    """Token-level figures of mistakes and omissions, above the paper's Table 2."""
    localisations = {each.name: localise(each, marks, settings.quiet) for each in localisers}
    columns = [each.column for each in localisations.values()]
    columns += [ScoreColumn(name, {}, missing=why) for name, why in settings.missing]
    texts = range(len(marks.pairs))
    people = {axis: np.concatenate([marks.token_marks(axis, t) for t in texts]) for axis in AXES}
    shares = ", ".join(
        f"{axis} {tokens.mean() if len(tokens) else 0:.1%}" for axis, tokens in people.items()
    )
    thresholds = ", ".join(f"{name} {each.threshold:g}" for name, each in localisations.items())
    notes = [
        "Macro F1 over marked and unmarked tokens. best: at the best threshold for these texts, as "
        f"in the paper; fixed: at a threshold set in advance ({thresholds}); held out: each half "
        "of the images at the best threshold of the other half.",
        f"Tokens that people marked: {shares}.",
    ]
    title = f"{marks.name}: {len(marks.pairs):,} marked pairs, {len(set(marks.groups)):,} images"
    judgments = Judgments(
        marks.name,
        dict.fromkeys(AXES, np.zeros(len(marks.pairs))),
        marks.groups,
        lambda column, axis: column.scores[axis],
    )
    figures = span_figures(localisations, marks.groups)
    return make_report(title, judgments, columns, figures, replace(settings, table=2), notes)
