"""MMHE: people's ratings of texts from four tasks on five criteria, and choices of best-of-three.

Ohi et al., "HarmonicEval", section 3. The files were not available when this was written, so the
column names are assumptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from math import nan
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.criteria import ANSWERS, CRITERIA, Task
from posh_reward.metrics.harmonic.harmonic_eval import HarmonicEval, HarmonicScores
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    PaperLine,
    make_report,
    paper_table,
    score_columns,
    unrated_note,
)
from posh_reward.study.agreement.compare import Figure, Judgments, SimpleMeasure
from posh_reward.study.agreement.correlation import kendall
from posh_reward.study.agreement.judgment_files import as_list, check_columns, image_in, text_in
from posh_reward.study.agreement.measures import HARMONIC, HarmonicMeasure
from posh_reward.study.agreement.metric_scores import COMBINE, CandidateText, ScoreColumn
from posh_reward.study.agreement.preferences import DECIMALS
from posh_reward.study.agreement.ratings import Raters, mean_or_each, numbers_in
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

TASK: dict[str, Task] = {"REG": "reg", "VQA": "vqa", "VDU": "vdu", "IC": "captioning"}
"""The paper's name of a task -> HarmonicEval's."""
MEAN = "Avg."  # mean over the tasks, as in the paper's Table 2
NOBODY = -1  # in place of a second text, in rows that rate one text
FOLDER = "harmonic"  # tables of HarmonicEval's paper
TABLES = (2, 3, 4, 5, 6, 7, 8)
"""2, 4, 5, 6: accuracies. 3, 7: tau on each criterion. 8: captions of Flickr8k."""

BestPairs = Literal["each", "majority", "unanimous"]
"""Pairs of a page's best text and another, for accuracies. each: for every person's choice (up to
six pairs for three people). majority, unanimous: for one choice per page, by most people or by all
(up to two pairs). The paper has "pairs of judgments from best-of-three triplets" (D.3): its Tables
2 and 4-6 imply 108 pairs in REG and 68 in VQA, out of at most 600, if decimals are truncated."""


@dataclass(frozen=True)
class MmheColumns:
    """Column names of a table of judgments; each row has one text."""

    task: str = "task"  # REG, VQA, VDU or IC
    candidate: str = "candidate"
    references: str = "references"  # a text or a list of texts; only some metrics need it
    image: str = "image"  # a path or an image; image, task and question identify a page
    question: str = "question"  # in the tasks VQA and VDU
    best: str = "best"  # chosen as best: a boolean or number of votes, or a list of them by person
    # Criterion -> column of its ratings: a number, or a list with one per person.
    criteria: Mapping[str, str] = field(default_factory=lambda: {name: name for name in CRITERIA})
    raters: Raters = "each"
    pairs: BestPairs = "each"


@dataclass(frozen=True)
class MmheJudgments:
    """Judgments, row by row: a rating of one text, or a better and a worse text."""

    name: str
    texts: Sequence[CandidateText]
    tasks: Sequence[str]  # (texts,) keys of ``TASK``
    questions: Sequence[str | None]  # (texts,)
    texts_of: Ints  # (rows, 2) indices: rated text and ``NOBODY``, or better and worse text
    # Criterion -> (rows,) ratings, and ``overall`` -> (rows,) 1 for each pair; nan elsewhere.
    people: Mapping[str, Floats]

    @property
    def judgments(self) -> Judgments:
        """Judgments grouped by task and image."""
        keys: list[Hashable] = [
            (task, place if text.image_id is None else text.image_id)
            for place, (task, text) in enumerate(zip(self.tasks, self.texts, strict=True))
        ]
        groups = [keys[first] for first, _ in self.texts_of]
        return Judgments(self.name, self.people, groups, self._scores)

    def _scores(self, column: ScoreColumn, axis: str) -> Floats:
        """(rows,) scores or differences; metrics without criteria use their overall score."""
        scores = column.scores.get(axis, column.scores["overall"])
        first, second = self.texts_of.T
        if axis != "overall":
            return np.where(second == NOBODY, scores[first], nan)
        apart = np.round(scores[first] - scores[second], DECIMALS)
        return np.where(second == NOBODY, nan, apart)


@dataclass(frozen=True)
class _MmheRow:
    text: CandidateText
    task: str
    question: str | None
    ratings: Mapping[str, list[float]]  # criterion -> one number per person
    votes: list[float]  # one per person; higher is preferred

    @property
    def raters(self) -> int:
        return max(map(len, self.ratings.values()), default=0)

    def rating(self, criterion: str, person: int) -> float:
        values = self.ratings[criterion]
        return values[person] if person < len(values) else nan


def read_mmhe(
    rows: Sequence[Row], columns: MmheColumns, name: str, images: Path | None = None
) -> MmheJudgments:
    """Read a table of judgments; image paths are relative to the folder ``images``.

    Raises:
        InputError: a column is missing, a cell is invalid, or there is no pair with a preference.
    """
    flags = {"--task": columns.task, "--candidate": columns.candidate, "--best": columns.best}
    flags |= {f"--criterion {axis}=": column for axis, column in columns.criteria.items()}
    check_columns(rows, flags, name)
    table = [_row(r, columns, f"{name}, row {n}", images) for n, r in enumerate(rows, start=1)]
    ratings = [(place, person) for place, row in enumerate(table) for person in range(row.raters)]
    pairs = _pairs(table, columns.pairs)
    if not pairs:
        raise InputError(
            f"{name} has no page with two texts, one of them preferred: name the column of "
            "images, which identifies pages, with --image"
            + ("" if columns.pairs == "each" else ", or use --pairs each")
        )
    people = {
        axis: np.array([table[at].rating(axis, n) for at, n in ratings] + [nan] * len(pairs))
        for axis in columns.criteria
    }
    people["overall"] = np.array([nan] * len(ratings) + [1.0] * len(pairs))
    return MmheJudgments(
        name,
        [row.text for row in table],
        [row.task for row in table],
        [row.question for row in table],
        np.array([(place, NOBODY) for place, _ in ratings] + pairs, dtype=np.int64).reshape(-1, 2),
        people,
    )


def _row(row: Row, columns: MmheColumns, where: str, images: Path | None) -> _MmheRow:
    task = text_in(row, columns.task, where).strip().upper()
    if task not in TASK:
        raise InputError(f"{where}: {columns.task} is {task[:40]!r}: use one of {', '.join(TASK)}")
    cell = row.get(columns.question)
    question = cell if isinstance(cell, str) and cell.strip() else None
    if TASK[task] in ANSWERS and question is None:
        raise InputError(
            f"{where}: task {task} needs a question in the column {columns.question!r}: name the "
            "right one with --question"
        )
    texts = as_list(row.get(columns.references))
    cells = [row.get(columns.references)] if texts is None else texts
    references = tuple(each for each in cells if isinstance(each, str)) or ("",)
    image_id, image = image_in(row, columns.image, images)
    candidate = text_in(row, columns.candidate, where)
    ratings = {
        axis: mean_or_each(numbers_in(row, column, where), columns.raters)
        for axis, column in columns.criteria.items()
    }
    text = CandidateText(candidate, references, image_id, image, row)
    return _MmheRow(text, task, question, ratings, numbers_in(row, columns.best, where))


def _pairs(rows: Sequence[_MmheRow], pairs: BestPairs) -> list[tuple[int, int]]:
    """(better, worse) texts of a page, by each person's choice or by one choice per page."""
    pages: dict[Hashable, list[int]] = {}
    for place, row in enumerate(rows):
        image = place if row.text.image_id is None else row.text.image_id
        pages.setdefault((row.task, image, row.question), []).append(place)
    if pairs != "each":
        return [
            (best, other)
            for page in pages.values()
            for best in _choice(rows, page, pairs)
            for other in page
            if other != best
        ]
    return [
        (better, worse)
        for page in pages.values()
        for better, worse in permutations(page, 2)
        # Three people with one choice each give up to six pairs, two per person.
        for one, other in zip(rows[better].votes, rows[worse].votes, strict=False)
        if one > other  # False for nan
    ]


def _choice(rows: Sequence[_MmheRow], page: Sequence[int], pairs: BestPairs) -> list[int]:
    """The page's best text by most people, or by all; empty without agreement."""
    votes = {place: float(np.nansum(rows[place].votes)) for place in page}
    least = sum(votes.values()) * (1 if pairs == "unanimous" else 0.5)
    return [
        place
        for place, each in votes.items()
        if each > 0 and (each == least if pairs == "unanimous" else each > least)
    ]


def mmhe_figures(mmhe: MmheJudgments) -> list[Figure]:
    """Accuracy on the pairs of each task, and the mean; tau_b on each criterion of each task."""
    present = [task for task in TASK if task in mmhe.tasks]
    in_task = {t: np.array([mmhe.tasks[first] == t for first, _ in mmhe.texts_of]) for t in present}
    accuracies = [
        Figure("overall", task, partial(_measure_within, in_task[task], order_share), percent=True)
        for task in present
    ]
    means = []
    if len(present) == len(TASK):

        def mean(scores: Floats, people: Floats, rows: Ints) -> float:
            return float(np.mean([each.measure(scores, people, rows) for each in accuracies]))

        means = [Figure("overall", MEAN, mean, percent=True)]
    correlations = [
        Figure(axis, task, partial(_measure_within, in_task[task], kendall), percent=True)
        for axis in mmhe.people
        if axis != "overall"
        for task in present
    ]
    return accuracies + means + correlations


def order_share(apart: Floats, people: Floats) -> float:
    """Share of pairs whose better text scores higher; ties are wrong. nan without pairs."""
    return float(np.mean(apart > 0)) if len(apart) else nan


def _measure_within(
    inside: NDArray[np.bool_], measure: SimpleMeasure, scores: Floats, people: Floats, rows: Ints
) -> float:
    own = rows[inside[rows]]
    return measure(scores[own], people[own])


def mmhe_report(
    mmhe: MmheJudgments, settings: AgreementSettings, tables: Sequence[int] = (2, 3)
) -> AgreementReport:
    """Accuracy on pairs for each task, and Kendall's tau on each criterion.

    On each criterion, HarmonicEval is measured by its score for that criterion, other metrics by
    their overall score, as in the paper. ``tables`` of the paper are printed below our figures.
    """
    alone = mmhe.texts_of[:, 1] == NOBODY
    notes = [
        "overall: how often the text that people chose as the best of three scores higher than "
        "another of the three; ties are wrong. Criteria: 100 tau_b. Rows are counted over all "
        "tasks. The paper's accuracies imply 108 pairs in REG and 68 in VQA; a page with three "
        "people has up to six pairs, or up to two with --pairs majority or unanimous.",
        *unrated_note({a: mmhe.people[a][alone] for a in CRITERIA if a in mmhe.people}, "rating"),
    ]
    if any(len(text.references) > 1 for text in mmhe.texts):
        notes.append(f"Several references: {COMBINE[settings.combine]}.")
    counts = ", ".join(f"{mmhe.tasks.count(task):,} {task}" for task in TASK if task in mmhe.tasks)
    return make_report(
        f"{mmhe.name}: {len(mmhe.texts):,} texts ({counts})",
        mmhe.judgments,
        _columns(mmhe, settings),
        mmhe_figures(mmhe),
        settings,
        notes,
        paper=harmonic_paper(tables),
        table=", ".join(map(str, tables)) or None,
    )


def harmonic_paper(tables: Sequence[int]) -> list[PaperLine]:
    """Read some of ``TABLES``; lines of the same name are merged."""
    lines: dict[str, PaperLine] = {}
    for table in tables:
        for line in paper_table(table, FOLDER):
            earlier = lines.get(line.name, line)
            lines[line.name] = replace(line, figures={**earlier.figures, **line.figures})
    return list(lines.values())


def _columns(mmhe: MmheJudgments, settings: AgreementSettings) -> list[ScoreColumn]:
    """Each metric's scores, in the order of the settings; HarmonicEval with all its criteria."""
    others = [each for each in settings.measures if not isinstance(each, HarmonicMeasure)]
    columns = score_columns(mmhe.texts, replace(settings, measures=others))
    for place, measure in enumerate(settings.measures):
        if isinstance(measure, HarmonicMeasure):
            scores = harmonic_scores(mmhe, measure.harmonic)
            names = dict.fromkeys(name for each in scores for name in each.means)
            axes = {"overall": [each.overall for each in scores]}
            axes |= {name: [each.means.get(name) for each in scores] for name in names}
            arrays = {axis: np.array(values, dtype=np.float64) for axis, values in axes.items()}
            failures = Counter(str(each.failure) for each in scores if each.failure is not None)
            columns.insert(place, ScoreColumn(HARMONIC, arrays, failures, measure.signature))
    return columns


def harmonic_scores(mmhe: MmheJudgments, harmonic: HarmonicEval) -> list[HarmonicScores]:
    """Score every text with HarmonicEval, using each task's own prompts."""
    scores: dict[int, HarmonicScores] = {}
    for task in dict.fromkeys(mmhe.tasks):
        own = [place for place, each in enumerate(mmhe.tasks) if each == task]
        questions = [mmhe.questions[place] for place in own] if TASK[task] in ANSWERS else None
        own_scores = harmonic.score(
            [mmhe.texts[place].generation for place in own],
            [mmhe.texts[place].image for place in own],
            TASK[task],
            questions=questions,
        )
        scores.update(zip(own, own_scores, strict=True))
    return [scores[place] for place in range(len(mmhe.texts))]
