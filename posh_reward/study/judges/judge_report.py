"""Comparisons of judges -> a decision, text for terminals, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Literal

from posh_reward.metrics.posh.presets import question
from posh_reward.process.progress import progress_bar
from posh_reward.study.agreement.agreement_page import align
from posh_reward.study.judges.judge_agreement import (
    AXES,
    OBJECTIVES,
    JudgeComparison,
    QuestionDifference,
    compare,
)
from posh_reward.study.judges.judge_runs import AGAIN, JudgeRun, ScoredPair
from posh_reward.study.statistics import Estimate

ALIKE = 0.95  # least share of siblings in the same order for a judge that may replace another
FEW = 6  # references below which intervals mean nothing: resampling repeats the same few
COSTS = {
    "requests": "questions",
    "rewrites": "rewrites",
    "cache_hits": "not asked again",
    "prompt_tokens_submitted": "tokens submitted",
    "prompt_tokens_computed": "computed",
    "tokens_decoded": "decoded",
    "seconds": "seconds",
}
"""Field of ``Usage`` -> heading in tables."""


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """All judges compared with the first."""

    first: JudgeRun
    comparisons: Sequence[JudgeComparison]
    floor: JudgeComparison | None  # the first judge's second run, against its first; None without
    pairs: int
    references: int

    @property
    def lines(self) -> list[JudgeComparison]:
        """All comparisons, the floor last."""
        return [*self.comparisons, *([self.floor] if self.floor else [])]

    @property
    def runs(self) -> list[JudgeRun]:
        """All judges, the first one first."""
        return [self.first, *(line.other for line in self.lines)]


def judge_report(
    runs: Sequence[JudgeRun],
    pairs: Sequence[ScoredPair],
    *,
    resamples: int = 1000,
    seed: int = 0,
    quiet: bool = True,
) -> JudgeReport:
    """Compare every run with the first; the last may be the first judge's second run."""
    lines = []
    with progress_bar("comparing", len(runs) - 1, "judge", quiet) as bar:
        for run in runs[1:]:
            lines.append(compare(runs[0], run, pairs, resamples=resamples, seed=seed))
            bar.update()
    floor = lines.pop() if runs[-1].label == runs[0].label + AGAIN else None
    references = {pair.reference.strip() for pair in pairs}
    return JudgeReport(runs[0], lines, floor, len(pairs), len(references))


@dataclass(frozen=True, slots=True)
class JudgeDecision:
    """Decision on replacing the first judge in training."""

    verdict: Literal["yes", "no", "not settled"]
    sentence: str  # the verdict with its figures


def decision(comparison: JudgeComparison, floor: JudgeComparison | None = None) -> JudgeDecision:
    """Decide by the intervals of the share of siblings ordered alike, for f1 and two objectives."""
    first, other = comparison.first.label, comparison.other.label
    unsettled = f"Not settled whether {other} may replace {first} for training"
    groups = comparison.groups.values()
    if not groups or any(isnan(group.alike.value) for group in groups):
        common = "that a judge orders" if groups else "that both judges scored"
        return JudgeDecision("not settled", f"{unsettled}: no reference has two texts {common}.")
    by_f1, by_two = (comparison.groups[name].alike for name in OBJECTIVES)
    figures = (
        f"siblings are ordered alike in {percent(by_f1)} of pairs by f1, and in {percent(by_two)} "
        "with precision and recall as two objectives"
    )
    if floor is not None and floor.groups:
        figures += f" (the first judge against itself: {percent(floor.groups['f1'].alike)})"
    if comparison.pair_failures:
        figures += (
            f"; {100 * (1 - comparison.scored_share):.0f} % of the pairs have no score from both"
        )
    unsettled += f": {figures}."
    if min(group.references for group in groups) < FEW or isnan(by_f1.low) or isnan(by_two.low):
        needed = f"It takes intervals over {FEW} or more references to decide."
        return JudgeDecision("not settled", f"{unsettled} {needed}")
    # The worst case: every pair of siblings that lacks a score would be ordered differently.
    if min(group.alike.low * group.compared for group in groups) >= ALIKE:
        return JudgeDecision("yes", f"{other} may replace {first} for training: {figures}.")
    if min(by_f1.high, by_two.high) < ALIKE:
        return JudgeDecision("no", f"{other} may not replace {first} for training: {figures}.")
    return JudgeDecision(
        "not settled",
        f"{unsettled} At least {100 * ALIKE:.0f} % are required; use more references to decide.",
    )


def percent(estimate: Estimate) -> str:
    """Format a share with its interval: ``97 % [96, 98]``."""
    if isnan(estimate.value):
        return "none"
    digits = 1 if 0.98 < estimate.value < 1 else 0
    value, low, high = (
        f"{100 * each:.{digits}f}" for each in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} %" + ("" if isnan(estimate.low) else f" [{low}, {high}]")


def spread(estimate: Estimate, digits: int = 3, sign: str = "") -> str:
    """Format a figure with its interval."""
    if isnan(estimate.value):
        return "none"
    value = f"{estimate.value:{sign}.{digits}f}"
    ends = f" [{estimate.low:{sign}.{digits}f}, {estimate.high:{sign}.{digits}f}]"
    return value + ("" if isnan(estimate.low) else ends)


def overview_rows(report: JudgeReport) -> list[list[str]]:
    """Table of judges: agreement on groups, then on questions."""
    heads = ["against " + report.first.label, "siblings alike, f1", "two objectives",
             "sign changed", "cosine", "present alike", "kappa"]  # fmt: skip
    return [heads, *map(_overview_row, report.lines)]


def _overview_row(line: JudgeComparison) -> list[str]:
    groups = [line.groups.get(name) for name in OBJECTIVES]
    questions = line.questions.get("all")
    return [
        line.other.label,
        *(percent(group.alike) if group else "none" for group in groups),
        percent(groups[0].flips) if groups[0] else "none",
        spread(groups[0].cosine, 2) if groups[0] else "none",
        percent(questions.present) if questions else "none",
        spread(questions.kappa, 2) if questions else "none",
    ]


def group_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of objectives: what GRPO sees."""
    heads = ["objective", "groups", "texts", "pairs of siblings", "siblings alike",
             "correlation in the group", "sign changed", "cosine of updates"]  # fmt: skip
    rows = [
        [name, f"{group.groups:,}", f"{group.completions:,}", f"{group.ordered:,}",
         percent(group.alike),
         spread(group.correlation), percent(group.flips), spread(group.cosine)]
        for name, group in comparison.groups.items()
    ]  # fmt: skip
    return [heads, *rows]


def question_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of agreement per question, by part."""
    heads = ["questions", "count", "difference", "bias", "present alike", "kappa"]
    rows = [
        [part, f"{it.count:,}", spread(it.difference), spread(it.bias, sign="+"),
         percent(it.present), spread(it.kappa)]
        for part, it in comparison.questions.items()
    ]  # fmt: skip
    return [heads, *rows]


def pair_rows(comparison: JudgeComparison) -> list[list[str]]:
    """Table of agreement per pair, by score."""
    heads = ["score", "pairs", "bias", "spread", "rank correlation"]
    rows = [
        [axis, f"{it.count:,}", spread(it.bias, sign="+"), spread(it.spread), spread(it.rank)]
        for axis in AXES
        if (it := comparison.pairs.get(axis))
    ]  # fmt: skip
    return [heads, *rows]


def cost_rows(report: JudgeReport) -> list[list[str]]:
    """Table of costs of each judge's own search."""
    rows = [
        [run.label, *(f"{getattr(run.usage, name):,.{name == 'seconds':d}f}" for name in COSTS)]
        for run in report.runs
    ]
    return [["judge", *COSTS.values()], *rows]


def question_text(difference: QuestionDifference) -> str:
    """Return the question in the released wording, without instructions."""
    return question(difference.question).removeprefix("Q: ").partition(" Consider")[0]


def terminal_text(report: JudgeReport) -> str:
    """Format decisions and tables for a terminal."""
    about = f"{report.pairs:,} pairs of {report.references:,} references; 95 % over references."
    parts = [
        "\n".join(decision(line, report.floor).sentence for line in report.comparisons),
        about,
        align(overview_rows(report)),
        align(cost_rows(report)),
    ]
    for line in report.comparisons:
        parts.append(f"{line.other.label} against {line.first.label}")
        parts += [align(question_rows(line)), align(pair_rows(line))]
        parts += [align(group_rows(line))] if line.groups else []
        parts += [f"without an answer: {line.failures:,} questions, {line.pair_failures:,} pairs"]
    return "\n\n".join(parts)


def as_json(report: JudgeReport) -> dict[str, Any]:
    """Collect all figures for JSON; undefined ones are null."""
    return {
        "pairs": report.pairs,
        "references": report.references,
        "judges": [
            {"judge": run.label, "signature": run.signature, "usage": asdict(run.usage)}
            for run in report.runs
        ],
        "comparisons": [_comparison_json(line, report.floor) for line in report.comparisons],
        "floor": _comparison_json(report.floor, None) if report.floor else None,
        "rows": list(_score_rows(report.runs)),
    }


def _score_rows(runs: Sequence[JudgeRun]) -> Iterator[dict[str, Any]]:
    """Yield each pair with every judge's scores; None where one failed."""
    for same_pair in zip(*(run.scores for run in runs), strict=True):
        yield {
            "generation": same_pair[0].generation,
            "reference": same_pair[0].reference,
            "scores": {
                run.label: {axis: getattr(scores, axis) for axis in AXES}
                for run, scores in zip(runs, same_pair, strict=True)
            },
        }


def _comparison_json(line: JudgeComparison, floor: JudgeComparison | None) -> dict[str, Any]:
    parts = {
        name: {key: _plain(asdict(value)) for key, value in getattr(line, name).items()}
        for name in ("questions", "pairs", "groups")
    }
    return {
        "judge": line.other.label,
        "against": line.first.label,
        **asdict(decision(line, floor)),
        **parts,
        "calibration": [asdict(each) for each in line.calibration],
        "largest": [
            {"question": question_text(each), "target": each.question.target.text,
             "source": each.question.source.text, "first": each.first, "other": each.other}
            for each in line.largest
        ],
        "failed_questions": line.failures,
        "unscored_pairs": line.pair_failures,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return None if isinstance(value, float) and isnan(value) else value
