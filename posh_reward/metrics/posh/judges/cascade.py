"""A judge in two steps: the embedded one settles what is plain, and another is asked the rest.

Plain is what the target says in the same words, and a thing of which it has not one word.
Not exact, so off unless it is asked for, and named in the signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from posh_reward.errors import InputError
from posh_reward.lexicon.function_words import FUNCTION_WORDS, words_of
from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.embedded.embedded_judge import distribution
from posh_reward.metrics.posh.judges.judge import Judge, pace_of, sound_grade
from posh_reward.metrics.posh.search import Pace
from posh_reward.types import LABELS, LOWEST_GRADE, Phrase, Question, Reply, Usage, Verdict

Wording = Literal["same", "other", "none"]
"""same: every word of the question stands in the target. none: not one does, not even within a
longer word (function words apart)."""

VERBATIM = Verdict(distribution(1.0, len(LABELS)))
ABSENT = Verdict(distribution(0.0, len(LABELS)))


class Cascade:
    """A judge that asks another one only what the embedded judge cannot settle.

    Settled as explicit: what the text says in the same words and the embedded judge grades at
    least ``high``. Settled as absent: an entity of which the text has no word, and which the
    embedded judge grades below ``low``. Attributes and relations are never settled as absent, since
    other words may say them. Phrases are rewritten by ``judge``, and its failures stay failures.

    Args:
        judge: answers the rest.
        low: grade, 1 to 5; at 1 nothing is settled as absent.
        high: grade, 1 to 5; above 5 nothing is settled as explicit.

    Raises:
        InputError: ``low`` is not below ``high``, or ``judge`` is not a judge.
    """

    def __init__(self, judge: Judge, *, low: float = 2.25, high: float = 4.5) -> None:
        if not LOWEST_GRADE <= low < high:
            raise InputError(f"low is {low} and high {high}: low must be from 1 and below high")
        if not hasattr(judge, "grade"):
            raise InputError(f"judge is {judge!r}: give a Judge")
        self.judge = judge
        self.settled = 0
        """Questions that ``judge`` was not asked."""
        self._embedded = EmbeddedJudge()
        self._low, self._high = low, high

    @property
    def name(self) -> str:
        """Both judges and both thresholds."""
        return f"cascade-1:{self._low:g}-{self._high:g}:{self._embedded.name}+{self.judge.name}"

    @property
    def usage(self) -> Usage:
        """Of ``judge``: what is settled is not counted there."""
        return self.judge.usage

    @property
    def pace(self) -> Pace:
        """That of ``judge``."""
        return pace_of(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""
        plain = [self._settle(question) for question in questions]
        hard = [r for r, verdict in zip(questions, plain, strict=True) if verdict is None]
        self.settled += len(questions) - len(hard)
        answers = iter(self.judge.grade(hard) if hard else ())
        return [verdict or next(answers) for verdict in plain]

    def _settle(self, question: Question) -> Verdict | None:
        wording = wording_of(question)
        if wording == "other" or (wording == "none" and question.kind != "entity"):
            return None
        grade = sound_grade(self._embedded.grade([question])[0]).grade
        if grade is None:
            return None
        if wording == "same":
            return VERBATIM if grade >= self._high else None
        return ABSENT if grade < self._low else None

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        """The other judge's phrases."""
        return self.judge.rewrite(questions)

    def sleep(self) -> None:
        """Put both to sleep."""
        self._embedded.sleep()
        self.judge.sleep()

    def wake(self) -> None:
        """Wake the other judge."""
        self.judge.wake()

    def close(self) -> None:
        """Close both."""
        self._embedded.close()
        self.judge.close()


def wording_of(question: Question) -> Wording:
    """Overlap of the question's words with those of its target."""
    phrase = question.identifier if question.kind == "entity" else question.text or ""
    words = _words(phrase)
    if words and words <= _words(question.target.text):
        return "same"
    text = question.target.text.lower()
    return "other" if not words or any(word in text for word in words) else "none"


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """The content words of a text."""
    return frozenset(words_of(text)) - FUNCTION_WORDS
