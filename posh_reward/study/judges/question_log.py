"""Judge wrapper that records questions and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posh_reward.metrics.posh.judges.judge import Judge, pace_of, sound_grade
from posh_reward.metrics.posh.search import Pace
from posh_reward.models.model import sound_reply
from posh_reward.types import Direction, Kind, Phrase, Question, Reply, Usage, Verdict


class QuestionKey(NamedTuple):
    """Identity of a question, also across different scene graphs."""

    direction: Direction
    kind: Kind
    identifier: str
    text: str | None
    other: str | None
    source: str
    target: str
    entity: int  # two entities of a text may share an identifier
    other_entity: int | None


def key_of(question: Question) -> QuestionKey:
    """Return the key of a question; descriptions are identified by their texts."""
    return QuestionKey(
        question.direction, question.kind, question.identifier, question.text, question.other,
        question.source.text, question.target.text, question.entity, question.other_entity,
    )  # fmt: skip


class QuestionLog:
    """Answers as ``judge`` does, and records each question and phrase once."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.questions: dict[QuestionKey, Question] = {}
        self.verdicts: dict[QuestionKey, Verdict] = {}
        """Includes failures; the last answer to a repeated question."""
        self.replies: dict[Phrase, Reply] = {}

    @property
    def name(self) -> str:
        """Name of the judge: recording changes no answer."""
        return self.judge.name

    @property
    def usage(self) -> Usage:
        """Usage of the judge."""
        return self.judge.usage

    @property
    def pace(self) -> Pace:
        """Pace of the judge."""
        return pace_of(self.judge)

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """Return the judge's verdicts."""
        verdicts = list(map(sound_grade, self.judge.grade(questions)))
        keys = list(map(key_of, questions))
        self.questions.update(zip(keys, questions, strict=True))
        self.verdicts.update(zip(keys, verdicts, strict=True))
        return verdicts

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """Return the judge's rewritten phrases."""
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
