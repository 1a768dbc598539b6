"""Asks for the entities of one pass, each under its candidate identifiers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.asking import SINGLY, Asking, Pace, answered, rewritten
from posh_reward.metrics.posh.questions import Candidate, Finding
from posh_reward.metrics.posh.roster import Roster
from posh_reward.types import (
    HIGHEST_GRADE,
    Description,
    Direction,
    Failure,
    Kind,
    Phrase,
    PromptImage,
    Question,
    Reply,
    Verdict,
)

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
