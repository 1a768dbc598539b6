"""HarmonicEval's judgments: pairs from the best of three, and ratings on five criteria."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from scipy.stats import kendalltau

from posh_reward import HarmonicEval, InputError
from posh_reward.metrics.harmonic.criteria import CRITERIA
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.study.agreement.agreement_page import terminal_text
from posh_reward.study.agreement.agreement_report import AgreementReport, AgreementSettings
from posh_reward.study.agreement.measures import HarmonicMeasure
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.study.agreement.mmhe import (
    TABLES,
    BestPairs,
    MmheColumns,
    harmonic_paper,
    mmhe_report,
    read_mmhe,
)
from posh_reward.types import Failure

QUIET = AgreementSettings(resamples=0, quiet=True)
COLUMNS = MmheColumns()
Row = dict[str, Any]


def row(task: str, image: str, text: str, ratings: list[int], best: object) -> Row:
    """A text that all people rate alike on all criteria."""
    return {
        "task": task,
        "image": image,
        "question": "How many?" if task in ("VQA", "VDU") else None,
        "candidate": text,
        **dict.fromkeys(CRITERIA, ratings),
        "best": best,
    }


def rows() -> list[Row]:
    """Two triplets; the longer a text, the better people find it, but for one."""
    return [
        row("IC", "a.png", "xxx", [5, 4], [1, 1]),
        row("IC", "a.png", "xx", [3, 3], [0, 0]),
        row("IC", "a.png", "x", [1, 2], [0, 0]),
        row("VQA", "b.png", "x", [4, 4], True),
        row("VQA", "b.png", "xx", [2, 3], False),
        row("VQA", "b.png", "xxx", [3, 2], False),
    ]


class Length:
    """Characters of a text."""

    name = signature = "length"

    def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
        return [AxisScores.same(float(len(pair.generation))) for pair in pairs]


def values(report: AgreementReport, name: str) -> dict[str, float]:
    [line] = [line for line in report.lines if line.name == name]
    return {key: cell.estimate.value for key, cell in line.cells.items()}


def test_each_choice_of_the_best_gives_its_pairs() -> None:
    found = read_mmhe(rows(), COLUMNS, "rows")
    pairs = [tuple(map(int, each)) for each in found.texts_of if each[1] >= 0]
    assert pairs == [(0, 1), (0, 1), (0, 2), (0, 2), (3, 4), (3, 5)]
    assert found.judgments.groups[-1] == ("VQA", "b.png")


@pytest.mark.parametrize(
    ("kind", "pairs"), [("each", 9 * 2), ("majority", 2 * 2), ("unanimous", 1 * 2)]
)
def test_a_page_may_count_once_or_once_a_person(kind: BestPairs, pairs: int) -> None:
    """Three people, three texts: all agree on one page, two of three on another, none on the last.

    Each choice gives two pairs: nine choices 18, two majorities 4, one unanimous choice 2.
    """
    votes = [[(1, 1, 1), (0, 0, 0), (0, 0, 0)], [(1, 1, 0), (0, 0, 1), (0, 0, 0)],
             [(1, 0, 0), (0, 1, 0), (0, 0, 1)]]  # fmt: skip
    table = [
        row("IC", f"{page}.png", "x", [3, 3, 3], list(best))
        for page, texts in enumerate(votes)
        for best in texts
    ]
    found = read_mmhe(table, replace(COLUMNS, pairs=kind), "rows")
    assert int((found.texts_of[:, 1] >= 0).sum()) == pairs


def test_accuracy_and_tau_of_each_task() -> None:
    report = mmhe_report(read_mmhe(rows(), COLUMNS, "rows"), replace(QUIET, measures=[Length()]))
    found = values(report, "length")
    assert (found["overall IC"], found["overall VQA"]) == (1.0, 0.0)
    expected = kendalltau([3, 3, 2, 2, 1, 1], [5, 4, 3, 3, 1, 2]).statistic
    for criterion in CRITERIA:
        assert found[f"{criterion} IC"] == pytest.approx(expected)
    assert "overall Avg." not in found, "which is over the four tasks"
    assert "overall REG" not in found


def test_a_tie_is_wrong() -> None:
    class Same(Length):
        def score(self, pairs: Sequence[TextPair]) -> list[AxisScores]:
            return [AxisScores.same(1.0) for _ in pairs]

    report = mmhe_report(read_mmhe(rows(), COLUMNS, "rows"), replace(QUIET, measures=[Same()]))
    found = values(report, "length")
    assert found["overall IC"] == 0.0
    assert isnan(found["clarity IC"])


def test_the_average_is_over_all_four_tasks() -> None:
    table = [
        row(task, "a", text, [1], best)
        for task, good in (("REG", "xx"), ("VQA", "xx"), ("VDU", "xx"), ("IC", "x"))
        for text, best in (("xx", good == "xx"), ("x", good == "x"))
    ]
    report = mmhe_report(read_mmhe(table, COLUMNS, "rows"), replace(QUIET, measures=[Length()]))
    assert values(report, "length")["overall Avg."] == 0.75


def test_the_mean_of_the_raters_is_one_row() -> None:
    found = read_mmhe(rows(), replace(COLUMNS, raters="mean"), "rows")
    assert found.people["clarity"][:6].tolist() == [4.5, 3, 1.5, 4, 2.5, 2.5]


def scored(grader: Any, table: list[Row], images: Path) -> AgreementReport:
    measure = HarmonicMeasure(HarmonicEval(FakeModel(grader, sees=True)))
    choices = replace(QUIET, measures=[Length(), measure])
    return mmhe_report(read_mmhe(table, COLUMNS, "rows", images), choices)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    return tmp_path


def test_harmonic_eval_is_measured_on_each_criterion_by_its_own_score(images: Path) -> None:
    def grader(prompt: Prompt) -> float:
        """Fluency rises with length, all else falls."""
        long = 1.0 + prompt.suffix.count("x")
        return long if "\n- Fluency: " in prompt.prefix else 5.0 - long

    report = scored(grader, rows(), images)
    found = values(report, "HarmonicEval")
    assert found["fluency IC"] > 0 > found["clarity IC"]
    assert (found["overall IC"], found["overall VQA"]) == (0.0, 1.0)
    assert [line.name for line in report.lines] == ["length", "HarmonicEval"]


def test_each_task_is_asked_in_its_own_words(images: Path) -> None:
    model = FakeModel(lambda prompt: 3.0, sees=True)
    measure = HarmonicMeasure(HarmonicEval(model))
    mmhe_report(read_mmhe(rows(), COLUMNS, "r", images), replace(QUIET, measures=[measure]))
    seen = [prompt for prompt in model.prompts if prompt.images]
    assert {"How many?" in p.text for p in seen if "candidate answer" in p.prefix} == {True}
    assert {"Caption: " in p.text for p in seen if "candidate caption" in p.prefix} == {True}


def test_a_criterion_that_failed_leaves_the_others_measured(images: Path) -> None:
    def grader(prompt: Prompt) -> float | Failure:
        if "\n- Clarity: " in prompt.prefix:
            return Failure("engine", "gone")
        return 1.0 + prompt.suffix.count("x")

    report = scored(grader, rows(), images)
    found = values(report, "HarmonicEval")
    assert found["fluency IC"] > 0
    assert isnan(found["overall IC"])
    assert report.lines[1].failures == {"clarity: gone": 6}


def test_the_papers_figures_stand_below() -> None:
    choices = replace(QUIET, measures=[Length()])
    said = terminal_text(mmhe_report(read_mmhe(rows(), COLUMNS, "rows"), choices))
    assert "rows: 6 texts (3 VQA, 3 IC)" in said
    assert "HarmonicEval (paper, Table 2, 3)" in said
    assert "76.4" in said
    bare = terminal_text(mmhe_report(read_mmhe(rows(), COLUMNS, "rows"), choices, tables=()))
    assert "(paper" not in bare


def test_the_tables_are_as_printed() -> None:
    lines = {line.name: line.figures for line in harmonic_paper((2, 3))}
    assert len(lines) == 9
    assert lines["HarmonicEval"]["overall Avg."] == 73.4
    assert lines["HarmonicEval"]["conciseness IC"] == 22.8
    assert lines["CIDEr"]["completeness VQA"] == -39.0
    gamma = {line.name: line.figures for line in harmonic_paper((5,))}
    assert gamma["gamma 0.01"]["overall REG"] == 47.2
    for table in TABLES:
        for line in harmonic_paper((table,)):
            parts = [v for k, v in line.figures.items() if k.startswith("overall ")]
            if parts:  # the last is the mean of the others, as printed
                assert sum(parts[:4]) / 4 == pytest.approx(parts[4], abs=0.11)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "OCR"}, "rows, row 1: task is 'OCR': use one of REG, VQA, VDU, IC"),
        ({"task": "VQA", "question": None}, "row 1: task VQA needs a question.*--question"),
        ({"candidate": None}, "row 1: candidate is missing"),
        ({"clarity": "good"}, "row 1: clarity is 'good', not a number"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(change: Row, message: str) -> None:
    first, *others = rows()
    with pytest.raises(InputError, match=message):
        read_mmhe([first | change, *others], COLUMNS, "rows")


def test_a_missing_column_is_named_with_its_flag() -> None:
    with pytest.raises(InputError, match=r"no column 'chosen'.*--best"):
        read_mmhe(rows(), replace(COLUMNS, best="chosen"), "rows")
    named = replace(COLUMNS, criteria={"clarity": "clear"})
    with pytest.raises(InputError, match=r"no column 'clear'.*--criterion clarity="):
        read_mmhe(rows(), named, "rows")


def test_in_a_table_of_ratings_criteria_stand_for_mistakes_and_omissions(images: Path) -> None:
    def grader(prompt: Prompt) -> float:
        return 2.0 if "Correctness" in prompt.prefix else 4.0

    pairs = [TextPair("a text", ("",), "a", str(images / "a.png")), TextPair("a text", ("",))]
    sees = FakeModel(grader, sees=True)
    given, failed = HarmonicMeasure(HarmonicEval(sees)).score(pairs)
    assert (given.mistakes, given.omissions) == (2.0, 4.0)
    assert given.overall == pytest.approx(3.6)
    assert failed.overall is None
    assert "no image" in str(failed.failure)
