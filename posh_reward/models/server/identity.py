"""Identity of a server's model: its names in replies, its answers to the questions of the start."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from posh_reward.models.model import DOUBTFUL_MASS, explain_doubtful_replies
from posh_reward.settings import UNCHECKED_VARIABLE
from posh_reward.types import Reply, Verdict

PROBE_QUESTION = (
    "DESCRIPTION: A dog sleeps.\n\n"
    'Q: Is "{}" mentioned?\n\n'
    "Respond ONLY with an integer from 1 (not mentioned) to 5 (clearly mentioned)."
)
PRESENT_THINGS, ABSENT_THINGS = ("dog", "A dog"), ("ship", "A ship")
"""Questions of ``PROBE_QUESTION``: about things that its description mentions, and does not."""
MIN_GRADE_GAP = 0.75
"""Least difference of the mean grades of both. ``check.check_judge`` requires as much of scores,
which are a fifth of grades."""
OTHER_GRADES = "the server answers the questions of the start differently: is it another model?"

Answer = Verdict | Reply
Clean = Callable[[str], str]  # sanitise a server's words


@dataclass(frozen=True, slots=True)
class StartQuestions:
    """The questions of the start, which are repeated to find out whether the model is the same."""

    bodies: tuple[Mapping[str, Any], ...]  # about present, then absent things; one without grades
    read: Callable[[Mapping[str, Any]], Answer]  # raises ``ExchangeError``
    graded: bool  # False if answers are not compared


@dataclass(frozen=True, slots=True)
class Identity:
    """Marks of a server's model that others lack. Its names are sanitised, so they hold no key."""

    model: str | None  # as its replies name it
    fingerprints: frozenset[str]
    grades: tuple[float | None, ...] = ()  # of the questions of the start

    @classmethod
    def of(
        cls, replies: Sequence[Mapping[str, Any]], answers: Sequence[Answer], clean: Clean
    ) -> Identity:
        """The identity from the replies to the questions of the start."""
        models = [_read_name(reply, "model", clean) for reply in replies]
        fingerprints = {_read_name(reply, "system_fingerprint", clean) for reply in replies}
        return cls(
            next(filter(None, models), None),
            frozenset(filter(None, fingerprints)),
            tuple(map(read_grade, answers)),
        )

    def other_name(self, reply: Mapping[str, Any], clean: Clean) -> str | None:
        """The reason why a reply is not this model's, by what it names; None if it may be."""
        reason = self.other_model(_read_name(reply, "model", clean))
        if reason is not None:
            return reason
        fingerprint = _read_name(reply, "system_fingerprint", clean)
        if fingerprint and self.fingerprints and fingerprint not in self.fingerprints:
            known = ", ".join(map(repr, sorted(self.fingerprints)))
            return f"the server's system_fingerprint is now {fingerprint!r}, it was {known}"
        return None

    def other_model(self, model: str | None) -> str | None:
        """The reason why a model of this name is another one, or None."""
        if model is None or self.model in (None, model):
            return None
        return f"the server's model is now {model!r}, at the start it was {self.model!r}"

    @property
    def pair(self) -> tuple[int, int] | None:
        """The two questions, of a present thing and an absent one, with the widest gap of grades.

        One alone would miss a model that gives everything the grade of the first.
        """
        gaps = self._measure_gaps()
        return max(gaps, key=gaps.__getitem__, default=None)

    @property
    def tolerance(self) -> float:
        """Least change of a grade that tells another model from noise.

        Noise of batched GPUs is a tenth of a grade, which must not fail a run of thousands of
        checks: ``MIN_GRADE_GAP`` is five times the noise of a difference. Half of the gap, because
        a model that always gives the grade in the middle moves one of ``pair`` by as much.
        """
        return min(MIN_GRADE_GAP, max(self._measure_gaps().values(), default=math.inf) / 2)

    def agrees(self, again: Mapping[int, float | None]) -> bool:
        """True if the grades of some questions, by their places, are within the tolerance."""
        for place, grade in again.items():
            first = self.grades[place]
            if first is not None and (grade is None or abs(grade - first) >= self.tolerance):
                return False
        return True

    def _measure_gaps(self) -> dict[tuple[int, int], float]:
        """Places of a present thing and an absent one -> the difference of their grades."""
        half = len(PRESENT_THINGS)
        gaps = {}
        pairs = zip(self.grades[:half], self.grades[half:], strict=False)
        for place, (present, absent) in enumerate(pairs):
            if present is not None and absent is not None:
                gaps[place, place + half] = present - absent
        return gaps

    def to_json(self) -> str:
        return json.dumps([self.model, sorted(self.fingerprints), self.grades])

    @classmethod
    def from_json(cls, row: str) -> Identity:
        """Undo ``to_json``; ``ValueError`` or ``TypeError`` on anything else."""
        model, fingerprints, grades = json.loads(row)
        numbers = [None if grade is None else float(grade) for grade in grades]
        return cls(model, frozenset(fingerprints), tuple(numbers))

    def other_run(self, later: Identity, graded: bool) -> str | None:
        """The reason why a later run's model is another one, or None. Paths may have changed."""
        if self.model is not None and later.model is not None:
            first_name, name = PurePath(self.model).name, PurePath(later.model).name
            if first_name != name:
                return f"it named itself {first_name!r}, now {name!r}"
        comparable = graded and len(self.grades) == len(later.grades)
        if comparable and not self.agrees(dict(enumerate(later.grades))):
            first, now = _format_grades(self.grades), _format_grades(later.grades)
            return f"it graded the questions of the start {first}, now {now}"
        return None


def explain_unfit(url: str, answers: Sequence[Answer]) -> str | None:
    """Give the reason why a server's model cannot judge, by its answers to ``PROBE_QUESTION``.

    None if it can. ``check.check_judge`` asks a metric's own questions, but not for every command.
    """
    verdicts = [each for each in answers if isinstance(each, Verdict)]
    present, absent = verdicts[: len(PRESENT_THINGS)], verdicts[len(PRESENT_THINGS) :]
    doubtful = sum(each.grade is None or each.mass < DOUBTFUL_MASS for each in verdicts)
    reason = explain_doubtful_replies(doubtful / len(verdicts))
    high = sum(each.grade or 0.0 for each in present) / len(present)
    low = sum(each.grade or 0.0 for each in absent) / len(absent)
    if reason is None and high - low < MIN_GRADE_GAP:
        reason = (
            f"does not tell what is mentioned from what is not: grades {high:.1f} and {low:.1f}. "
            "Is it instruction-tuned, and large enough? (docs/local_judge.md)"
        )
    if reason is None:
        return None
    return (
        f"judge server {url}: the model {reason}. To use it nevertheless, set "
        f"{UNCHECKED_VARIABLE}=1 (score --unchecked)"
    )


def _read_name(reply: Mapping[str, Any], field: str, clean: Clean) -> str | None:
    value = reply.get(field)
    if not isinstance(value, str):
        return None
    return clean(value) or None


def read_grade(answer: Answer) -> float | None:
    """The grade of an answer; None if it has none."""
    if isinstance(answer, Verdict):
        return answer.grade
    return None


def _format_grades(grades: Sequence[float | None]) -> str:
    return ", ".join("none" if grade is None else f"{grade:.1f}" for grade in grades)
