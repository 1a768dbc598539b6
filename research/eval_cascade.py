"""Agreement of the cascade's first stage with a full judge, and the questions that it saves.

    OMP_NUM_THREADS=1 python -m research.eval_cascade GOLDENS.jsonl

The full judge is the goldens' stand-in, a deterministic function of the words, not a language
model. Thresholds are chosen on the pairs with planted mistakes and evaluated on the others, which
share no text or reference with them. Higher is better for agreement and for saved questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from statistics import fmean

from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.graph.reader import describe_doc
from posh_reward.posh.batch import run_batched
from posh_reward.posh.cascade import (
    ABSENT_VERDICT,
    VERBATIM_VERDICT,
    Cascade,
    Wording,
    compare_wording,
)
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.posh.rewriter import Rewriter
from posh_reward.types import Kind, Question, Verdict
from tools.goldens import SIDES, Golden, ReplayJudge, both_ways, load, read_golden, recorded_parse

LOW = (1.0, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0)
HIGH = (4.5, 4.7, 4.8, 4.9, 5.1)
"""No lower values: the stand-in ignores which entity a word describes, so only the embedded judge's
doubt shows that the text says it about another one."""
MIN_AGREED = 0.995
"""Least agreement on the outcome, present or absent, of settled questions."""
PLANTED = "pd"  # prefix of the ids of the pairs on which thresholds are chosen


@dataclass(frozen=True, slots=True)
class GradedQuestion:
    """One question with both judges' grades."""

    kind: Kind
    wording: Wording
    embedded: float
    full: float

    def grade_within(self, low: float, high: float) -> float | None:
        """Return the grade if the first stage settles the question; None if it does not."""
        if self.wording == "same" and self.embedded >= high:
            return VERBATIM_VERDICT.grade
        absent = self.wording == "none" and self.kind == "entity" and self.embedded < low
        return ABSENT_VERDICT.grade if absent else None


class Watching(ReplayJudge):
    """Replay the goldens' verdicts, and record the embedded judge's."""

    def __init__(self, golden: Golden) -> None:
        super().__init__(golden)
        from spacy.vocab import Vocab

        vocab = Vocab()
        self.questions: list[GradedQuestion] = []
        self._read = {golden[s]: describe_doc(*recorded_parse(golden, s, vocab)) for s in SIDES}
        self._embedded = EmbeddedJudge()

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """Return the replayed verdicts."""
        verdicts = super().grade(questions)
        for question, verdict in zip(questions, verdicts, strict=True):
            source, target = self._read[question.source.text], self._read[question.target.text]
            stripped = question._replace(source=source, target=target)
            (own,) = self._embedded.grade([stripped])
            assert own.grade is not None
            assert verdict.grade is not None
            self.questions.append(
                GradedQuestion(question.kind, compare_wording(stripped), own.grade, verdict.grade)
            )
        return verdicts


def questions(goldens: Sequence[Golden]) -> Iterator[GradedQuestion]:
    """Yield all questions about some pairs."""
    for golden in goldens:
        judge = Watching(golden)
        run_batched(both_ways([read_golden(golden)]), judge, Rewriter(judge))
        yield from judge.questions


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a set's settled questions with the full judge."""

    questions: int
    saved: float  # share of settled questions
    agreed: float  # share with the full judge's outcome: present (grade 2 or more) or not
    difference: float  # mean of settled grade minus the full judge's
    spread: float  # mean distance of the two grades

    def __str__(self) -> str:
        return (
            f"{self.questions} questions, {self.saved:.1%} saved, {self.agreed:.2%} of them agree "
            f"on present or absent, grades differ by {self.spread:.2f} ({self.difference:+.2f})"
        )


def agreement(questions: Sequence[GradedQuestion], low: float, high: float) -> Agreement:
    """Measure two thresholds on a set."""
    grades = [(each.grade_within(low, high), each.full) for each in questions]
    sure = [(ours, full) for ours, full in grades if ours is not None]
    pairs = sure or [(MIN_PRESENT_GRADE, MIN_PRESENT_GRADE)]
    return Agreement(
        len(questions),
        len(sure) / len(questions),
        fmean((ours >= MIN_PRESENT_GRADE) == (full >= MIN_PRESENT_GRADE) for ours, full in pairs),
        fmean(ours - full for ours, full in pairs),
        fmean(abs(ours - full) for ours, full in pairs),
    )


def choose(questions: Sequence[GradedQuestion]) -> tuple[float, float]:
    """Return the thresholds that save most with enough agreement, both on absent and explicit."""
    never = (LOW[0], HIGH[-1])
    low = max(each for each in LOW if agreement(questions, each, never[1]).agreed >= MIN_AGREED)
    high = min(each for each in HIGH if agreement(questions, never[0], each).agreed >= MIN_AGREED)
    return low, high


def main(arguments: Sequence[str] | None = None) -> None:
    """Choose thresholds on one part of the pairs, and print their figures on both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    goldens = load(parser.parse_args(arguments).goldens)
    chosen_on = list(questions([g for g in goldens if g["id"].startswith(PLANTED)]))
    reported = list(questions([g for g in goldens if not g["id"].startswith(PLANTED)]))
    best = choose(chosen_on)
    print("low {:g}, high {:g}".format(*best))
    print(f"chosen on:   {agreement(chosen_on, *best)}")
    print(f"reported on: {agreement(reported, *best)}")
    settings = signature(Cascade).parameters
    low, high = settings["low"].default, settings["high"].default
    print(f"as shipped, low {low:g}, high {high:g}: {agreement(reported, low, high)}")
    for name, each in (("explicit", (LOW[0], high)), ("absent", (low, HIGH[-1]))):
        print(f"  as {name}: {agreement(reported, *each)}")


if __name__ == "__main__":
    main()
