"""CapArena: battles of models' descriptions of web images (paper, section 5; Table 6).

Pairs with a human's text are left out. Descriptions: accuracy over better, tie and worse, overall
and per cluster, with one tie threshold for all. Models: rank correlation of their Elo ratings from
a metric's outcomes with those from people's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    make_report,
    score_columns,
)
from posh_reward.study.agreement.compare import Figure, Judgments, SimpleMeasure, on_rows
from posh_reward.study.agreement.judgment_files import (
    check_columns,
    image_in,
    text_in,
    verdict_outcome,
)
from posh_reward.study.agreement.measures import kendall, spearman
from posh_reward.study.agreement.metric_scores import CandidateText, ScoreColumn
from posh_reward.study.agreement.preferences import (
    Procedure,
    accuracy,
    predicted_outcomes,
    score_differences,
)
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

K, SCALE, BASE, START = 4.0, 400.0, 10.0, 1000.0  # CapArena's Elo parameters
DRAWS, SEED = 1000, 42
NONE = -1  # padding in an order of battles

HUMAN = "human"
TIES = ("skip", "bad", "equal")
AXIS = "overall"
COLUMNS = ("img", "ref", "source1", "source2", "caption1", "caption2", "winner", "cluster")
"""Columns of ``caparena_annots_eval.json``."""


def battle_orders(battles: int, draws: int = DRAWS, seed: int = SEED) -> Ints:
    """(draws, battles) indices of battles, drawn with replacement exactly as in CapArena."""
    # Same as CapArena's ``pandas.DataFrame.sample`` after ``numpy.random.seed(42)``: NumPy keeps
    # this generator frozen, so our ratings equal theirs.
    generator = np.random.RandomState(seed)
    return np.array([generator.choice(battles, battles, replace=True) for _ in range(draws)])


def elo_ratings(first: Ints, second: Ints, outcome: Floats, orders: Ints, models: int) -> Floats:
    """(orders, models) ratings after the battles in each order.

    Args:
        first: (battles,) index of the first model of each battle.
        second: (battles,) index of the second model.
        outcome: 1 if the first won, -1 if the second, 0 for a tie; (battles,), or
            (orders, battles) if each order has its own outcomes.
        orders: (orders, places) indices of battles; shorter rows are padded with ``NONE``.
        models: number of models.
    """
    ratings = np.full((len(orders), models), START)
    rows = np.arange(len(orders))
    outcome = np.broadcast_to(outcome, (len(orders), outcome.shape[-1]))
    # A battle's gain depends on earlier battles, so they are processed one by one, but for all
    # orders at once: a thousand draws take about a second.
    for battle in orders.T:
        a, b = first[battle], second[battle]  # (orders,)
        chance = 1 / (1 + BASE ** ((ratings[rows, b] - ratings[rows, a]) / SCALE))
        gain = K * ((outcome[rows, battle] + 1) / 2 - chance) * (battle != NONE)
        ratings[rows, a] += gain
        ratings[rows, b] -= gain
    return ratings


def median_ratings(
    first: Ints, second: Ints, outcome: Floats, models: int, procedure: Procedure = "authors"
) -> Floats:
    """(models,) median rating over ``DRAWS`` draws of the battles."""
    # Elo depends on the order of the battles, which is arbitrary here: hence many draws.
    orders = battle_orders(len(outcome))
    ratings = elo_ratings(first, second, outcome, orders, models)  # (draws, models)
    if procedure == "strict":
        return np.asarray(np.median(ratings, axis=0), dtype=np.float64)
    # CapArena's program takes the median over the draws in which a model fights at all, and rounds
    # it to whole points, so models may tie.
    fights = np.zeros(ratings.shape, dtype=bool)
    for side in (first, second):
        fights[np.arange(len(orders))[:, None], side[orders]] = True
    never = ~fights.any(axis=0)
    ratings[~fights] = nan
    ratings[:, never] = START
    return np.floor(np.nanmedian(ratings, axis=0) + 0.5)


@dataclass(frozen=True)
class Arena:
    """Battles; battle i has the texts 2 i and 2 i + 1."""

    texts: Sequence[CandidateText]
    outcome: Floats  # (battles,) 1 if the first caption won, -1 if the second, 0 for a tie
    first: Ints  # (battles,) index of the model that wrote the first caption
    second: Ints  # (battles,)
    models: Sequence[str]
    clusters: Sequence[str]  # (battles,)
    groups: Sequence[Hashable]  # (battles,)
    left_out: int  # pairs with a human's text
    procedure: Procedure = "authors"
    verdicts: ScoreColumn | None = None  # from the column ``judge``, if there is one

    @property
    def judgments(self) -> Judgments:
        """Judgments with one row per battle."""
        differences = partial(score_differences, procedure=self.procedure)
        return Judgments("CapArena", {AXIS: self.outcome}, self.groups, differences)

    def ratings(self, outcome: Floats, rows: Ints) -> Floats:
        """(models,) median Elo ratings from the battles ``rows``; ``outcome`` is (battles,)."""
        first, second = self.first[rows], self.second[rows]
        return median_ratings(first, second, outcome[rows], len(self.models), self.procedure)


def read_arena(
    rows: Sequence[Row], name: str, *, images: Path | None = None, procedure: Procedure = "authors"
) -> Arena:
    """Read CapArena's file; ``InputError`` for a missing column or an invalid cell."""
    check_columns(rows, {f"a column {column!r}": column for column in COLUMNS}, name)
    battles = [
        (place, row)
        for place, row in enumerate(rows, start=1)
        if HUMAN not in (row.get("source1"), row.get("source2"))
    ]
    if not battles:
        raise InputError(f"every pair of {name} has a text by {HUMAN!r}: add battles of two models")
    texts: list[CandidateText] = []
    sources: list[tuple[str, str]] = []
    outcome, clusters, groups = [], [], []
    for place, row in battles:
        where = f"{name}, row {place}"
        image_id, image = image_in(row, "img", images)
        references = (text_in(row, "ref", where),)
        for side in ("1", "2"):
            caption = text_in(row, f"caption{side}", where)
            texts.append(CandidateText(caption, references, image_id, image, row, side))
        sources.append((text_in(row, "source1", where), text_in(row, "source2", where)))
        outcome.append(_outcome(row, where))
        clusters.append(str(row.get("cluster")))
        groups.append(place if image_id is None else image_id)
    models = sorted({source for both in sources for source in both})
    first, second = (np.array([models.index(s[side]) for s in sources]) for side in (0, 1))
    return Arena(
        texts, np.array(outcome), first, second, models, clusters, groups,
        len(rows) - len(battles), procedure, verdict_column([row for _, row in battles]),
    )  # fmt: skip


def _outcome(row: Row, where: str) -> float:
    winner = row.get("winner")
    for name, outcome in ((row["source1"], 1.0), (row["source2"], -1.0)):
        if winner == name:
            return outcome
    if winner in TIES:
        return 0.0
    raise InputError(
        f"{where}: the winner {str(winner)[:40]!r} is neither {row['source1']!r} nor "
        f"{row['source2']!r}, nor one of {', '.join(TIES)}"
    )


def verdict_column(rows: Sequence[Row]) -> ScoreColumn | None:
    """Verdicts of the column ``judge`` as scores; None if there are none."""
    outcomes = np.array([verdict_outcome(row) for row in rows])
    if np.isnan(outcomes).all():
        return None
    # A verdict is an outcome, not a score: scores of (outcome, 0) make it the difference.
    scores = np.stack([outcomes, np.zeros(len(outcomes))], axis=1).ravel()  # of both texts
    unread = int(np.isnan(outcomes).sum())
    failures = {"the judge gave no verdict": unread} if unread else {}
    return ScoreColumn("judge's verdicts", {AXIS: scores}, failures, "column judge", verdicts=True)


def arena_figures(arena: Arena) -> list[Figure]:
    """Accuracy of descriptions, rank correlations of models, accuracy in each cluster."""
    rankings = Rankings(arena)
    clusters = np.array(arena.clusters)
    return [
        Figure(AXIS, "desc acc", on_rows(accuracy), percent=True),
        *(
            Figure(AXIS, f"model {name}", partial(rankings.agreement, correlation),
                   many=partial(rankings.agreements, correlation))
            for name, correlation in (("rho", spearman), ("tau", kendall))
        ),
        *(
            Figure(AXIS, f"acc in {name}", partial(_accuracy_within, clusters == name),
                   percent=True)
            for name in sorted(set(arena.clusters))
        ),
    ]  # fmt: skip


def _accuracy_within(
    inside: NDArray[np.bool_], scores: Floats, people: Floats, rows: Ints
) -> float:
    right = predicted_outcomes(scores[rows], people[rows]) == np.sign(people[rows])
    own = right[inside[rows]]
    return float(own.mean()) if len(own) else nan


@dataclass(frozen=True)
class Rankings:
    """Correlation of models' ratings from a metric's outcomes with those from people's."""

    arena: Arena
    cache: dict[bytes, tuple[Floats, Floats]] = field(default_factory=dict)

    def agreement(
        self, correlation: SimpleMeasure, scores: Floats, people: Floats, rows: Ints
    ) -> float:
        """Correlation of the models' median ratings."""
        key = scores.tobytes() + rows.tobytes()
        if key not in self.cache:  # rho and tau share the ratings, which take a second
            outcome = _outcomes(scores, people, rows)
            self.cache[key] = self.arena.ratings(outcome, rows), self.arena.ratings(people, rows)
        ours, gold = self.cache[key]
        met = self._met(rows)
        return correlation(ours[met], gold[met])

    def agreements(
        self, correlation: SimpleMeasure, scores: Floats, people: Floats, draws: Sequence[Ints]
    ) -> list[float]:
        """Correlation of the models' ratings after one pass through each resample."""
        # Medians over a thousand passes through each of a thousand resamples would take a quarter
        # of an hour. One pass is noisier: intervals are too wide rather than too narrow.
        if not draws:
            return []
        orders = np.full((len(draws), max(map(len, draws))), NONE)  # (draws, places)
        for order, rows in zip(orders, draws, strict=True):
            order[: len(rows)] = rows
        key = scores.tobytes() + orders.tobytes()
        if key not in self.cache:
            outcome = np.array([_outcomes(scores, people, rows) for rows in draws])
            first, second, models = self.arena.first, self.arena.second, len(self.arena.models)
            ours, gold = (elo_ratings(first, second, o, orders, models) for o in (outcome, people))
            self.cache[key] = ours, gold
        ours, gold = self.cache[key]
        mets = [self._met(rows) for rows in draws]
        return [correlation(a[m], b[m]) for a, b, m in zip(ours, gold, mets, strict=True)]

    def _met(self, rows: Ints) -> Ints:
        """Models in these battles; the others stay at 1000 and have no rank."""
        return np.unique(np.concatenate([self.arena.first[rows], self.arena.second[rows]]))


def _outcomes(scores: Floats, people: Floats, rows: Ints) -> Floats:
    """(battles,) a metric's outcomes on ``rows``; 0 elsewhere."""
    outcome = np.zeros(len(people))
    outcome[rows] = predicted_outcomes(scores[rows], people[rows])
    return outcome


def auto_scores(arena: Arena, outcome: Floats) -> dict[str, float]:
    """CapArena-Auto's leaderboard: model -> mean of (wins - losses) / 2 over its opponents.

    Rows name the opponent in ``ref_model``; ``outcome`` is as in ``Arena``.
    """
    sums: dict[str, dict[str, float]] = {}
    for place, won in enumerate(outcome):
        opponent = str(arena.texts[2 * place].row.get("ref_model"))
        first, second = arena.models[arena.first[place]], arena.models[arena.second[place]]
        model, gain = (second, -won) if first == opponent else (first, won)
        by_opponent = sums.setdefault(model, {})
        by_opponent[opponent] = by_opponent.get(opponent, 0.0) + float(gain) / 2
    return {model: fsum(each.values()) / len(each) for model, each in sums.items()}


def caparena_report(arena: Arena, settings: AgreementSettings) -> AgreementReport:
    """Accuracy of descriptions, overall and by cluster, and the ranking of models."""
    columns = score_columns(arena.texts, settings)
    if arena.verdicts is not None:
        columns.append(arena.verdicts)
    outcomes = {"people": (arena.outcome, np.arange(len(arena.outcome)))}
    for column in columns:
        if not column.missing:
            differences = arena.judgments.scores(column, AXIS)
            rows = np.flatnonzero(~np.isnan(differences))
            outcomes[column.name] = _outcomes(differences, arena.outcome, rows), rows
    medians = "medians as whole points" if arena.procedure == "authors" else "exact medians"
    notes = [
        f"{arena.left_out:,} pairs with a human's text are left out; skip, bad and equal are ties.",
        "Model rho and tau: rankings by median Elo (K 4, scale 400, base 10, start 1000) over "
        f"1,000 resamples of the battles, seed 42, {medians}. Their intervals, from one pass "
        "through the battles of each resample of images, are too wide rather than too narrow.",
    ]
    extra: dict[str, object] = {
        "ratings": {
            name: dict(zip(arena.models, arena.ratings(*each).tolist(), strict=True))
            for name, each in outcomes.items()
        }
    }
    if all("ref_model" in text.row for text in arena.texts):
        extra["caparena_auto"] = {
            name: auto_scores(arena, outcome) for name, (outcome, _) in outcomes.items()
        }
    title = f"CapArena: {len(arena.outcome):,} pairs, {len(arena.models)} models"
    figures = arena_figures(arena)
    return make_report(title, arena.judgments, columns, figures, settings, notes, extra=extra)
