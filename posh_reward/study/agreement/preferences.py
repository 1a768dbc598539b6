"""Pairs of texts that people compared: DOCENT's judgments (A.3.2), files like them, CapArena.

A metric's scores are hardly ever equal, while people do call texts equal. So a metric's smallest
differences count as ties, as many as people saw: with n ties by people and |differences| sorted,
the threshold is the one at index n, and differences from the threshold on are wins.

CapArena has battles of models' descriptions of web images (section 5; Table 6). Pairs with a
human's text are left out. Descriptions: accuracy, overall and per cluster, with one tie threshold
for all. Models: rank correlation of their Elo ratings from a metric's outcomes with those from
people's.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, spearmanr

from posh_reward.errors import InputError
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    Figure,
    Judgments,
    Sample,
    SimpleMeasure,
    make_report,
    on_rows,
    score_columns,
    unrated_note,
)
from posh_reward.study.agreement.judgment_files import check_columns, image_in, text_in, texts_in
from posh_reward.study.agreement.metric_scores import ScoreColumn, TextPair
from posh_reward.tables.statistics import Floats, Ints, compute_p_value, kendall, spearman
from posh_reward.tables.tables import AXIS_SCORES, Row, parse_number
from posh_reward.types import is_missing

LABEL_SCORES = {
    "1_much_better": 2.0,
    "1_slightly_better": 1.0,
    "equal": 0.0,
    "2_slightly_better": -1.0,
    "2_much_better": -2.0,
}
"""DOCENT's labels -> s, positive if the first text is better (paper, A.3.2)."""
DIFFERENCE_DECIMALS = 12  # 0.9 - 0.8 and 0.8 - 0.7 differ in binary, but must tie
TINY_DIFFERENCE = float(np.finfo(np.float64).tiny)
STRICT_NOTE = "Equal scores are a tie under any threshold."
AUTHORS_NOTE = (
    "Equal scores are a win for the first text where the threshold is 0, as in the authors' "
    "program."
)


def read_label(label: object, where: str = "") -> float:
    """The number from -2 to 2 of a label: one of ``LABEL_SCORES`` in any spacing, or a number."""
    if isinstance(label, str):
        plain = re.sub(r"[\W_]+", "_", label.lower()).strip("_")
        if plain in LABEL_SCORES:
            return LABEL_SCORES[plain]
    try:
        number = parse_number(str(label))
    except ValueError:
        number = nan
    if not -2 <= number <= 2:
        known = ", ".join(LABEL_SCORES)
        raise InputError(
            f"{where}the label {str(label)[:40]!r} is unknown: use one of {known}, or "
            "a number from -2 (the second text is much better) to 2"
        )
    return number


def tie_threshold(differences: Floats, ties: int) -> float:
    """Smallest |difference| that is a win, so that ``ties`` are ties; infinite if all are."""
    # Without ties a metric could not get people's ties right; a free threshold could be tuned.
    magnitudes = np.sort(np.abs(differences))
    if ties >= len(magnitudes):
        return inf
    return float(magnitudes[ties])


def predicted_outcomes(differences: Floats, people: Floats) -> Floats:
    """A metric's outcomes, 1 and -1 for wins and 0 for ties, with as many ties as people saw.

    ``people`` is positive where people preferred the first text, 0 for ties.
    """
    threshold = tie_threshold(differences, int((people == 0).sum()))
    # Equal scores have no winner, even under a threshold of 0: the sign of 0 is 0.
    outcomes: Floats = np.sign(differences) * (np.abs(differences) >= threshold)
    return outcomes


def outcome_accuracy(differences: Floats, people: Floats) -> float:
    """Share of pairs where a metric's outcome is people's, 0 to 1; nan without pairs."""
    if not len(people):
        return nan
    return float(np.mean(predicted_outcomes(differences, people) == np.sign(people)))


def score_differences(column: ScoreColumn, axis: str, authors: bool = False) -> Floats:
    """(pairs,) a metric's score of the first text minus its score of the second.

    ``authors``: as in the authors' programs, equal scores are a win for the first text where the
    tie threshold is 0.
    """
    scores = column.scores[axis]
    apart: Floats = scores[::2] - scores[1::2]
    if not authors:
        return np.round(apart, DIFFERENCE_DECIMALS)
    # Replacing 0 by a tiny difference does just that and keeps the order: it is smaller than any
    # other difference, a win if it is the threshold, and a tie under a larger one.
    return np.where(apart == 0, TINY_DIFFERENCE, apart)


@dataclass(frozen=True)
class PairColumns:
    """Column names of a table of pairs; by default DOCENT's."""

    generation1: str = "model1_generation"
    generation2: str = "model2_generation"
    reference: str = "reference"
    image: str = "uuid"  # groups rows for resampling; without this column each row is a group
    # Axis -> column of labels. Empty: the first text is better in every row, on every axis.
    labels: Mapping[str, str] = field(
        default_factory=lambda: dict(zip(AXIS_SCORES, ("mistakes", "omissions", "overall_quality"),
                                         strict=True))
    )  # fmt: skip


@dataclass(frozen=True)
class Preferences:
    """People's preferences between two texts; pair i has the texts 2 i and 2 i + 1."""

    name: str
    texts: Sequence[TextPair]
    # Axis -> (pairs,) -2 to 2, positive if the first text is better; nan without a label.
    people: Mapping[str, Floats]
    groups: Sequence[Hashable]
    authors: bool = False

    @property
    def judgments(self) -> Judgments:
        differences = partial(score_differences, authors=self.authors)
        return Judgments(self.name, self.people, self.groups, differences)


def read_preferences(
    rows: Sequence[Row], columns: PairColumns, name: str, *, images: Path | None = None
) -> Preferences:
    docent = columns == PairColumns()
    flags = {"--generation1": columns.generation1, "--generation2": columns.generation2}
    flags["--reference"] = columns.reference
    flags |= {f"--label {axis}=": column for axis, column in columns.labels.items()}
    if docent:  # the command for DOCENT has no flags for columns
        flags = {f"a column {column!r}": column for column in flags.values()}
    check_columns(rows, flags, name)
    texts: list[TextPair] = []
    groups: list[Hashable] = []
    people: dict[str, list[float]] = {axis: [] for axis in columns.labels or AXIS_SCORES}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        both = _read_two_texts(row, columns, where, images)
        texts += both
        groups.append(place if both[0].image_id is None else both[0].image_id)
        for axis, values in people.items():
            values.append(_read_label_cell(row, columns.labels.get(axis), where))
    arrays = {axis: np.array(values) for axis, values in people.items()}
    return Preferences(name, texts, arrays, groups, authors=docent)


def _read_two_texts(
    row: Row, columns: PairColumns, where: str, images: Path | None
) -> tuple[TextPair, TextPair]:
    image_id, image = image_in(row, columns.image, images)
    references = texts_in(row, columns.reference, where)
    first = text_in(row, columns.generation1, where)
    second = text_in(row, columns.generation2, where)
    return (
        TextPair(first, references, image_id, image, row, "1"),
        TextPair(second, references, image_id, image, row, "2"),
    )


def _read_label_cell(row: Row, column: str | None, where: str) -> float:
    if column is None:
        return 1.0
    if is_missing(row.get(column)) or row[column] == "":
        return nan
    return read_label(row[column], f"{where}, {column}: ")


def preference_figures(axes: Sequence[str]) -> list[Figure]:
    """The paper's figures for each axis: accuracy over better, tie and worse; rho and tau."""
    figures = []
    for axis in axes:
        figures += [
            Figure(axis, "acc", on_rows(outcome_accuracy), percent=True),
            Figure(axis, "rho", on_rows(spearman), partial(compute_p_value, spearmanr)),
            Figure(axis, "tau", on_rows(kendall), partial(compute_p_value, kendalltau)),
        ]
    return figures


def preferences_report(preferences: Preferences, settings: AgreementSettings) -> AgreementReport:
    people = preferences.people
    ties = ", ".join(f"{axis} {int((labels == 0).sum())}" for axis, labels in people.items())
    notes = [
        f"Ties in people's labels: {ties}. A metric's smallest differences count as ties, as many "
        "as people saw; rho and tau compare the difference of its scores with the label. "
        + (AUTHORS_NOTE if preferences.authors else STRICT_NOTE),
        *unrated_note(people, "label"),
    ]
    size = f"{len(preferences.groups):,} pairs of {len(set(preferences.groups)):,} images"
    return make_report(
        f"{preferences.name}: {size}",
        preferences.judgments,
        score_columns(preferences.texts, settings),
        preference_figures(list(people)),
        settings,
        notes,
    )


# CapArena's Elo parameters: who is ``ELO_SCALE`` points above another wins ``ELO_BASE`` times as
# often as the other, and a battle moves a rating by at most ``ELO_K`` points.
ELO_K = 4.0
ELO_SCALE = 400.0
ELO_BASE = 10.0
ELO_START = 1000.0
ELO_DRAWS = 1000  # orders of the battles
ELO_SEED = 42
NO_BATTLE = -1  # padding in an order of battles

HUMAN_SOURCE = "human"
TIE_WINNERS = ("skip", "bad", "equal")
ARENA_AXIS = "overall"
ARENA_FILE_COLUMNS = (
    "img", "ref", "source1", "source2", "caption1", "caption2", "winner", "cluster",
)  # fmt: skip
"""Columns of ``caparena_annots_eval.json``."""
ARENA_PAIR_COLUMNS = PairColumns("caption1", "caption2", "ref", "img")


def battle_orders(battles: int, draws: int = ELO_DRAWS, seed: int = ELO_SEED) -> Ints:
    """(draws, battles) indices of battles, drawn with replacement exactly as in CapArena."""
    # Same as CapArena's ``pandas.DataFrame.sample`` after ``numpy.random.seed(42)``: NumPy keeps
    # this generator frozen, so our ratings equal theirs.
    generator = np.random.RandomState(seed)
    return np.array([generator.choice(battles, battles, replace=True) for _ in range(draws)])


def elo_ratings(first: Ints, second: Ints, outcome: Floats, orders: Ints, models: int) -> Floats:
    """(orders, models) ratings after the battles in each order.

    ``first`` and ``second`` (battles,) are models; ``outcome``, (battles,) or (orders, battles), is
    1 if the first won, -1 if the second. Shorter ``orders`` are padded with ``NO_BATTLE``.
    """
    ratings = np.full((len(orders), models), ELO_START)
    rows = np.arange(len(orders))
    outcome = np.broadcast_to(outcome, (len(orders), outcome.shape[-1]))
    # A battle's gain depends on earlier battles, so they are processed one by one, but for all
    # orders at once: a thousand draws take about a second.
    for battle in orders.T:
        a, b = first[battle], second[battle]  # (orders,)
        chance = 1 / (1 + ELO_BASE ** ((ratings[rows, b] - ratings[rows, a]) / ELO_SCALE))
        gain = ELO_K * ((outcome[rows, battle] + 1) / 2 - chance) * (battle != NO_BATTLE)
        ratings[rows, a] += gain
        ratings[rows, b] -= gain
    return ratings


def median_ratings(first: Ints, second: Ints, outcome: Floats, models: int) -> Floats:
    """(models,) median rating over ``ELO_DRAWS`` draws of the battles, in whole points."""
    # Elo depends on the order of the battles, which is arbitrary here: hence many draws.
    orders = battle_orders(len(outcome))
    ratings = elo_ratings(first, second, outcome, orders, models)  # (draws, models)
    # CapArena's program takes the median over the draws in which a model fights at all, and rounds
    # it to whole points, so models may tie.
    fights = np.zeros(ratings.shape, dtype=bool)
    for side in (first, second):
        fights[np.arange(len(orders))[:, None], side[orders]] = True
    never = ~fights.any(axis=0)
    ratings[~fights] = nan
    ratings[:, never] = ELO_START
    return np.floor(np.nanmedian(ratings, axis=0) + 0.5)


@dataclass(frozen=True)
class Arena:
    """Battles; battle i has the texts 2 i and 2 i + 1."""

    texts: Sequence[TextPair]
    outcome: Floats  # (battles,) 1 if the first caption won, -1 if the second, 0 for a tie
    first: Ints  # (battles,) index of the model that wrote the first caption
    second: Ints  # (battles,)
    models: Sequence[str]
    clusters: Sequence[str]  # (battles,)
    groups: Sequence[Hashable]  # (battles,)
    left_out: int  # pairs with a human's text

    @property
    def judgments(self) -> Judgments:
        differences = partial(score_differences, authors=True)
        return Judgments("CapArena", {ARENA_AXIS: self.outcome}, self.groups, differences)

    def rate_models(self, outcome: Floats, rows: Ints) -> Floats:
        """(models,) median Elo ratings from the battles ``rows``; ``outcome`` is (battles,)."""
        first, second = self.first[rows], self.second[rows]
        return median_ratings(first, second, outcome[rows], len(self.models))


def read_arena(rows: Sequence[Row], name: str, images: Path | None = None) -> Arena:
    """Read CapArena's file; ``InputError`` for a missing column or an invalid cell."""
    check_columns(rows, {f"a column {column!r}": column for column in ARENA_FILE_COLUMNS}, name)
    texts: list[TextPair] = []
    first_sources: list[str] = []
    second_sources: list[str] = []
    outcome, clusters, groups = [], [], []
    for place, row in enumerate(rows, start=1):
        if HUMAN_SOURCE in (row.get("source1"), row.get("source2")):
            continue
        where = f"{name}, row {place}"
        both = _read_two_texts(row, ARENA_PAIR_COLUMNS, where, images)
        texts += both
        first_sources.append(text_in(row, "source1", where))
        second_sources.append(text_in(row, "source2", where))
        outcome.append(_read_outcome(row, where))
        clusters.append(str(row.get("cluster")))
        groups.append(place if both[0].image_id is None else both[0].image_id)
    if not outcome:
        raise InputError(
            f"every pair of {name} has a text by {HUMAN_SOURCE!r}: add battles of two models"
        )
    models = sorted({*first_sources, *second_sources})
    return Arena(
        texts,
        np.array(outcome),
        np.array(list(map(models.index, first_sources))),
        np.array(list(map(models.index, second_sources))),
        models,
        clusters,
        groups,
        left_out=len(rows) - len(outcome),
    )


def _read_outcome(row: Row, where: str) -> float:
    winner = row.get("winner")
    for name, outcome in ((row["source1"], 1.0), (row["source2"], -1.0)):
        if winner == name:
            return outcome
    if winner in TIE_WINNERS:
        return 0.0
    raise InputError(
        f"{where}: the winner {str(winner)[:40]!r} is neither {row['source1']!r} nor "
        f"{row['source2']!r}, nor one of {', '.join(TIE_WINNERS)}"
    )


def arena_figures(arena: Arena) -> list[Figure]:
    rankings = Rankings(arena)
    clusters = np.array(arena.clusters)
    figures = [Figure(ARENA_AXIS, "desc acc", on_rows(outcome_accuracy), percent=True)]
    for name, correlation in (("rho", spearman), ("tau", kendall)):
        measure = partial(rankings.correlate_ratings, correlation)
        figures.append(Figure(ARENA_AXIS, f"model {name}", measure))
    for cluster in sorted(set(arena.clusters)):
        measure = partial(_accuracy_within, clusters == cluster)
        figures.append(Figure(ARENA_AXIS, f"acc in {cluster}", measure, percent=True))
    return figures


def _accuracy_within(inside: NDArray[np.bool_], all: Sample, draws: Sequence[Ints]) -> list[float]:
    _, scores, people = all
    shares = []
    for rows in draws:  # one threshold for all clusters
        right = predicted_outcomes(scores[rows], people[rows]) == np.sign(people[rows])
        own = right[inside[rows]]
        share = nan
        if len(own):
            share = float(own.mean())
        shares.append(share)
    return shares


@dataclass(frozen=True)
class Rankings:
    """Correlation of models' ratings from a metric's outcomes with those from people's."""

    arena: Arena
    cache: dict[bytes, list[tuple[Floats, Floats]]] = field(default_factory=dict)

    def correlate_ratings(
        self, correlation: SimpleMeasure, all: Sample, draws: Sequence[Ints]
    ) -> list[float]:
        """Correlate models' median ratings; in resamples, ratings after one pass through each."""
        _, scores, people = all
        orders = np.full((len(draws), max(map(len, draws))), NO_BATTLE)  # (draws, places)
        for order, rows in zip(orders, draws, strict=True):
            order[: len(rows)] = rows
        key = scores.tobytes() + orders.tobytes()
        if key not in self.cache:  # rho and tau share the ratings, which take a second
            self.cache[key] = self._rate_by_draw(scores, people, draws, orders)
        correlations = []
        for (ours, gold), rows in zip(self.cache[key], draws, strict=True):
            models = self._find_models(rows)
            correlations.append(correlation(ours[models], gold[models]))
        return correlations

    def _rate_by_draw(
        self, scores: Floats, people: Floats, draws: Sequence[Ints], orders: Ints
    ) -> list[tuple[Floats, Floats]]:
        """Models' ratings by the metric and by people, in each of the ``draws``."""
        whole, arena = draws[0], self.arena
        medians = (
            arena.rate_models(_predict_on_rows(scores, people, whole), whole),
            arena.rate_models(people, whole),
        )
        # Medians over a thousand passes through each of a thousand resamples would take a quarter
        # of an hour. One pass is noisier: intervals are rather too wide.
        outcome = np.array([_predict_on_rows(scores, people, rows) for rows in draws])
        by_metric = elo_ratings(arena.first, arena.second, outcome, orders, len(arena.models))
        by_people = elo_ratings(arena.first, arena.second, people, orders, len(arena.models))
        return [medians, *zip(by_metric[1:], by_people[1:], strict=True)]

    def _find_models(self, rows: Ints) -> Ints:
        """Models in these battles; the others stay at 1000 and have no rank."""
        return np.unique(np.concatenate([self.arena.first[rows], self.arena.second[rows]]))


def _predict_on_rows(scores: Floats, people: Floats, rows: Ints) -> Floats:
    """(battles,) a metric's outcomes on ``rows``; 0 elsewhere."""
    outcome = np.zeros(len(people))
    outcome[rows] = predicted_outcomes(scores[rows], people[rows])
    return outcome


def caparena_report(arena: Arena, settings: AgreementSettings) -> AgreementReport:
    columns = score_columns(arena.texts, settings)
    outcomes = {"people": (arena.outcome, np.arange(len(arena.outcome)))}
    for column in columns:
        if not column.missing:
            differences = arena.judgments.scores(column, ARENA_AXIS)
            rows = np.flatnonzero(~np.isnan(differences))
            outcomes[column.name] = _predict_on_rows(differences, arena.outcome, rows), rows
    notes = [
        f"{arena.left_out:,} pairs with a human's text are left out; skip, bad and equal are ties.",
        "Model rho and tau: rankings by median Elo (K 4, scale 400, base 10, start 1000) over "
        "1,000 resamples of the battles, seed 42, in whole points. Their intervals, from one pass "
        "through the battles of each resample of images, are too wide rather than too narrow.",
    ]
    ratings = {}
    for name, (outcome, rows) in outcomes.items():
        by_model = arena.rate_models(outcome, rows).tolist()
        ratings[name] = dict(zip(arena.models, by_model, strict=True))
    title = f"CapArena: {len(arena.outcome):,} pairs, {len(arena.models)} models"
    figures = arena_figures(arena)
    return make_report(
        title, arena.judgments, columns, figures, settings, notes, extra={"ratings": ratings}
    )
