"""MMHE: texts of four tasks that people rated on five criteria, and chose the best of three from.

Ohi et al., "HarmonicEval", section 3. The files themselves could not be had where this was written,
so the names of the columns are assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import nan
from pathlib import Path
from typing import Literal

import numpy as np

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
from posh_reward.study.agreement.compare import Figure, Judgments
from posh_reward.study.agreement.correlation import kendall
from posh_reward.study.agreement.judgment_files import as_list, check_columns, image_in, text_in
from posh_reward.study.agreement.measures import HarmonicMeasure, criteria_column
from posh_reward.study.agreement.metric_scores import COMBINE, CandidateText, ScoreColumn
from posh_reward.study.agreement.preferences import DECIMALS
from posh_reward.study.agreement.ratings import Raters, mean_or_each, numbers_in
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

TASK: dict[str, Task] = {"REG": "reg", "VQA": "vqa", "VDU": "vdu", "IC": "captioning"}
"""The paper's name of a task -> HarmonicEval's."""
MEAN = "Avg."  # the mean over the tasks, as in the paper's Table 2
NOBODY = -1  # instead of a second text, in rows that rate one
FOLDER = "harmonic"  # of the tables of HarmonicEval's paper
TABLES = (2, 3, 4, 5, 6, 7, 8)
"""2, 4, 5, 6: accuracies. 3, 7: tau on each criterion. 8: captions of Flickr8k."""

BestPairs = Literal["each", "majority", "unanimous"]
"""Pairs of the best text and another, for accuracies. each: of every person's choice, up to six a
page of three people. majority, unanimous: of one choice a page, by most of the people or by all, up
to two. The paper has "pairs of judgments from best-of-three triplets" (D.3): its Tables 2 and 4-6
follow from 108 pairs in REG and 68 in VQA, of 600 at most, if decimals are cut."""


@dataclass(frozen=True)
class MmheColumns:
    """Names of the columns of a table of judgments; each row has one text."""

    task: str = "task"  # REG, VQA, VDU or IC
    candidate: str = "candidate"
    # A text or a list of texts, for metrics that need them; may be missing.
    references: str = "references"
    # A path or an image. Texts of one image, task and question were on one page.
    image: str = "image"
    question: str = "question"  # in the tasks VQA and VDU
    # The choice of the best text on a page: true or false, a number of votes, or a list with one of
    # these for each person.
    best: str = "best"
    # Criterion -> column of its ratings: a number, or a list with one for each person.
    criteria: Mapping[str, str] = field(default_factory=lambda: {name: name for name in CRITERIA})
    raters: Raters = "each"
    pairs: BestPairs = "each"


@dataclass(frozen=True)
class MmheJudgments:
    """Judgments, row by row: ratings of one text, or the better and the worse of two."""

    name: str
    texts: Sequence[CandidateText]
    tasks: Sequence[str]  # (texts,) keys of ``TASK``
    questions: Sequence[str | None]  # (texts,)
    texts_of: Ints  # (rows, 2) the texts: a rated one and ``NOBODY``, or the better and the worse
    # Criterion -> (rows,) ratings, and ``overall`` -> (rows,) 1 for each pair; nan elsewhere.
    people: Mapping[str, Floats]

    @property
    def judgments(self) -> Judgments:
        """The judgments as rows of figures, grouped by task and image."""
        keys: list[Hashable] = [
            (task, place if text.image_id is None else text.image_id)
            for place, (task, text) in enumerate(zip(self.tasks, self.texts, strict=True))
        ]
        groups = [keys[first] for first, _ in self.texts_of]
        return Judgments(self.name, self.people, groups, self._scores)

    def _scores(self, column: ScoreColumn, axis: str) -> Floats:
        """A metric's number of each row; one that has no criteria gives its overall score."""
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
    ratings: Mapping[str, list[float]]  # criterion -> one number for each person
    votes: list[float]  # for each person how much it was preferred

    @property
    def raters(self) -> int:
        return max(map(len, self.ratings.values()), default=0)

    def rating(self, criterion: str, person: int) -> float:
        values = self.ratings[criterion]
        return values[person] if person < len(values) else nan


def read_mmhe(
    rows: Sequence[Row], columns: MmheColumns, name: str, images: Path | None = None
) -> MmheJudgments:
    """The judgments of a table; paths of images are relative to the folder ``images``.

    Raises:
        InputError: a column is missing, a cell cannot be used (the message has the row), or there
            is no pair of which one text was preferred.
    """
    flags = {"--task": columns.task, "--candidate": columns.candidate, "--best": columns.best}
    flags |= {f"--criterion {axis}=": column for axis, column in columns.criteria.items()}
    check_columns(rows, flags, name)
    table = [_row(r, columns, f"{name}, row {n}", images) for n, r in enumerate(rows, start=1)]
    ratings = [(place, person) for place, row in enumerate(table) for person in range(row.raters)]
    pairs = _pairs(table, columns.pairs)
    if not pairs:
        raise InputError(
            f"{name} has no two texts on one page of which one was preferred: name the column of "
            "images, which tells what was on one page, with --image"
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
    """Every two texts of a page of which one was preferred: by each person, or by most or all."""
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
        # A page with three people and one choice each has up to six pairs: two for each person.
        for one, other in zip(rows[better].votes, rows[worse].votes, strict=False)
        if one > other  # nor is nan
    ]


def _choice(rows: Sequence[_MmheRow], page: Sequence[int], pairs: BestPairs) -> list[int]:
    """The text of a page that most people, or all, chose as the best; none without agreement."""
    votes = {place: float(np.nansum(rows[place].votes)) for place in page}
    least = sum(votes.values()) * (1 if pairs == "unanimous" else 0.5)
    return [
        place
        for place, each in votes.items()
        if each > 0 and (each == least if pairs == "unanimous" else each > least)
    ]


def mmhe_figures(mmhe: MmheJudgments) -> list[Figure]:
    """Accuracy on pairs of each task and their mean; tau_b on each criterion of each task."""
    present = [task for task in TASK if task in mmhe.tasks]
    rows = {t: np.array([mmhe.tasks[first] == t for first, _ in mmhe.texts_of]) for t in present}
    figures = [Figure("overall", t, _of_task(rows[t], order_share), percent=True) for t in present]
    if len(present) == len(TASK):
        figures.append(Figure("overall", MEAN, _mean_over(list(rows.values())), percent=True))
    return figures + [
        Figure(axis, task, _of_task(rows[task], kendall), percent=True)
        for axis in mmhe.people
        if axis != "overall"
        for task in present
    ]


def order_share(apart: Floats, people: Floats) -> float:
    """Share of pairs whose better text has the higher score; a tie is wrong. nan without."""
    return float(np.mean(apart > 0)) if len(apart) else nan


def _of_task(
    task: Ints, measure: Callable[[Floats, Floats], float]
) -> Callable[[Floats, Floats, Ints], float]:
    def figure(scores: Floats, people: Floats, rows: Ints) -> float:
        own = rows[task[rows]]
        return measure(scores[own], people[own])

    return figure


def _mean_over(tasks: Sequence[Ints]) -> Callable[[Floats, Floats, Ints], float]:
    figures = [_of_task(task, order_share) for task in tasks]

    def mean(scores: Floats, people: Floats, rows: Ints) -> float:
        return float(np.mean([figure(scores, people, rows) for figure in figures]))

    return mean


def mmhe_report(
    mmhe: MmheJudgments, settings: AgreementSettings, tables: Sequence[int] = (2, 3)
) -> AgreementReport:
    """Accuracy on pairs for each task, and Kendall's tau on each criterion.

    HarmonicEval is measured on each criterion by its own score of it, the others by their overall
    score, as in the paper, of which ``tables`` are printed with our figures.
    """
    alone = mmhe.texts_of[:, 1] == NOBODY
    notes = [
        "overall: of two texts of which people chose one as the best of three, how often it has "
        "the higher score; ties are wrong. The criteria: 100 tau_b. The count of rows is that of "
        "all tasks. The paper's accuracies follow from 108 pairs in REG and 68 in VQA; a page of "
        "three people has up to six pairs, or up to two with --pairs majority or unanimous.",
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
    """The lines of some of ``TABLES``; those of one name are one line."""
    lines: dict[str, PaperLine] = {}
    for table in tables:
        for line in paper_table(table, FOLDER):
            earlier = lines.get(line.name, line)
            lines[line.name] = replace(line, figures={**earlier.figures, **line.figures})
    return list(lines.values())


def _columns(mmhe: MmheJudgments, settings: AgreementSettings) -> list[ScoreColumn]:
    """Each metric's scores, in the order of the settings."""
    usual = [each for each in settings.measures if not isinstance(each, HarmonicMeasure)]
    columns = score_columns(mmhe.texts, replace(settings, measures=usual))
    for place, each in enumerate(settings.measures):
        if isinstance(each, HarmonicMeasure):
            scores = harmonic_scores(mmhe, each.harmonic)
            columns.insert(place, criteria_column(scores, each.signature))
    return columns


def harmonic_scores(mmhe: MmheJudgments, harmonic: HarmonicEval) -> list[HarmonicScores]:
    """HarmonicEval of every text, each task by its own prompts."""
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
