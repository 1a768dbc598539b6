"""Identity of a server's model: its names in replies, its answers to the questions of the start."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from posh_reward.models.model import DOUBTFUL, not_grades
from posh_reward.settings import UNCHECKED_VARIABLE
from posh_reward.types import Reply, Verdict

PROBE = (
    "DESCRIPTION: A dog sleeps.\n\n"
    'Q: Is "{}" mentioned?\n\n'
    "Respond ONLY with an integer from 1 (not mentioned) to 5 (clearly mentioned)."
)
PRESENT, ABSENT = ("dog", "A dog"), ("ship", "A ship")
"""Questions of ``PROBE``: about things that its description mentions, and does not."""
LEAST_GAP = 0.75
"""Least distance of the mean grades of both, as ``check.LEAST_GAP`` is of scores, a fifth."""
OTHER_GRADES = "the server answers the questions of the start differently: is it another model?"

Answer = Verdict | Reply
Clean = Callable[[str], str]  # sanitise a server's words


@dataclass(frozen=True, slots=True)
class StartQuestions:
    """The questions of the start, which are repeated to find out whether the model is the same."""

    bodies: tuple[Mapping[str, Any], ...]  # requests about PRESENT, then ABSENT; one without grades
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
        models = [_told(reply, "model", clean) for reply in replies]
        fingerprints = {_told(reply, "system_fingerprint", clean) for reply in replies}
        grades = (each.grade if isinstance(each, Verdict) else None for each in answers)
        return cls(
            next(filter(None, models), None), frozenset(filter(None, fingerprints)), tuple(grades)
        )

    def other_name(self, reply: Mapping[str, Any], clean: Clean) -> str | None:
        """The reason why a reply is not this model's, by what it names; None if it may be."""
        reason = self.other_model(_told(reply, "model", clean))
        if reason is not None:
            return reason
        fingerprint = _told(reply, "system_fingerprint", clean)
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
        gaps = self._gaps()
        return max(gaps, key=lambda pair: gaps[pair]) if gaps else None

    @property
    def tolerance(self) -> float:
        """Least change of a grade that tells another model from noise.

        Noise of batched GPUs is a tenth of a grade, which must not fail a run of thousands of
        checks: ``LEAST_GAP`` is five times the noise of a difference. Half of the gap, because a
        model that always gives the grade in the middle moves one of ``pair`` by as much.
        """
        return min(LEAST_GAP, max(self._gaps().values(), default=math.inf) / 2)

    def agrees(self, again: Mapping[int, float | None]) -> bool:
        """True if the grades of some questions, by their places, are within the tolerance."""
        for place, grade in again.items():
            first = self.grades[place]
            if first is not None and (grade is None or abs(grade - first) >= self.tolerance):
                return False
        return True

    def _gaps(self) -> dict[tuple[int, int], float]:
        half = len(PRESENT)
        pairs = zip(self.grades[:half], self.grades[half:], strict=False)
        return {
            (place, place + half): present - absent
            for place, (present, absent) in enumerate(pairs)
            if present is not None and absent is not None
        }

    def to_json(self) -> str:
        return json.dumps([self.model, sorted(self.fingerprints), self.grades])

    @classmethod
    def from_json(cls, row: str) -> Identity:
        """Undo ``to_json``; ``ValueError`` or ``TypeError`` on anything else."""
        model, fingerprints, grades = json.loads(row)
        numbers = (None if grade is None else float(grade) for grade in grades)
        return cls(model, frozenset(fingerprints), tuple(numbers))

    def other_run(self, later: Identity, graded: bool) -> str | None:
        """The reason why a later run's model is another one, or None. Paths may have changed."""
        names = [each and PurePath(each).name for each in (self.model, later.model)]
        if None not in names and names[0] != names[1]:
            return f"it named itself {names[0]!r}, now {names[1]!r}"
        comparable = graded and len(self.grades) == len(later.grades)
        if comparable and not self.agrees(dict(enumerate(later.grades))):
            first, now = (_shown(each.grades) for each in (self, later))
            return f"it graded the questions of the start {first}, now {now}"
        return None


def unfit(url: str, answers: Sequence[Answer]) -> str | None:
    """Give the reason why a server's model cannot judge, from its answers to ``PROBE``, or None.

    ``check.check_judge`` asks a metric's own questions, but not for every command.
    """
    verdicts = [each for each in answers if isinstance(each, Verdict)]
    present, absent = verdicts[: len(PRESENT)], verdicts[len(PRESENT) :]
    doubtful = sum(each.grade is None or each.mass < DOUBTFUL for each in verdicts)
    reason = not_grades(doubtful / len(verdicts))
    high, low = (sum(each.grade or 0.0 for each in part) / len(part) for part in (present, absent))
    if reason is None and high - low < LEAST_GAP:
        reason = (
            f"does not tell what is mentioned from what is not: grades {high:.1f} and {low:.1f}. "
            "Is it instruction-tuned, and large enough? (docs/local_judge.md)"
        )
    if reason is None:
        return None
    return (
        f"judge server {url}: the model {reason}. To use it nevertheless, set "
        f"{UNCHECKED_VARIABLE}=1 "
        "(score --unchecked)"
    )


def _told(reply: Mapping[str, Any], field: str, clean: Clean) -> str | None:
    value = reply.get(field)
    return (clean(value) or None) if isinstance(value, str) else None


def _shown(grades: Sequence[float | None]) -> str:
    return ", ".join("none" if grade is None else f"{grade:.1f}" for grade in grades)
