"""Asks for the entities of one pass, each under its candidate identifiers."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from posh_reward.types import Phrase, Question, Reply, Verdict

if TYPE_CHECKING:
    from typing_extensions import TypeIs
from collections import deque
from dataclasses import dataclass, field
from itertools import count

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.questions import Candidate, Finding, Roster
from posh_reward.types import (
    HIGHEST_GRADE,
    Description,
    Direction,
    Failure,
    Kind,
    PromptImage,
)

Pace = Literal["lazy", "brisk", "eager"]
"""lazy: an entity's candidates one after another, and only those that can still win: the fewest
tokens. brisk: the rewrites of all candidates of a pass in one call, then their questions in few
calls: the fewest waits. eager: all that the release asks, at once."""

SINGLY: dict[Pace, float] = {"lazy": math.inf, "brisk": 1, "eager": 0}
"""How many calls of a pass ask about one candidate of each entity; the next asks about all the
rest. Measured in docs/performance.md."""


class Ask(NamedTuple):
    """What an examination wants answered next."""

    turn: tuple[int, int, int]
    """Pass, wave, and 0 for rewrites or 1 for questions. Examinations side by side wait for those
    that are at an earlier turn, so that each turn is one call to the judge."""
    items: list[Phrase] | list[Question]


Answers = Sequence[Reply] | Sequence[Verdict]
T = TypeVar("T")
Asking = Generator[Ask, Answers, T]
"""Yields what it wants answered, is sent the answers, and returns a ``T``."""


def is_rewrites(items: list[Phrase] | list[Question]) -> TypeIs[list[Phrase]]:
    """Whether phrases are to be rewritten rather than questions answered."""
    return isinstance(items[0], Phrase)


def rewritten(turn: tuple[int, int], phrases: list[Phrase]) -> Asking[list[Reply]]:
    """Asks for rewrites, if there are any; one reply each, in order."""
    answers = (yield Ask((*turn, 0), phrases)) if phrases else ()
    return [answer for answer in answers if isinstance(answer, Reply)]


def answered(turn: tuple[int, int], questions: list[Question]) -> Asking[list[Verdict]]:
    """Asks questions, if there are any; one verdict each, in order."""
    answers = (yield Ask((*turn, 1), questions)) if questions else ()
    return [answer for answer in answers if isinstance(answer, Verdict)]


UNJUDGED = Failure("error", "no candidate was judged")


@dataclass(slots=True)
class Knowledge:
    """What one examination has found out so far."""

    source: Description
    target: Description
    direction: Direction
    roster: Roster
    found: dict[int, Finding]
    failed: dict[int, Failure] = field(default_factory=dict)
    """Entities whose judgment failed, with the reason."""
    unparsed: int = 0

    def question(
        self,
        kind: Kind,
        entity: int,
        identifier: str,
        text: str | None = None,
        other: str | None = None,
        other_entity: int | None = None,
        raw: str | None = None,
        image: PromptImage | None = None,
    ) -> Question:
        """A question about one of the source's entities."""
        return Question(
            self.direction, kind, identifier, self.source, self.target, entity, text, other,
            other_entity, raw, image,
        )  # fmt: skip


@dataclass(slots=True)
class _Search:
    """An entity that is being asked for: what has been heard, and what is left to ask."""

    entity: int
    left: deque[Candidate]
    best: Finding | None = None
    failure: Failure | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing that is left could change what the entity was found to be."""
        beaten = self.best is not None and round(self.best.grade) >= HIGHEST_GRADE
        return beaten or self.failure is not None

    def hear(self, identifier: str, verdict: Verdict) -> None:
        """A later candidate replaces an earlier one only with a higher rounded grade."""
        grade = verdict.grade
        if grade is None:
            self.failure = verdict.failure
        elif self.best is None or round(grade) > round(self.best.grade):
            self.best = Finding(identifier, grade)


_Way = tuple[_Search, Candidate]


def look_for(known: Knowledge, entities: Sequence[int], number: int, pace: Pace) -> Asking[None]:
    """Asks for one pass's entities, all of them side by side.

    Args:
        known: what has been found out; what this pass finds is added at its end.
        entities: those of this pass.
        number: of the pass, from 1.
        pace: how much is asked at a time.
    """
    searches = [
        _Search(entity, deque(questions.candidates(known.roster, entity, known.found)))
        for entity in entities
    ]
    fluent: dict[Phrase, Reply] = {}
    for wave in count():
        asking = [search for search in searches if search.left and not search.settled]
        if not asking:
            break
        left = [(search, way) for search in asking for way in search.left]
        now = [each for search in asking for each in _next(search, wave, pace)]
        raw = _phrases(now if pace == "lazy" else left, fluent)
        replies = yield from rewritten((number, wave), raw)
        fluent.update(zip(raw, replies, strict=True))
        yield from _ask_wave(known, now, fluent, (number, wave))
    for search in searches:
        if search.failure is None and search.best is not None:
            known.found[search.entity] = search.best
        else:
            known.failed[search.entity] = search.failure or UNJUDGED


def _next(search: _Search, wave: int, pace: Pace) -> list[_Way]:
    """What a wave asks about an entity: its next candidate, or all that are left."""
    many = 1 if wave < SINGLY[pace] else len(search.left)
    return [(search, search.left.popleft()) for _ in range(many)]


def _phrases(ways: list[_Way], known: dict[Phrase, Reply]) -> list[Phrase]:
    """What has to be rewritten and was not yet."""
    raw = [Phrase(way.text, way.rewrite) for _, way in ways if way.rewrite is not None]
    return [each for each in raw if each not in known]


def _ask_wave(
    known: Knowledge,
    wave: list[_Way],
    fluent: dict[Phrase, Reply],
    turn: tuple[int, int],
) -> Asking[None]:
    """Asks about some candidates, and hears the answers in the order of their ranks.

    What comes after the answer that settles an entity is not heard, so it makes no difference
    whether it was asked: not even if that judgment failed.
    """
    called = [_called(way, fluent) for _, way in wave]
    questions = [
        known.question(
            "entity", search.entity, reply.text, raw=None if way.rewrite is None else way.text
        )
        for (search, way), reply in zip(wave, called, strict=True)
        if reply.text is not None
    ]
    verdicts = iter((yield from answered(turn, questions)))
    for (search, _), reply in zip(wave, called, strict=True):
        verdict = Verdict(None, reply.failure) if reply.text is None else next(verdicts)
        if not search.settled:
            search.hear(reply.text or "", verdict)
            known.unparsed += verdict.unparsed


def _called(way: Candidate, fluent: dict[Phrase, Reply]) -> Reply:
    """What a candidate is called in its question, or why it cannot be asked about."""
    return Reply(way.text) if way.rewrite is None else fluent[Phrase(way.text, way.rewrite)]
