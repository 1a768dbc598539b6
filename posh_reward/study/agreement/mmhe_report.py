"""MMHE and metrics -> a report, with the paper's Tables 2-7 to print below ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posh_reward.metrics.harmonic.asking import CRITERIA
from posh_reward.study.agreement import published
from posh_reward.study.agreement.harmonic import HarmonicMeasure, criteria_column
from posh_reward.study.agreement.items import Column
from posh_reward.study.agreement.mmhe import TASK, Mmhe, harmonic_scores, mmhe_figures
from posh_reward.study.agreement.published import Published
from posh_reward.study.agreement.report import Report, few, left_out
from posh_reward.study.agreement.run import Choices, lines, score_columns

FOLDER = "harmonic"
"""Of the tables of HarmonicEval's paper."""
TABLES = (2, 3, 4, 5, 6, 7, 8)
"""2, 4, 5, 6: accuracies. 3, 7: tau on each criterion. 8: captions of Flickr8k."""


def mmhe_report(mmhe: Mmhe, choices: Choices, tables: Sequence[int] = (2, 3)) -> Report:
    """Accuracy on pairs for each task, and Kendall's tau on each criterion.

    Args:
        mmhe: the judgments.
        choices: which metrics, and how. HarmonicEval is measured on each criterion by its own score
            of it; the others by their overall score, as in the paper.
        tables: of the paper, to print with our figures.
    """
    figures = mmhe_figures(mmhe)
    found = lines(mmhe.sheet, _columns(mmhe, choices), figures, choices)
    notes = [
        "overall: of two texts of which people chose one as the best of three, how often it has "
        "the higher score; ties are wrong. The criteria: 100 tau_b. The count of rows is that of "
        "all tasks.",
        *left_out({axis: mmhe.people[axis][mmhe.of[:, 1] < 0] for axis in CRITERIA
                   if axis in mmhe.people}, "rating"),
        *few(mmhe.groups),
    ]  # fmt: skip
    counts = ", ".join(f"{mmhe.tasks.count(task):,} {task}" for task in TASK if task in mmhe.tasks)
    paper = published.with_figures(paper_lines(tables), [figure.key for figure in figures])
    return Report(
        f"{mmhe.name}: {len(mmhe.items):,} texts ({counts})",
        figures,
        found,
        notes,
        paper,
        ", ".join(map(str, tables)) or None,
        choices.against or next((line.name for line in found if not line.missing), None),
    )


def paper_lines(tables: Sequence[int]) -> list[Published]:
    """The lines of some of ``TABLES``; those of one name are one line."""
    merged: dict[str, Published] = {}
    for table in tables:
        for line in published.published(table, FOLDER):
            known = merged.get(line.name, line)
            merged[line.name] = replace(line, figures={**known.figures, **line.figures})
    return list(merged.values())


def _columns(mmhe: Mmhe, choices: Choices) -> list[Column]:
    """Each metric's scores, in the order of the choices."""
    usual = [each for each in choices.measures if not isinstance(each, HarmonicMeasure)]
    found = score_columns(mmhe.items, replace(choices, measures=usual))
    for place, each in enumerate(choices.measures):
        if isinstance(each, HarmonicMeasure):
            scores = harmonic_scores(mmhe, each.harmonic)
            found.insert(place, criteria_column(scores, each.signature))
    return found
