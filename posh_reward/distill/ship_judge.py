"""Save a trained model as a folder that loads as a judge, with a card about its fidelity.

::

    NAME/  model.safetensors, tokenizer, judge.yaml   PoSh("NAME/judge.yaml")
           cascade.yaml                               passes unsure answers on to the teacher
           README.md, fidelity.json                   the card, and its figures as JSON

All figures are on test questions, asked as the judge would be; the cascade's threshold is chosen on
validation questions. ``posh-reward judges compare`` tells more, on any texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.distill.judge_report import QuestionAgreement, format_percent, question_agreement
from posh_reward.distill.question_set import QuestionSet
from posh_reward.models.model import Model, Prompt, keep_awake, load_model
from posh_reward.posh.cascade import measure_uncertainty
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.tables.statistics import Floats
from posh_reward.types import LABELS, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Rows = Sequence[dict[str, Any]]
MIN_AGREEMENT_SHARE = 0.99  # with the teacher, of the questions that the student settles
DOUBT_THRESHOLDS = 20  # that are tried: quantiles of the student's doubt
JUDGE_TEMPLATE = """\
# posh-reward score pairs.jsonl --judge {folder}/judge.yaml{preset_flag}
#
# Distilled from {teacher}; README.md says how faithful it is.
preset: {preset}  # the wording that it has learned; asked by another it is refused
name: transformers
model: .
dtype: {dtype}
reading: labels
"""
CASCADE_TEMPLATE = """\
# posh-reward score pairs.jsonl --judge {folder}/cascade.yaml{preset_flag}
#
# The distilled judge settles what it is sure of and passes the rest on to its teacher: of the
# validation questions {handed:.0%}.
preset: {preset}
name: cascade
judge: {teacher}
first: judge.yaml
doubt: {doubt:.3g}
"""
CARD_TEMPLATE = """\
# {name}

A judge for POSH, distilled from `{questions.teacher}` into `{base}`.

    PoSh({settings!r}, preset={questions.preset!r})

Learned from question set `{questions.digest}`: {learned}; no reference in two splits.

## Fidelity

On test questions, against the teacher, with 95 % intervals over references. {verdict}

| questions | failed | difference | bias | present or absent alike | majority answer | kappa |
|---|---|---|---|---|---|---|
| {row} |

As the first stage of a cascade (`cascade.yaml`) it passes on {handed:.1%} of the questions, at
doubt {doubt:.3g}, chosen on validation questions so that {agreed:.0%} of the answers it keeps agree
with the teacher.
"""


@dataclass(frozen=True, slots=True)
class JudgeFidelity:
    """Agreement of a student with its teacher on test questions, and its place in a cascade."""

    agreement: QuestionAgreement
    majority: float  # accuracy of always giving the teacher's more frequent outcome
    failures: int
    doubt: float  # threshold of the cascade; 0 if none is good enough, and all is passed on
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
    path.write_text(fill_template(JUDGE_TEMPLATE, folder, questions, dtype=dtype), "utf-8")
    return path


def fill_template(template: str, folder: Path, questions: QuestionSet, **others: object) -> str:
    """Fill in a settings file, whose first line needs ``--preset`` unless it is the default."""
    preset, teacher = questions.preset, questions.judge
    if not isinstance(teacher, str) or not teacher.isidentifier():
        teacher = json.dumps(teacher)  # a path or settings, in YAML's flow style
    flag = ""
    if preset != "released":
        flag = f" --preset {preset}"
    return template.format(
        folder=folder, teacher=teacher, preset=preset, preset_flag=flag, **others
    )


def measure_judge(settings: Path, test: Rows, validation: Rows) -> JudgeFidelity:
    """Ask a saved judge held-out questions, and compare its answers with the teacher's.

    The cascade's threshold is chosen on ``validation``, the figures are on ``test``.
    """
    model = load_model(str(settings))
    with keep_awake(model):
        verdicts, grades, references = _ask_questions(model, test)
        held_out, held_out_grades, _ = _ask_questions(model, validation)
    model.close()
    pairs = np.stack([grades, [verdict.grade or 0.0 for verdict in verdicts]], axis=1)
    present = (grades >= MIN_PRESENT_GRADE).mean()
    doubt, handed_on = choose_doubt(held_out, held_out_grades)
    return JudgeFidelity(
        question_agreement(pairs, references),
        float(max(present, 1 - present)),
        sum(row["task"] == "grade" for row in test) - len(references),
        doubt,
        handed_on,
    )


def _ask_questions(model: Model, rows: Rows) -> tuple[list[Verdict], Floats, list[str]]:
    """Return verdicts, the teacher's grades, and the references, without failed questions."""
    graded = [row for row in rows if row["task"] == "grade"]
    graded.sort(key=itemgetter("prefix", "suffix"))
    verdicts, teacher, references = [], [], []
    answers = model.choose([Prompt(row["prefix"], row["suffix"]) for row in graded], LABELS)
    for row, verdict in zip(graded, answers, strict=True):
        if verdict.probabilities is not None:
            verdicts.append(verdict)
            teacher.append(row["probabilities"])
            references.append(row["reference"])
    scale = np.arange(1.0, len(LABELS) + 1)
    grades: Floats = np.array(teacher, dtype=np.float64) @ scale
    return verdicts, grades, references


def choose_doubt(verdicts: Sequence[Verdict], grades: Floats) -> tuple[float, float]:
    """Return the largest doubt below which enough outcomes (99 %) are the teacher's.

    With it, the share of the questions that are passed on; 0 and 1 if there is none. ``grades`` are
    the teacher's. A sure answer that agrees, a sure one that agrees and an unsure one that does
    not: the threshold is the doubt of the second, and a third is passed on.
    """
    own = np.array([measure_uncertainty(verdict) for verdict in verdicts])
    student = np.array([verdict.grade for verdict in verdicts], dtype=np.float64)
    alike = (student >= MIN_PRESENT_GRADE) == (grades >= MIN_PRESENT_GRADE)
    doubts = np.quantile(own, np.linspace(0, 1, DOUBT_THRESHOLDS + 1), method="lower")
    for doubt in np.unique(doubts)[::-1]:
        sure = own <= doubt
        if alike[sure].mean() >= MIN_AGREEMENT_SHARE:
            return float(doubt), float(1 - sure.mean())
    return 0.0, 1.0


def write_card(folder: Path, fidelity: JudgeFidelity, questions: QuestionSet, base: str) -> None:
    """Write the card, the cascade's settings and the figures."""
    figures = fidelity.agreement
    doubt, handed_on = fidelity.doubt, fidelity.handed_on
    cascade = fill_template(CASCADE_TEMPLATE, folder, questions, doubt=doubt, handed=handed_on)
    (folder / "cascade.yaml").write_text(cascade, "utf-8")
    (folder / "fidelity.json").write_text(json.dumps(asdict(fidelity), indent=2) + "\n", "utf-8")
    verdict = "It agrees with its teacher beyond the majority answer."
    if figures.present.low <= fidelity.majority:
        verdict = (
            "**It does not agree with its teacher beyond the majority answer: do not use it.**"
        )
    learned = "; ".join(
        f"{split} {tasks['grade']:,} questions and {tasks['rewrite']:,} rewrites"
        for split, tasks in questions.rows.items()
    )
    cells = (
        f"{figures.count:,}", f"{fidelity.failures:,}", f"{figures.difference:.3f}",
        f"{figures.bias:+.3f}", format_percent(figures.present), f"{fidelity.majority:.1%}",
        f"{figures.kappa:.3f}",
    )  # fmt: skip
    card = CARD_TEMPLATE.format(
        name=folder.name, questions=questions, base=base, settings=str(folder / "judge.yaml"),
        learned=learned, verdict=verdict, row=" | ".join(cells), agreed=MIN_AGREEMENT_SHARE,
        handed=handed_on, doubt=doubt,
    )  # fmt: skip
    (folder / "README.md").write_text(card, "utf-8")
