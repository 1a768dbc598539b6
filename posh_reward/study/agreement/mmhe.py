"""MMHE: texts of four tasks that people rated on five criteria, and chose the best of three from.

Ohi et al., "HarmonicEval", section 3. The files themselves could not be had where this was written,
so the names of the columns are assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import nan
from pathlib import Path

import numpy as np

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.asking import ANSWERS, CRITERIA, Task
from posh_reward.metrics.harmonic.metric import HarmonicEval
from posh_reward.metrics.harmonic.scores import HarmonicScores
from posh_reward.study.agreement.compare import Figure, Sheet
from posh_reward.study.agreement.correlation import kendall
from posh_reward.study.agreement.items import Column, Item, number
from posh_reward.study.agreement.pairs import DECIMALS
from posh_reward.study.agreement.ratings import Raters
from posh_reward.study.agreement.sources import as_list, check_columns, image_of, text_of
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints

TASK: dict[str, Task] = {"REG": "reg", "VQA": "vqa", "VDU": "vdu", "IC": "captioning"}
"""What the paper and its tables call a task -> what HarmonicEval does."""
MEAN = "Avg."
"""The mean over the tasks, as in the paper's Table 2."""
IMAGE = "\0image"
"""Where an item's row has its image: not the name of any column."""
NOBODY = -1
"""Instead of a second text, in rows that rate one."""


@dataclass(frozen=True)
class MmheColumns:
    """What the columns of a table of judgments are called; each row has one text."""

    task: str = "task"
    """REG, VQA, VDU or IC."""
    candidate: str = "candidate"
    references: str = "references"
    """A text or a list of texts, for metrics that need them; may be missing."""
    image: str = "image"
    """A path or an image. Texts of one image, task and question were shown together."""
    question: str = "question"
    """In the tasks VQA and VDU."""
    best: str = "best"
    """Which text was chosen as the best of those shown together: true or false, a number of
    votes, or a list with one of these for each person."""
    criteria: Mapping[str, str] = field(default_factory=lambda: {name: name for name in CRITERIA})
    """Criterion -> column of its ratings: a number, or a list with one for each person."""
    raters: Raters = "each"


@dataclass(frozen=True)
class Mmhe:
    """Judgments, row by row: ratings of one text, or the better and the worse of two."""

    name: str
    items: Sequence[Item]
    tasks: Sequence[str]
    """(items,) keys of ``TASK``."""
    questions: Sequence[str | None]
    """(items,)"""
    of: Ints
    """(rows, 2) the items: a rated one and ``NOBODY``, or the better and the worse."""
    people: Mapping[str, Floats]
    """Criterion -> (rows,) ratings, and ``overall`` -> (rows,) 1 for each pair; nan elsewhere."""

    @property
    def groups(self) -> list[Hashable]:
        """(rows,) task and image of each."""
        keys: list[Hashable] = [
            (task, place if item.image is None else item.image)
            for place, (task, item) in enumerate(zip(self.tasks, self.items, strict=True))
        ]
        return [keys[first] for first, _ in self.of]

    @property
    def sheet(self) -> Sheet:
        """The judgments as rows of figures."""
        return Sheet(self.name, self.people, self.groups, self._scores)

    def rows_of(self, task: str) -> Ints:
        """(rows,) whether each is of a task."""
        return np.array([self.tasks[first] == task for first, _ in self.of])

    def _scores(self, column: Column, axis: str) -> Floats:
        """A metric's number of each row; one that has no criteria gives its overall score."""
        scores = column.scores.get(axis, column.scores["overall"])
        first, second = self.of.T
        if axis != "overall":
            return np.where(second == NOBODY, scores[first], nan)
        apart = np.round(scores[first] - scores[second], DECIMALS)
        return np.where(second == NOBODY, nan, apart)


@dataclass(frozen=True)
class _Text:
    """One row of the table."""

    item: Item
    task: str
    question: str | None
    ratings: Mapping[str, list[float]]
    """Criterion -> one number for each person."""
    votes: list[float]
    """How much each person chose it as the best."""


def judged(
    rows: Sequence[Row], columns: MmheColumns, name: str, images: Path | None = None
) -> Mmhe:
    """The judgments of a table.

    Args:
        rows: of the table.
        columns: what its columns are called.
        name: what messages call the table.
        images: folder that paths of images are relative to.

    Raises:
        InputError: a column is missing, or a cell cannot be used; the message has the row.
    """
    wanted = {"--task": columns.task, "--candidate": columns.candidate, "--best": columns.best}
    wanted |= {f"--criterion {axis}=": column for axis, column in columns.criteria.items()}
    check_columns(rows, wanted, name)
    texts = [_text(r, columns, f"{name}, row {n}", images) for n, r in enumerate(rows, start=1)]
    rated = [(place, n) for place, text in enumerate(texts) for n in range(_raters(text))]
    pairs = _pairs(texts)
    people = {
        axis: np.array([_at(texts[at].ratings[axis], n) for at, n in rated] + [nan] * len(pairs))
        for axis in columns.criteria
    }
    people["overall"] = np.array([nan] * len(rated) + [1.0] * len(pairs))
    return Mmhe(
        name,
        [text.item for text in texts],
        [text.task for text in texts],
        [text.question for text in texts],
        np.array([(place, NOBODY) for place, _ in rated] + pairs, dtype=np.int64).reshape(-1, 2),
        people,
    )


def mmhe_figures(mmhe: Mmhe) -> list[Figure]:
    """Accuracy on pairs of each task and their mean; tau_b on each criterion of each task."""
    there = [task for task in TASK if task in mmhe.tasks]
    rows = {task: mmhe.rows_of(task) for task in there}
    found = [Figure("overall", task, _of_task(rows[task], ordered), percent=True) for task in there]
    if len(there) == len(TASK):
        found.append(Figure("overall", MEAN, _mean_over(list(rows.values())), percent=True))
    return found + [
        Figure(axis, task, _of_task(rows[task], _tau), percent=True)
        for axis in mmhe.people
        if axis != "overall"
        for task in there
    ]


def ordered(apart: Floats, people: Floats) -> float:
    """Of pairs, how often the better text has the higher score; a tie is wrong. nan without."""
    return float(np.mean(apart > 0)) if len(apart) else nan


def _tau(scores: Floats, people: Floats) -> float:
    return kendall(scores, people)


def _of_task(
    task: Ints, measure: Callable[[Floats, Floats], float]
) -> Callable[[Floats, Floats, Ints], float]:
    def figure(scores: Floats, people: Floats, rows: Ints) -> float:
        own = rows[task[rows]]
        return measure(scores[own], people[own])

    return figure


def _mean_over(tasks: Sequence[Ints]) -> Callable[[Floats, Floats, Ints], float]:
    figures = [_of_task(task, ordered) for task in tasks]

    def mean(scores: Floats, people: Floats, rows: Ints) -> float:
        return float(np.mean([figure(scores, people, rows) for figure in figures]))

    return mean


def harmonic_scores(mmhe: Mmhe, harmonic: HarmonicEval) -> list[HarmonicScores]:
    """HarmonicEval of every text, each task in its own words."""
    found: dict[int, HarmonicScores] = {}
    for task in dict.fromkeys(mmhe.tasks):
        own = [place for place, each in enumerate(mmhe.tasks) if each == task]
        asked = [mmhe.questions[place] for place in own] if TASK[task] in ANSWERS else None
        scores = harmonic.score(
            [mmhe.items[place].generation for place in own],
            [mmhe.items[place].row[IMAGE] for place in own],
            TASK[task],
            questions=asked,
        )
        found.update(zip(own, scores, strict=True))
    return [found[place] for place in range(len(mmhe.items))]


def _text(row: Row, columns: MmheColumns, where: str, images: Path | None) -> _Text:
    task = text_of(row, columns.task, where).strip().upper()
    if task not in TASK:
        raise InputError(f"{where}: {columns.task} is {task[:40]!r}: use one of {', '.join(TASK)}")
    said = row.get(columns.question)
    question = said if isinstance(said, str) and said.strip() else None
    if TASK[task] in ANSWERS and question is None:
        raise InputError(
            f"{where}: task {task} needs a question in the column {columns.question!r}: name the "
            "right one with --question"
        )
    ratings = {
        axis: _ratings(_numbers(row, column, where), columns.raters)
        for axis, column in columns.criteria.items()
    }
    votes = _numbers(row, columns.best, where)
    return _Text(_item(row, columns, where, images), task, question, ratings, votes)


def _item(row: Row, columns: MmheColumns, where: str, images: Path | None) -> Item:
    listed = as_list(row.get(columns.references))
    texts = [row.get(columns.references)] if listed is None else listed
    references = tuple(text for text in texts if isinstance(text, str)) or ("",)
    image, content = image_of(row, columns.image), row.get(columns.image)
    if images is not None and isinstance(content, str):
        image = content = str(images / content)
    candidate = text_of(row, columns.candidate, where)
    return Item(candidate, references, image, {**row, IMAGE: content})


def _ratings(given: list[float], raters: Raters) -> list[float]:
    known = [value for value in given if value == value]
    return [sum(known) / len(known)] if raters == "mean" and known else given


def _numbers(row: Row, column: str, where: str) -> list[float]:
    """A cell's numbers, one for each person; true is 1, false is 0, and nothing is nan."""
    listed = as_list(row.get(column))
    cells = [row.get(column)] if listed is None else listed
    try:
        found = [number({column: int(c) if isinstance(c, bool) else c}, column) for c in cells]
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return [nan if value is None else value for value in found]


def _pairs(texts: Sequence[_Text]) -> list[tuple[int, int]]:
    """For each person, every two texts shown together of which one was chosen before the other."""
    shown: dict[Hashable, list[int]] = {}
    for place, text in enumerate(texts):
        image = place if text.item.image is None else text.item.image
        shown.setdefault((text.task, image, text.question), []).append(place)
    return [
        (better, worse)
        for together in shown.values()
        for better, worse in permutations(together, 2)
        for one, other in zip(texts[better].votes, texts[worse].votes, strict=False)
        if one > other  # nor is nan
    ]


def _raters(text: _Text) -> int:
    return max(map(len, text.ratings.values()), default=0)


def _at(values: Sequence[float], place: int) -> float:
    return values[place] if place < len(values) else nan
