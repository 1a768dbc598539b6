"""Passes 1 and 2: entities, each asked for under its candidate identifiers.

Generators ask: each yields an ``Ask``, is sent the answers, and so knows nothing of batches;
``lockstep`` runs many of them side by side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from posh_reward.metrics.posh.questions import CandidateName, Finding, Roster, candidates
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

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Pace = Literal["lazy", "brisk", "eager"]
"""lazy: an entity's candidates one after another, and only those that can still win: the fewest
tokens. brisk: the rewrites of all candidates of a pass in one call, then their questions in few
calls: the fewest waits. eager: all that the release asks, at once. No score depends on it."""

SINGLY: dict[Pace, float] = {"lazy": math.inf, "brisk": 1, "eager": 0}
"""Calls of a pass that ask about one candidate of each entity; the next asks about all the rest.
Measured in docs/performance.md."""

NO_VERDICT = Failure("error", "no candidate was judged")


class Ask(NamedTuple):
    """Phrases to rewrite, or questions to answer, in one call."""

    turn: tuple[int, int, int]
    """Pass, wave, and 0 for rewrites or 1 for questions. Examinations side by side wait for those
    that are at an earlier turn, so that each turn is one call to the judge."""
    items: list[Phrase] | list[Question]


Answers = Sequence[Reply] | Sequence[Verdict]
T = TypeVar("T")
Asking = Generator[Ask, Answers, T]  # yields asks, is sent their answers, and returns a T


def is_rewrites(items: list[Phrase] | list[Question]) -> TypeIs[list[Phrase]]:
    """True for phrases to rewrite, False for questions."""
    return isinstance(items[0], Phrase)


def rewrite(turn: tuple[int, int], phrases: list[Phrase]) -> Asking[list[Reply]]:
    """Ask for rewrites, if there are any; one reply each, in order."""
    answers = (yield Ask((*turn, 0), phrases)) if phrases else ()
    return [answer for answer in answers if isinstance(answer, Reply)]


def grade(turn: tuple[int, int], questions: list[Question]) -> Asking[list[Verdict]]:
    """Ask questions, if there are any; one verdict each, in order."""
    answers = (yield Ask((*turn, 1), questions)) if questions else ()
    return [answer for answer in answers if isinstance(answer, Verdict)]


@dataclass(slots=True)
class Inquiry:
    """One direction of one pair while it is examined, with what is known of its entities."""

    source: Description
    target: Description
    direction: Direction
    roster: Roster
    findings: dict[int, Finding]  # by entity index; those of later passes are missing
    failures: dict[int, Failure] = field(default_factory=dict)  # by entity index, if one failed
    unparsed: int = 0  # replies so far that held no label

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
class _EntitySearch:
    """An entity whose candidates are being asked about, in order of rank."""

    entity: int
    queue: deque[CandidateName]
    best: Finding | None = None
    failure: Failure | None = None

    @property
    def is_settled(self) -> bool:
        """True where no candidate in the queue could change the finding.

        Only a higher *rounded* grade replaces the best (the release's rule), so nothing beats a
        rounded 5: most entities need one question instead of one for each candidate.
        """
        unbeatable = self.best is not None and round(self.best.grade) >= HIGHEST_GRADE
        return unbeatable or self.failure is not None

    def take(self, identifier: str, verdict: Verdict) -> None:
        grade = verdict.grade
        if grade is None:
            self.failure = verdict.failure
        elif self.best is None or round(grade) > round(self.best.grade):
            self.best = Finding(identifier, grade)


_Way = tuple[_EntitySearch, CandidateName]


def look_for(inquiry: Inquiry, entities: Sequence[int], number: int, pace: Pace) -> Asking[None]:
    """Look for the entities of pass ``number`` side by side; findings are filed at its end."""
    # All names are made before anything is asked: within a pass no entity sees the findings of
    # another, so all of them can be asked side by side.
    searches = [
        _EntitySearch(entity, deque(candidates(inquiry.roster, entity, inquiry.findings)))
        for entity in entities
    ]
    fluent: dict[Phrase, Reply] = {}
    for wave in count():
        asking = [search for search in searches if search.queue and not search.is_settled]
        if not asking:
            break
        pending = [(search, name) for search in asking for name in search.queue]
        batch = [way for search in asking for way in _next(search, wave, pace)]
        # Lazily a candidate is rewritten when its turn comes; otherwise all at once, which costs
        # rewrites that the grades make needless, but no further wait.
        phrases = _phrases(batch if pace == "lazy" else pending, fluent)
        replies = yield from rewrite((number, wave), phrases)
        fluent.update(zip(phrases, replies, strict=True))
        yield from _ask_wave(inquiry, batch, fluent, (number, wave))
    for search in searches:
        if search.failure is None and search.best is not None:
            inquiry.findings[search.entity] = search.best
        else:
            inquiry.failures[search.entity] = search.failure or NO_VERDICT


def _next(search: _EntitySearch, wave: int, pace: Pace) -> list[_Way]:
    many = 1 if wave < SINGLY[pace] else len(search.queue)
    return [(search, search.queue.popleft()) for _ in range(many)]


def _phrases(ways: list[_Way], fluent: dict[Phrase, Reply]) -> list[Phrase]:
    raw = [Phrase(name.text, name.rewrite) for _, name in ways if name.rewrite is not None]
    return [phrase for phrase in raw if phrase not in fluent]


def _ask_wave(
    inquiry: Inquiry, wave: list[_Way], fluent: dict[Phrase, Reply], turn: tuple[int, int]
) -> Asking[None]:
    """Ask about some candidates, and take the answers in the order of their ranks.

    The answer that settles an entity is the last that counts, so it makes no difference whether
    later ones were asked for: not even if their judgment failed.
    """
    replies = [
        Reply(name.text) if name.rewrite is None else fluent[Phrase(name.text, name.rewrite)]
        for _, name in wave
    ]
    questions = [
        inquiry.question(
            "entity", search.entity, reply.text, raw=None if name.rewrite is None else name.text
        )
        for (search, name), reply in zip(wave, replies, strict=True)
        if reply.text is not None
    ]
    verdicts = iter((yield from grade(turn, questions)))
    for (search, _), reply in zip(wave, replies, strict=True):
        verdict = Verdict(None, reply.failure) if reply.text is None else next(verdicts)
        if not search.is_settled:
            search.take(reply.text or "", verdict)
            inquiry.unparsed += verdict.unparsed
