"""Pairs of texts that people compared: DOCENT's coarse judgments, and files like them (A.3.2).

A metric's scores are hardly ever equal, while people do call texts equal. So a metric's smallest
differences count as ties, as many as people saw: with n ties by people and |differences| sorted,
the threshold is the one at index n, and differences from the threshold on are wins.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Literal

import numpy as np

from posh_reward.errors import InputError
from posh_reward.graph.reader import is_missing
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    make_report,
    score_columns,
    unrated_note,
)
from posh_reward.study.agreement.compare import Figure, Judgments, on_rows
from posh_reward.study.agreement.judgment_files import check_columns, image_in, text_in
from posh_reward.study.agreement.measures import kendall, kendall_p, spearman, spearman_p
from posh_reward.study.agreement.metric_scores import CandidateText, ScoreColumn
from posh_reward.study.rows.scored_rows import JUDGED
from posh_reward.study.rows.tables import Row, cell_number
from posh_reward.study.statistics import Floats

LABELS = {
    "1_much_better": 2.0,
    "1_slightly_better": 1.0,
    "equal": 0.0,
    "2_slightly_better": -1.0,
    "2_much_better": -2.0,
}
"""DOCENT's labels -> s, positive if the first text is better (paper, A.3.2)."""
Procedure = Literal["authors", "strict"]
"""``authors``: equal scores are a win for the first text where the threshold is 0, and median Elo
ratings are rounded, as in the authors' programs. ``strict``: equal scores are always a tie."""
DECIMALS = 12  # of differences: 0.9 - 0.8 and 0.8 - 0.7 differ in binary, but must tie
TINY = float(np.finfo(np.float64).tiny)
STRICT_NOTE = "Equal scores are a tie under any threshold."
AUTHORS_NOTE = (
    "Equal scores are a win for the first text where the threshold is 0, as in the authors' "
    "program; --procedure strict makes them ties."
)


def label_score(label: object, where: str = "") -> float:
    """Convert a label, one of ``LABELS`` in any spacing or a number from -2 to 2, to a number.

    Raises:
        InputError: it is neither; the message begins with ``where``.
    """
    if isinstance(label, str):
        plain = re.sub(r"[\W_]+", "_", label.lower()).strip("_")
        if plain in LABELS:
            return LABELS[plain]
    try:
        number = cell_number(str(label))
    except ValueError:
        number = nan
    if not -2 <= number <= 2:
        raise InputError(
            f"{where}the label {str(label)[:40]!r} is unknown: use one of {', '.join(LABELS)}, or "
            "a number from -2 (the second text is much better) to 2"
        )
    return number


def tie_threshold(differences: Floats, ties: int) -> float:
    """Smallest |difference| that is a win, so that ``ties`` are ties; infinite if all are."""
    # Without ties a metric could not get people's ties right; a free threshold could be tuned.
    magnitudes = np.sort(np.abs(differences))
    return float(magnitudes[ties]) if ties < len(magnitudes) else inf


def predicted_outcomes(differences: Floats, people: Floats) -> Floats:
    """A metric's outcomes, 1 and -1 for wins and 0 for ties, with as many ties as people saw.

    ``people`` is positive where people preferred the first text, 0 for ties.
    """
    threshold = tie_threshold(differences, int((people == 0).sum()))
    # Equal scores have no winner, even under a threshold of 0: the sign of 0 is 0.
    outcomes: Floats = np.sign(differences) * (np.abs(differences) >= threshold)
    return outcomes


def accuracy(differences: Floats, people: Floats) -> float:
    """Share of pairs where a metric's outcome is people's, 0 to 1; nan without pairs."""
    if not len(people):
        return nan
    return float(np.mean(predicted_outcomes(differences, people) == np.sign(people)))


def score_differences(column: ScoreColumn, axis: str, procedure: Procedure = "strict") -> Floats:
    """(pairs,) a metric's score of the first text minus its score of the second."""
    # In the authors' programs a difference of 0 is a win for the first text if the tie threshold
    # is 0, too. Replacing 0 by TINY does just that and keeps the order: TINY is smaller than any
    # other difference, a win if it is the threshold, and a tie under a larger one.
    scores = column.scores[axis]
    apart: Floats = scores[::2] - scores[1::2]
    if procedure == "strict" or column.verdicts:
        return np.round(apart, DECIMALS)
    return np.where(apart == 0, TINY, apart)


@dataclass(frozen=True)
class PairColumns:
    """Column names of a table of pairs; by default DOCENT's."""

    generation1: str = "model1_generation"
    generation2: str = "model2_generation"
    reference: str = "reference"
    image: str = "uuid"  # groups rows for resampling; without this column each row is a group
    # Axis -> column of labels. Empty: the first text is better in every row, on every axis.
    labels: Mapping[str, str] = field(
        default_factory=lambda: dict(zip(JUDGED, ("mistakes", "omissions", "overall_quality"),
                                         strict=True))
    )  # fmt: skip


@dataclass(frozen=True)
class Preferences:
    """People's preferences between two texts; pair i has the texts 2 i and 2 i + 1."""

    name: str
    texts: Sequence[CandidateText]
    # Axis -> (pairs,) -2 to 2, positive if the first text is better; nan without a label.
    people: Mapping[str, Floats]
    groups: Sequence[Hashable]
    procedure: Procedure = "strict"

    @property
    def judgments(self) -> Judgments:
        """Judgments with one row per pair."""
        differences = partial(score_differences, procedure=self.procedure)
        return Judgments(self.name, self.people, self.groups, differences)


def read_preferences(
    rows: Sequence[Row],
    columns: PairColumns,
    name: str,
    *,
    images: Path | None = None,
    procedure: Procedure = "strict",
) -> Preferences:
    """Read a table of pairs.

    Raises:
        InputError: a column is missing, a cell is not a text, or a label is unknown.
    """
    flags = {"--generation1": columns.generation1, "--generation2": columns.generation2}
    flags["--reference"] = columns.reference
    flags |= {f"--label {axis}=": column for axis, column in columns.labels.items()}
    if columns == PairColumns():  # the command for DOCENT has no flags for columns
        flags = {f"a column {column!r}": column for column in flags.values()}
    check_columns(rows, flags, name)
    texts: list[CandidateText] = []
    groups: list[Hashable] = []
    people: dict[str, list[float]] = {axis: [] for axis in columns.labels or JUDGED}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        image_id, image = image_in(row, columns.image, images)
        references = (text_in(row, columns.reference, where),)
        for side, column in (("1", columns.generation1), ("2", columns.generation2)):
            text = text_in(row, column, where)
            texts.append(CandidateText(text, references, image_id, image, row, side))
        groups.append(place if image_id is None else image_id)
        for axis, values in people.items():
            values.append(_label(row, columns.labels.get(axis), where))
    arrays = {axis: np.array(values) for axis, values in people.items()}
    # If the first text is always the better one, the authors' rule would reward equal scores.
    always_first = not any((values < 0).any() for values in arrays.values())
    return Preferences(name, texts, arrays, groups, "strict" if always_first else procedure)


def _label(row: Row, column: str | None, where: str) -> float:
    if column is None:
        return 1.0
    if is_missing(row.get(column)) or row[column] == "":
        return nan
    return label_score(row[column], f"{where}, {column}: ")


def preference_figures(axes: Sequence[str]) -> list[Figure]:
    """The paper's figures for each axis: accuracy over better, tie and worse; rho and tau."""
    return [
        figure
        for axis in axes
        for figure in (
            Figure(axis, "acc", on_rows(accuracy), percent=True),
            Figure(axis, "rho", on_rows(spearman), spearman_p),
            Figure(axis, "tau", on_rows(kendall), kendall_p),
        )
    ]


def preferences_report(preferences: Preferences, settings: AgreementSettings) -> AgreementReport:
    """Accuracy, rho and tau of each metric on each axis."""
    people = preferences.people
    ties = ", ".join(f"{axis} {int((labels == 0).sum())}" for axis, labels in people.items())
    notes = [
        f"Ties in people's labels: {ties}. A metric's smallest differences count as ties, as many "
        "as people saw; rho and tau compare the difference of its scores with the label. "
        + (AUTHORS_NOTE if preferences.procedure == "authors" else STRICT_NOTE),
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
