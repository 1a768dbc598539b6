"""Mistakes and omissions found in texts: token-level macro F1 (paper, section 5; Table 2).

People mark mistakes in the generation and omissions in the reference; a metric gives spans scores,
the lower the likelier an error. A token raises an alert if the lowest score of a span that covers
it is below a threshold; a token that no span covers never does. Macro F1 is the mean of the F1 of
marked and of unmarked tokens, over the tokens of all texts.

- *best*: at the best of all thresholds, chosen on the very texts that are measured, as the paper;
- *fixed*: at a threshold that was fixed before;
- *held out*: each half of the images at the best threshold of the other half. The honest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError
from posh_reward.study.agreement.compare import Cell, Line
from posh_reward.study.agreement.items import Pair, Progress, batches
from posh_reward.study.agreement.marks import AXES, Marked
from posh_reward.study.agreement.spans import overlaps
from posh_reward.study.statistics import Floats, Ints, estimate, resampled_rows
from posh_reward.types import Failure, Span

KINDS = ("best", "fixed", "held out")
AT_ONCE = 50
"""Resamples that are summed at a time: bounds memory."""

Alerts = Mapping[str, Sequence[tuple[Span, float]]]
"""Axis -> spans with scores, the lower the likelier an error. Spans of mistakes point into the
generation, those of omissions into the reference, as given."""


class Localiser(Protocol):
    """A metric that says where errors are."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def signature(self) -> str:
        """What another run needs to reproduce its scores."""
        ...

    @property
    def threshold(self) -> float:
        """The fixed one: spans with lower scores are errors."""
        ...

    def alerts(self, pairs: Sequence[Pair]) -> list[Alerts | Failure]:
        """Scored spans of each pair, in order."""
        ...


@dataclass(frozen=True)
class Counts:
    """One metric's tokens on one axis, counted at every threshold."""

    thresholds: Floats
    """(thresholds,) rising; the last one is above every score."""
    hits: Floats
    """(texts, thresholds) marked tokens with an alert."""
    false: Floats
    """(texts, thresholds) unmarked tokens with an alert."""
    marked: Floats
    """(texts,)"""
    unmarked: Floats
    """(texts,)"""
    usable: Ints
    """Texts that the metric has scores for."""

    def macro_f1(self, weights: Floats) -> Floats:
        """(samples, thresholds) macro F1 of texts that count ``weights`` (samples, texts) times."""
        hits, false = weights @ self.hits, weights @ self.false
        marked, unmarked = (weights @ self.marked)[:, None], (weights @ self.unmarked)[:, None]
        return _macro_f1(hits, false, marked, unmarked)

    def at(self, threshold: float) -> int:
        """The index of the threshold that raises the same alerts."""
        return min(int(np.searchsorted(self.thresholds, threshold)), len(self.thresholds) - 1)


def _macro_f1(hits: Floats, false: Floats, marked: Floats, unmarked: Floats) -> Floats:
    """Mean F1 of marked and unmarked tokens; nan where people marked all of them or none.

    To find no error where there is none says nothing of how well errors are found.
    """
    wrong = false + marked - hits
    both = (marked > 0) & (unmarked > 0)
    f1s = [2 * right / np.where(both, 2 * right + wrong, 1) for right in (hits, unmarked - false)]
    macro: Floats = np.where(both, (f1s[0] + f1s[1]) / 2, np.nan)
    return macro


def counts(judged: Marked, axis: str, given: Sequence[Alerts | Failure]) -> Counts:
    """Counts one metric's alerts at every threshold."""
    scores, marks = [], []
    for text, alerts in enumerate(given):
        tokens = judged.tokens(axis, text)
        spans = () if isinstance(alerts, Failure) else alerts[axis]
        scores.append(_token_scores(tokens, spans))
        people = judged.marks[axis][text]
        marks.append(np.array([any(overlaps(t, m) for m in people) for t in tokens], dtype=bool))
    return tallied(scores, marks, [not isinstance(alerts, Failure) for alerts in given])


def tallied(
    scores: Sequence[Floats], marks: Sequence[NDArray[np.bool_]], usable: Sequence[bool]
) -> Counts:
    """Counts alerts at every threshold that makes a difference.

    Args:
        scores: per text (tokens,) the lower the likelier an error; infinite where nothing was said.
        marks: per text (tokens,) whether people marked the token.
        usable: per text whether the metric has scores for it.
    """
    every = np.concatenate(scores) if scores else np.zeros(0)
    thresholds = np.append(np.unique(every[np.isfinite(every)]), inf)
    rising = [np.sort(s[m]) for s, m in zip(scores, marks, strict=True)]
    others = [np.sort(s[~m]) for s, m in zip(scores, marks, strict=True)]
    return Counts(
        thresholds,
        np.array([np.searchsorted(each, thresholds) for each in rising], dtype=float),
        np.array([np.searchsorted(each, thresholds) for each in others], dtype=float),
        np.array([m.sum() for m in marks], dtype=float),
        np.array([(~m).sum() for m in marks], dtype=float),
        np.flatnonzero(usable),
    )


def _token_scores(tokens: Sequence[Span], spans: Sequence[tuple[Span, float]]) -> Floats:
    """(tokens,) the lowest score of a span that covers each; infinite where none does."""
    found = np.full(len(tokens), inf)
    starts, ends = (np.array([token[side] for token in tokens], dtype=int) for side in (0, 1))
    for (start, end), score in spans:
        covered = (starts < end) & (start < ends)
        found[covered] = np.minimum(found[covered], score)
    return found


@dataclass(frozen=True)
class Found:
    """What one metric found in all texts."""

    name: str
    by_axis: Mapping[str, Counts]
    threshold: float
    failures: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""


def localised(localiser: Localiser, judged: Marked, progress: Progress | None = None) -> Found:
    """Asks a metric where errors are; each distinct pair is asked about once."""
    known: dict[Pair, Alerts | Failure] = {}
    for some in batches(list(dict.fromkeys(judged.pairs))):
        known.update(zip(some, localiser.alerts(some), strict=True))
        if progress is not None:
            progress(len(some))
    given = [known[pair] for pair in judged.pairs]
    failures = Counter(str(each) for each in given if isinstance(each, Failure))
    by_axis = {axis: counts(judged, axis, given) for axis in AXES}
    return Found(localiser.name, by_axis, localiser.threshold, dict(failures), localiser.signature)


def localising_lines(
    judged: Marked,
    found: Sequence[Found],
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Line]:
    """One line of figures for each metric, with paired intervals and tests."""
    draws = list(resampled_rows(judged.groups, resamples=resamples, seed=seed))
    half = _halves(judged.groups)
    base = next((each for each in found if each.name == (against or found[0].name)), None)
    if base is None:
        names = ", ".join(repr(each.name) for each in found)
        raise InputError(f"there is no metric {against!r} to compare with, but {names}")
    known: dict[tuple[str, str, bytes], list[tuple[float, Floats]]] = {}

    def values(metric: Found, axis: str, usable: Ints) -> list[tuple[float, Floats]]:
        key = metric.name, axis, usable.tobytes()
        if key not in known:
            known[key] = _values(metric.by_axis[axis], metric.threshold, draws, half, usable)
        return known[key]

    lines = []
    for each in found:
        cells: dict[str, Cell] = {}
        differences = {}
        for axis in AXES:
            usable = each.by_axis[axis].usable
            images = len({judged.groups[text] for text in usable})
            for kind, (value, samples) in zip(KINDS, values(each, axis, usable), strict=True):
                found_here = estimate(value, samples, groups=images)
                cells[f"{axis} {kind}"] = Cell(found_here, len(usable))
            if each is base:
                continue
            both = np.intersect1d(usable, base.by_axis[axis].usable)
            images = len({judged.groups[text] for text in both})
            pairs = zip(KINDS, values(each, axis, both), values(base, axis, both), strict=True)
            for kind, (ours, ours_in), (theirs, theirs_in) in pairs:
                differences[f"{axis} {kind}"] = estimate(
                    ours - theirs, ours_in - theirs_in, groups=images
                )
        lines.append(Line(each.name, cells, differences, each.failures, each.signature))
    return lines


def _values(
    counts: Counts, threshold: float, draws: Sequence[Ints], half: Floats, usable: Ints
) -> list[tuple[float, Floats]]:
    """Per kind the figure, and the figure in each resample, on the usable texts."""
    mask = np.zeros(len(half))
    mask[usable] = 1
    whole = _kinds(counts, threshold, mask[None, :], half)
    parts = [_kinds(counts, threshold, weights * mask, half) for weights in _weights(draws, half)]
    return [
        (float(whole[kind][0]), np.concatenate([part[kind] for part in parts] or [np.zeros(0)]))
        for kind in range(len(KINDS))
    ]


def _weights(draws: Sequence[Ints], half: Floats) -> Iterator[Floats]:
    """(resamples, texts) how often each text was drawn, some resamples at a time."""
    for start in range(0, len(draws), AT_ONCE):
        some = draws[start : start + AT_ONCE]
        yield np.array([np.bincount(rows, minlength=len(half)) for rows in some], dtype=float)


def _kinds(counts: Counts, threshold: float, weights: Floats, half: Floats) -> list[Floats]:
    """Per kind (samples,) macro F1."""
    every = counts.macro_f1(weights)
    chosen = [counts.macro_f1(weights * side).argmax(axis=1) for side in (half, 1 - half)]
    return [
        every.max(axis=1),
        every[:, counts.at(threshold)],
        _crossed(counts, weights, half, chosen),
    ]


def _crossed(counts: Counts, weights: Floats, half: Floats, chosen: Sequence[Ints]) -> Floats:
    """(samples,) macro F1 of all texts, each half at the threshold chosen on the other.

    nan where a half has no texts to choose one on.
    """
    samples = np.arange(len(weights))
    totals: dict[str, Any] = {}
    for side, threshold in ((1 - half, chosen[0]), (half, chosen[1])):
        own = weights * side
        hits, false = (own @ each for each in (counts.hits, counts.false))
        parts = {
            "hits": hits[samples, threshold],
            "false": false[samples, threshold],
            "marked": own @ counts.marked,
            "unmarked": own @ counts.unmarked,
        }
        totals = {name: totals.get(name, 0) + part for name, part in parts.items()}
    crossed = _macro_f1(**totals)
    empty = (weights @ half == 0) | (weights @ (1 - half) == 0)
    return np.where(empty, np.nan, crossed)


def _halves(groups: Sequence[Hashable]) -> Floats:
    """(texts,) 1 for texts of every other image, 0 for the others."""
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([place[group] % 2 for group in groups], dtype=float)
