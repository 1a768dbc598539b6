"""Protocols of judges and witnesses; ``load_judge.py`` lists the implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from posh_reward.models.model import Sleepable
from posh_reward.types import Phrase, Question, Reply, Usage, Verdict


class Witness(Sleepable, Protocol):
    """A source of answers about images: a judge that sees, or one that knows the drawing.

    A question that the image does not settle is a failure of kind ``reply``, never a guess.
    """

    @property
    def name(self) -> str:
        """Model and revision, for signatures: the same name gives the same answers."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds so far."""

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""

    def close(self) -> None:
        """Release everything; the judge is not used again."""


class Judge(Witness, Protocol):
    """A source of answers about descriptions. A bad question does not affect the others."""

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """A fluent form of each phrase, in order."""


def base_judge(judge: Judge) -> Judge:
    """The judge behind those that pass questions on to their ``judge``, such as a cascade."""
    return stages(judge)[-1]


def stages(judge: Judge) -> list[Judge]:
    """All judges that answer: the first stages of cascades, and the base judge at the end."""
    first_stages: list[Judge] = []
    while hasattr(judge, "judge"):
        first = getattr(judge, "first", None)
        first_stages += [] if first is None else [first]
        judge = judge.judge
    return [*first_stages, judge]
