"""Judgments and metrics -> a report: everything behind ``posh-reward agreement``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.study.agreement import caparena, published
from posh_reward.study.agreement.bars import Bars
from posh_reward.study.agreement.compare import Figure, Line, Sheet, compare
from posh_reward.study.agreement.items import (
    Column,
    Combine,
    Item,
    Measure,
    absent,
    distinct_pairs,
    measured,
    precomputed,
)
from posh_reward.study.agreement.pairs import Compared, differences, pair_figures
from posh_reward.study.agreement.ratings import Rated, rating_figures
from posh_reward.study.agreement.report import Report, few, left_out


@dataclass(frozen=True)
class Choices:
    """Which metrics are measured, and how."""

    measures: Sequence[Measure] = ()
    """Metrics that score texts, in order."""
    columns: Sequence[str] = ()
    """Scores that the judgments' own rows have."""
    missing: Sequence[tuple[str, str]] = ()
    """(Metric, why it cannot work here, with the remedy)."""
    combine: Combine = "join"
    against: str | None = None
    """The metric that the others are compared with; None: the first."""
    resamples: int = 1000
    seed: int = 0
    table: int | None = None
    """The paper's table to print with our figures."""
    quiet: bool = False


def score_columns(items: Sequence[Item], choices: Choices) -> list[Column]:
    """Each metric's scores of all items; what cannot work here is named with the remedy."""
    bars = Bars(choices.quiet)
    total = distinct_pairs(items, choices.combine)
    try:
        found = [
            measured(each, items, choices.combine, bars.bar(each.name, total, "pair"))
            for each in choices.measures
        ]
    finally:
        bars.close()
    found += [precomputed(name, items) for name in choices.columns]
    return found + [absent(name, why) for name, why in choices.missing]


def lines(
    sheet: Sheet, columns: Sequence[Column], figures: Sequence[Figure], choices: Choices
) -> list[Line]:
    """Each metric's figures, with progress."""
    bars = Bars(choices.quiet)
    advance = bars.bar(f"{sheet.name}: figures", len(columns), "metric")
    try:
        return compare(
            sheet,
            columns,
            figures,
            against=choices.against,
            resamples=choices.resamples,
            seed=choices.seed,
            progress=lambda: advance(1),
        )
    finally:
        bars.close()


def pairs_report(compared: Compared, choices: Choices) -> Report:
    """Pairs that people compared: accuracy, rho and tau on each axis."""
    figures = pair_figures(list(compared.people))
    columns = score_columns(compared.items, choices)
    found = lines(compared.sheet, columns, figures, choices)
    ties = ", ".join(
        f"{axis} {int((labels == 0).sum())}" for axis, labels in compared.people.items()
    )
    notes = [
        f"Ties, by people's labels: {ties}. A metric's least differences count as ties, as many as "
        "people saw; rho and tau compare the difference of its scores with the label.",
        *left_out(compared.people, "label"),
        *few(compared.groups),
    ]
    size = f"{len(compared.groups):,} pairs of {len(set(compared.groups)):,} images"
    return _report(f"{compared.name}: {size}", figures, found, choices, notes)


def ratings_report(rated: Rated, choices: Choices) -> Report:
    """Texts that people rated: rank and linear correlations, and pairwise accuracy."""
    figures = rating_figures(rated)
    columns = score_columns(rated.items, choices)
    found = lines(rated.sheet, columns, figures, choices)
    notes = [
        "pairs: of two texts of one image that people rate differently, how often the metric "
        "orders them alike; its ties are wrong.",
        *left_out(rated.people, "rating"),
        *few(rated.groups),
    ]
    if any(len(item.references) > 1 for item in rated.items):
        notes.append(f"Several references: {COMBINED[choices.combine]}.")
    images = len(set(rated.groups))
    size = f"{len(rated.of):,} ratings of {len(rated.items):,} texts, {images:,} images"
    return _report(f"{rated.name}: {size}", figures, found, choices, notes)


COMBINED: dict[Combine, str] = {
    "join": "joined into one text of sentences",
    "best": "each axis has its best score over them",
    "mean": "each axis has its mean score over them",
}


def caparena_report(arena: caparena.Arena, choices: Choices) -> Report:
    """CapArena: accuracy of descriptions, overall and by cluster, and the ranking of models."""
    columns = score_columns(arena.items, choices)
    figures = caparena.arena_figures(arena) + caparena.cluster_figures(arena)
    found = lines(arena.sheet, columns, figures, choices)
    scores = {c.name: differences(c, caparena.AXIS) for c in columns if not c.missing}
    notes = [
        f"{arena.left_out:,} pairs with a human's text are left out; skip, bad and equal are ties.",
        "Model rho and tau: rankings by median Elo (K 4, scale 400, base 10, start 1000) over "
        "1,000 resamples of the battles, seed 42. Their intervals, from one pass through the "
        "battles of each resample of images, are rather too wide than too narrow.",
    ]
    notes += few(arena.groups)
    title = f"CapArena: {len(arena.outcome):,} pairs, {len(arena.models)} models"
    extra = {"ratings": caparena.standings(arena, scores)}
    return _report(title, figures, found, choices, notes, extra)


def _report(
    title: str,
    figures: Sequence[Figure],
    found: Sequence[Line],
    choices: Choices,
    notes: Sequence[str],
    extra: dict[str, Any] | None = None,
) -> Report:
    keys = [figure.key for figure in figures]
    paper = published.published(choices.table) if choices.table is not None else []
    against = choices.against or next((line.name for line in found if not line.missing), None)
    return Report(
        title,
        figures,
        found,
        notes,
        published.with_figures(paper, keys),
        choices.table,
        against,
        extra or {},
    )
