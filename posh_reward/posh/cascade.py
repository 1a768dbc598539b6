"""A judge that asks another one only what a first stage cannot settle."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

from posh_reward.embedded.english.word_classes import plain_tokens, spell, split_words
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.embedded.judge.embedded_judge import binomial_distribution
from posh_reward.errors import InputError
from posh_reward.posh.judge import Judge
from posh_reward.posh.search import Pace, check_grade, get_pace
from posh_reward.types import LABELS, LOWEST_GRADE, Phrase, Question, Reply, Usage, Verdict
from posh_reward.words import FUNCTION_WORDS

Wording = Literal["same", "other", "none"]
"""Content words of a question in its target. same: all of them. none: not one, not even within a
longer word."""

VERBATIM_VERDICT = Verdict(binomial_distribution(1.0, len(LABELS)))
ABSENT_VERDICT = Verdict(binomial_distribution(0.0, len(LABELS)))


class Cascade:
    """A judge that asks another one only what a first stage cannot settle.

    The embedded judge settles an element as explicit if the target states it in the same words and
    its grade is at least ``high``. It settles an entity as absent if its words are all missing from
    the target and its grade is below ``low``; never attributes and relations, since other words may
    express them. Another judge as ``first`` settles what it answers with at most ``doubt``.

    ``judge`` rewrites the phrases, and its failures stay failures.

    Args:
        judge: answers the rest.
        low: grade, 1 to 5; at 1 nothing is settled as absent.
        high: grade, 1 to 5; above 5 nothing is settled as explicit.
        first: first stage, in place of the embedded judge and its two thresholds.
        doubt: maximum uncertainty (``measure_uncertainty``) with which ``first`` settles a
            question; at 2 it settles all.

    Raises:
        InputError: ``low`` is not below ``high``, ``doubt`` is below 0, or ``judge`` or ``first``
            is not a judge.
    """

    takes_images = False

    def __init__(
        self,
        judge: Judge,
        *,
        low: float = 2.25,
        high: float = 4.5,
        first: Judge | None = None,
        doubt: float = 0.5,
    ) -> None:
        if not LOWEST_GRADE <= low < high:
            raise InputError(f"low is {low} and high {high}: low must be at least 1, below high")
        if not doubt >= 0:
            raise InputError(f"doubt is {doubt}: use 0 or more")
        for name, each in (("judge", judge), ("first", first)):
            if not (hasattr(each, "grade") or (name == "first" and each is None)):
                raise InputError(f"{name} is {each!r}: pass a Judge")
        self.judge = judge
        self.first = first
        self.first_answers = 0  # questions that the first stage settled
        self._embedded = EmbeddedJudge()
        self._low, self._high, self._doubt = low, high, doubt

    @property
    def name(self) -> str:
        if self.first is not None:
            return f"cascade-1:doubt-{self._doubt:g}:{self.first.name}+{self.judge.name}"
        return f"cascade-1:{self._low:g}-{self._high:g}:{self._embedded.name}+{self.judge.name}"

    @property
    def usage(self) -> Usage:
        if self.first is None:
            return self.judge.usage
        return self.first.usage + self.judge.usage

    @property
    def pace(self) -> Pace:
        return get_pace(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        if self.first is None:
            settled = list(map(self._settle_question, questions))
        else:
            settled = list(map(self._keep_if_certain, self.first.grade(questions)))
        left = [q for q, verdict in zip(questions, settled, strict=True) if verdict is None]
        self.first_answers += len(questions) - len(left)
        answers = iter(self.judge.grade(left) if left else ())
        return [verdict or next(answers) for verdict in settled]

    def _keep_if_certain(self, verdict: Verdict) -> Verdict | None:
        checked = check_grade(verdict)
        if checked.probabilities and measure_uncertainty(checked) <= self._doubt:
            return checked
        return None

    def _settle_question(self, question: Question) -> Verdict | None:
        wording = compare_wording(question)
        if wording == "other" or (wording == "none" and question.kind != "entity"):
            return None
        grade = check_grade(self._embedded.grade([question])[0]).grade
        if grade is None:
            return None
        if wording == "same":
            return VERBATIM_VERDICT if grade >= self._high else None
        return ABSENT_VERDICT if grade < self._low else None

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        return self.judge.rewrite(phrases)

    def sleep(self) -> None:
        (self.first or self._embedded).sleep()
        self.judge.sleep()

    def wake(self) -> None:
        (self.first or self._embedded).wake()
        self.judge.wake()

    def close(self) -> None:
        (self.first or self._embedded).close()
        self.judge.close()


def measure_uncertainty(verdict: Verdict) -> float:
    """Standard deviation of the label under a verdict's distribution, 0 to 2."""
    grade = verdict.grade
    if grade is None or verdict.probabilities is None:
        raise InputError("a failed judgment has no doubt: it has no distribution")
    labels = enumerate(verdict.probabilities, start=1)
    variance = fsum(probability * (label - grade) ** 2 for label, probability in labels)
    return float(max(variance, 0.0) ** 0.5)


def compare_wording(question: Question) -> Wording:
    """Compare a question's content words with those of its target."""
    phrase = question.identifier if question.kind == "entity" else question.text or ""
    words = frozenset(split_words(phrase)) - FUNCTION_WORDS
    if not words:
        return "other"
    target = question.target
    if words.issubset(spell(token.text) for token in target.tokens or plain_tokens(target.text)):
        return "same"
    text = target.text.lower()
    return "other" if any(word in text for word in words) else "none"
