"""Protocols of judges and witnesses; ``judges/load_judge.py`` names what implements them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from posh_reward.metrics.posh.search import Pace
from posh_reward.models.model import sound_verdict
from posh_reward.types import LABELS, Phrase, Question, Reply, Usage, Verdict


class Witness(Protocol):
    """A source of answers about images: a judge that sees, or one that knows the drawing.

    A question that the image does not settle is a failure of kind ``reply``, never a guess.
    """

    @property
    def name(self) -> str:
        """Model and revision, for signatures: the same name gives the same answers."""
        ...

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds so far."""
        ...

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""
        ...

    def sleep(self) -> None:
        """Free what can be freed between batches (GPU memory)."""
        ...

    def wake(self) -> None:
        """Get ready for a batch; undoes ``sleep``."""
        ...

    def close(self) -> None:
        """Release everything; the judge is not used again."""
        ...


class Judge(Witness, Protocol):
    """A source of answers about descriptions. One bad request never spoils its neighbours."""

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        """A fluent noun phrase for each raw identifier, in order."""
        ...


def pace_of(judge: Judge) -> Pace:
    """The judge's own ``pace`` if it has one, else lazy."""
    pace: Pace = getattr(judge, "pace", "lazy")
    return pace


def base_judge(judge: Judge) -> Judge:
    """The judge behind those that pass questions on, such as a cascade: their ``judge``."""
    return stages(judge)[-1]


def stages(judge: Judge) -> list[Judge]:
    """All judges that answer: the base, and before it the first stages of cascades."""
    firsts: list[Judge] = []
    while hasattr(judge, "judge"):
        firsts += [each for each in (getattr(judge, "first", None),) if each is not None]
        judge = judge.judge
    return [*firsts, judge]


def sound_grade(verdict: object) -> Verdict:
    """The verdict if it is one over POSH's five labels, else a failure (``sound_verdict``)."""
    return sound_verdict(verdict, len(LABELS))


def who_wakes(judge: Judge, witness: Witness | None) -> list[Witness]:
    """The judge and the witness; a model that is both stands once."""
    return [judge] if witness is None or one_model(judge, witness) else [judge, witness]


def one_model(judge: Judge, witness: Witness) -> bool:
    """True if the same model, with one total, answers for both."""
    return base_judge(judge).usage is witness.usage
