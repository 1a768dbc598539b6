"""Save a trained model as a folder that loads as a judge, with a card about its fidelity.

::

    NAME/  model.safetensors, tokenizer, judge.yaml   PoSh("NAME/judge.yaml")
           cascade.yaml                               passes unsure answers on to the teacher
           README.md, fidelity.json                   the card, and its figures as JSON
           learning.png                               held-out divergence over the steps

All figures are on test questions, asked as the judge would be; the cascade's threshold is chosen on
validation questions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.metrics.posh.judges.cascade import doubt_of
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.models.model import Model, Prompt, awake, load_model
from posh_reward.study.judges.judge_report import (
    PARTS,
    QuestionAgreement,
    percent,
    question_agreement,
    spread,
)
from posh_reward.study.judges.question_set import QuestionSet
from posh_reward.study.statistics import Floats
from posh_reward.types import LABELS, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Rows = Sequence[dict[str, Any]]
AGREED = 0.99
"""Least agreement with the teacher on the questions that the student settles."""
STEPS = 20  # intervals between the quantiles on the cascade's curve
ORIGINS = ("honest", "perturbed", "policy")
PART_HEADS = """\
| questions | count | difference | bias | present or absent alike | kappa |
|---|---|---|---|---|---|"""
POINT_HEADS = """\
| doubt | passed on | settled ones agree | all agree | difference |
|---|---|---|---|---|"""
SETTINGS = """\
# posh-reward score pairs.jsonl --judge {folder}/judge.yaml{preset_flag}
#
# Distilled from {teacher}; README.md says how faithful it is.
preset: {preset}  # the wording that it has learned; asked by another it is refused
name: transformers
model: .
dtype: {dtype}
reading: labels
"""
CASCADE = """\
# posh-reward score pairs.jsonl --judge {folder}/cascade.yaml{preset_flag}
#
# The distilled judge settles what it is sure of and passes the rest on to its teacher: of the
# validation questions {handed:.0%}. README.md has the curve.
preset: {preset}
name: cascade
judge: {teacher}
first: judge.yaml
doubt: {doubt:.3g}
"""


@dataclass(frozen=True, slots=True)
class CascadePoint:
    """The cascade at one threshold: the student first, then the teacher."""

    doubt: float
    handed_on: float  # share of the questions that go to the teacher
    agreed: float  # share of the settled questions with the same outcome, present or absent
    present_alike: float  # the same over all questions: those passed on agree
    grades_apart: float  # mean distance of the grades, over all questions


@dataclass(frozen=True, slots=True)
class JudgeFidelity:
    """Agreement of a student with its teacher on test questions, by part and by origin."""

    parts: dict[str, QuestionAgreement]
    majority: float  # accuracy of always giving the teacher's more frequent outcome
    same_grade: float  # mean distance of the grades when always giving the teacher's median grade
    failures: int
    rewrites: float  # share of the rewrites identical to the teacher's; NaN without any
    curve: Sequence[CascadePoint]
    doubt: float  # the chosen threshold; 0 if none is good enough, and all is passed on
    handed_on: float  # share of the validation questions passed on at that threshold


def save_judge(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    questions: QuestionSet,
    dtype: str = "auto",
) -> Path:
    """Write the weights, with adapters merged, and the settings; return the settings' path."""
    merged = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    if dtype != "auto":
        merged = merged.to(getattr(torch, dtype))
    merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "judge.yaml"
    path.write_text(fill(SETTINGS, folder, questions, dtype=dtype), "utf-8")
    return path


def fill(template: str, folder: Path, questions: QuestionSet, **others: object) -> str:
    """Fill in a settings file, whose first line needs ``--preset`` unless it is the default."""
    preset, teacher = questions.preset, questions.judge
    if not isinstance(teacher, str) or not teacher.isidentifier():
        teacher = json.dumps(teacher)  # a path or settings, in YAML's flow style
    flag = "" if preset == "released" else f" --preset {preset}"
    return template.format(
        folder=folder, teacher=teacher, preset=preset, preset_flag=flag, **others
    )


def measure_judge(settings: Path, test: Rows, validation: Rows) -> JudgeFidelity:
    """Ask a saved judge held-out questions, and compare its answers with the teacher's.

    The cascade's threshold is chosen on ``validation``, the figures are on ``test``.
    """
    model = load_model(str(settings))
    with awake(model):
        verdicts, grades, rows = _answers(model, test)
        held_out, held_grades, _ = _answers(model, validation)
        rewrites = _same_rewrites(model, test)
    model.close()
    grade_pairs = np.stack([grades, [verdict.grade or 0.0 for verdict in verdicts]], axis=1)
    curve = cascade_curve(held_out, held_grades)
    point = cheapest_point(curve)
    present = (grades >= PRESENT).mean()
    return JudgeFidelity(
        _by_part(grade_pairs, rows),
        float(max(present, 1 - present)),
        float(np.abs(grades - np.median(grades)).mean()),
        sum(row["task"] == "grade" for row in test) - len(rows),
        rewrites,
        cascade_curve(verdicts, grades, [point.doubt for point in curve]),
        point.doubt if point else 0.0,
        point.handed_on if point else 1.0,
    )


def _answers(model: Model, rows: Rows) -> tuple[list[Verdict], Floats, list[dict[str, Any]]]:
    """Return a model's verdicts, the teacher's grades, and the rows, without failed questions."""
    graded = sorted(
        (row for row in rows if row["task"] == "grade"),
        key=lambda row: (row["prefix"], row["suffix"]),
    )
    verdicts = model.choose([Prompt(row["prefix"], row["suffix"]) for row in graded], LABELS)
    sound = [i for i, verdict in enumerate(verdicts) if verdict.probabilities is not None]
    scale = np.arange(1.0, len(LABELS) + 1)
    labels = np.array([graded[i]["probabilities"] for i in sound], dtype=np.float64)
    grades: Floats = labels @ scale
    return [verdicts[i] for i in sound], grades, [graded[i] for i in sound]


def _same_rewrites(model: Model, rows: Rows, max_tokens: int = 20) -> float:
    teacher = {
        Prompt(row["prefix"], row["suffix"]): row["reply"] for row in rows if row["task"] != "grade"
    }
    prompts = sorted(teacher)
    replies = model.write(prompts, max_tokens) if prompts else []
    hits = [reply.text == teacher[prompt] for prompt, reply in zip(prompts, replies, strict=True)]
    return float(np.mean(hits)) if hits else float("nan")


def _by_part(grade_pairs: Floats, rows: Rows) -> dict[str, QuestionAgreement]:
    agreement = {}
    for part in (*PARTS, *ORIGINS):
        some = [
            place
            for place, row in enumerate(rows)
            if part in ("all", row["kind"], row["direction"], row["origin"])
        ]
        if some:
            references = [rows[place]["reference"] for place in some]
            agreement[part] = question_agreement(grade_pairs[some], references)
    return agreement


def cascade_curve(
    verdicts: Sequence[Verdict], grades: Floats, doubts: Sequence[float] | None = None
) -> list[CascadePoint]:
    """Return agreement and cost of the cascade, from settling nothing to settling everything.

    ``grades`` are the teacher's; ``doubts`` the thresholds, by default quantiles of the student's.
    """
    own = np.array([doubt_of(verdict) for verdict in verdicts])
    student = np.array([verdict.grade for verdict in verdicts], dtype=np.float64)
    if doubts is None:
        doubts = np.unique(np.quantile(own, np.linspace(0, 1, STEPS + 1))).tolist()
    alike = (student >= PRESENT) == (grades >= PRESENT)
    points = []
    for doubt in doubts:
        # What is passed on gets the teacher's own answer, so only what is settled can differ.
        sure = own <= doubt
        points.append(
            CascadePoint(
                float(doubt),
                float(1 - sure.mean()),
                float(alike[sure].mean()) if sure.any() else 1.0,
                float((alike | ~sure).mean()),
                float((np.abs(student - grades) * sure).mean()),
            )
        )
    return points


def cheapest_point(curve: Sequence[CascadePoint]) -> CascadePoint | None:
    """Return the point that passes on least among those with enough agreement, if any."""
    good = [point for point in curve if point.agreed >= AGREED]
    return min(good, key=lambda point: point.handed_on) if good else None


def write_card(
    folder: Path,
    fidelity: JudgeFidelity,
    questions: QuestionSet,
    base: str,
    history: Sequence[dict[str, Any]],
) -> None:
    """Write the card, the cascade's settings, the figures, and the learning curve."""
    cascade = fill(CASCADE, folder, questions, doubt=fidelity.doubt, handed=fidelity.handed_on)
    (folder / "cascade.yaml").write_text(cascade, "utf-8")
    figures = json.dumps(asdict(fidelity), indent=2)
    (folder / "fidelity.json").write_text(figures + "\n", "utf-8")
    (folder / "README.md").write_text(_card(folder, fidelity, questions, base), "utf-8")
    _plot_learning(history, fidelity, folder / "learning.png")


def _card(folder: Path, fidelity: JudgeFidelity, questions: QuestionSet, base: str) -> str:
    beyond = fidelity.parts["all"].present.low > fidelity.majority
    verdict = (
        "It agrees with its teacher beyond the majority answer."
        if beyond
        else "**It does not agree with its teacher beyond the majority answer: do not use it.**"
    )
    learned = "; ".join(
        f"{split} {tasks['grade']:,} questions and {tasks['rewrite']:,} rewrites"
        for split, tasks in questions.rows.items()
    )
    parts = "\n".join(_part_row(*each) for each in fidelity.parts.items())
    points = "\n".join(
        f"| {point.doubt:.3f} | {point.handed_on:.1%} | {point.agreed:.2%} "
        f"| {point.present_alike:.2%} | {point.grades_apart:.3f} |"
        for point in fidelity.curve
    )
    paragraphs = [
        f"# {folder.name}",
        f"A judge for POSH, distilled from `{questions.teacher}` into `{base}`.",
        f"    PoSh({str(folder / 'judge.yaml')!r}, preset={questions.preset!r})",
        f"Learned from question set `{questions.digest}`: {learned}; no reference in two splits.",
        "## Fidelity",
        f"On test questions, against the teacher, with 95 % intervals over references. {verdict} "
        f"Always giving the more frequent outcome would be right in {fidelity.majority:.1%}, and "
        f"always the median grade {fidelity.same_grade:.2f} off. {fidelity.failures:,} questions "
        f"failed; {fidelity.rewrites:.0%} of the rewrites are identical to the teacher's.",
        f"{PART_HEADS}\n{parts}",
        "## As the first stage of a cascade",
        f"At doubt {fidelity.doubt:.3g}, chosen on validation questions so that {AGREED:.0%} of "
        "the answers it keeps agree with the teacher, it passes on the rest (`cascade.yaml`). On "
        "test questions:",
        f"{POINT_HEADS}\n{points}",
        "![Held-out divergence over the steps, and the cascade](learning.png)",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _part_row(part: str, figures: QuestionAgreement) -> str:
    cells = (
        part,
        f"{figures.count:,}",
        spread(figures.difference),
        spread(figures.bias, sign="+"),
        percent(figures.present),
        spread(figures.kappa),
    )
    return f"| {' | '.join(cells)} |"


def _plot_learning(history: Sequence[dict[str, Any]], fidelity: JudgeFidelity, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    lines = [line for line in history if "eval_kl" in line]
    steps = [line["step"] for line in lines]
    divergence, alike, kappa = (
        [line[f"eval_{name}"] for line in lines] for name in ("kl", "present_alike", "kappa")
    )
    left.plot(steps, divergence, "o-", color="#0969da", ms=3)
    left.set(title="divergence from the teacher (nats)", xlabel="step", ylim=(0, None))
    middle.plot(steps, alike, "o-", color="#0969da", ms=3, label="present or absent alike")
    middle.plot(steps, kappa, "s-", color="#bc4c00", ms=3, label="kappa")
    middle.axhline(fidelity.majority, color="#57606a", ls=":", label="majority answer")
    middle.set(title="agreement on held-out references", xlabel="step", ylim=(None, 1))
    middle.legend(frameon=False, fontsize=8)
    right.plot(
        [point.handed_on for point in fidelity.curve],
        [point.present_alike for point in fidelity.curve], "o-", color="#0969da", ms=3,
    )  # fmt: skip
    right.set(
        title="cascade: agreement and cost", xlabel="share passed on to the teacher",
        ylabel="present or absent alike", ylim=(None, 1.001),
    )  # fmt: skip
    for axes in (left, middle, right):
        axes.grid(color="#eaeef2")
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    figure.savefig(path, dpi=110)
