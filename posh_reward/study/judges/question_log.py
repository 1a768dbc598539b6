"""A judge that passes questions on to another, and notes them with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posh_reward.metrics.posh.judges.judge import Judge, pace_of, sound_grade
from posh_reward.metrics.posh.search import Pace
from posh_reward.models.model import sound_reply
from posh_reward.types import Direction, Kind, Phrase, Question, Reply, Usage, Verdict


class QuestionKey(NamedTuple):
    """Identity of a question, for judges with the same or with other scene graphs."""

    direction: Direction
    kind: Kind
    identifier: str
    text: str | None
    other: str | None
    source: str
    target: str
    entity: int  # the embedded judge answers about this one; two of a text may share an identifier
    other_entity: int | None


def key_of(question: Question) -> QuestionKey:
    """The key of a question; descriptions count by their texts."""
    return QuestionKey(
        question.direction, question.kind, question.identifier, question.text, question.other,
        question.source.text, question.target.text, question.entity, question.other_entity,
    )  # fmt: skip


class QuestionLog:
    """Answers as ``judge`` does, and notes each question and phrase once."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.questions: dict[QuestionKey, Question] = {}
        self.verdicts: dict[QuestionKey, Verdict] = {}
        """Failures included; where a question came twice, the last answer."""
        self.replies: dict[Phrase, Reply] = {}

    @property
    def name(self) -> str:
        """The judge's own: noting changes no answer."""
        return self.judge.name

    @property
    def usage(self) -> Usage:
        """The judge's own."""
        return self.judge.usage

    @property
    def pace(self) -> Pace:
        """The judge's own."""
        return pace_of(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """The judge's verdicts."""
        verdicts = list(map(sound_grade, self.judge.grade(questions)))
        keys = list(map(key_of, questions))
        self.questions.update(zip(keys, questions, strict=True))
        self.verdicts.update(zip(keys, verdicts, strict=True))
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """The judge's phrases."""
        replies = list(map(sound_reply, self.judge.rewrite(phrases)))
        self.replies.update(zip(phrases, replies, strict=True))
        return replies

    def sleep(self) -> None:
        """Put the judge to sleep."""
        self.judge.sleep()

    def wake(self) -> None:
        """Wake the judge."""
        self.judge.wake()

    def close(self) -> None:
        """Close the judge."""
        self.judge.close()
