"""Passes 1 and 2: find entities, each asked about under its candidate names.

``search_entities`` and what it calls are generators: each yields a ``Request`` and is sent the
answers. So they know nothing of batches; ``batch.run_batched`` runs many of them side by side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, NamedTuple, TypeVar

from posh_reward.models.model import DOUBTFUL_MASS, check_verdict
from posh_reward.posh.names import CandidateName, EntityMatch, GraphIndex, name_candidates
from posh_reward.types import (
    HIGHEST_GRADE,
    LABELS,
    Description,
    Direction,
    Failure,
    Phrase,
    Question,
    Reply,
    Verdict,
)

Pace = Literal["lazy", "batched", "eager"]
"""lazy: an entity's candidates one after another, as long as one can still win: fewest tokens.
batched: all rewrites of a pass in one call, then its questions in few calls: fewest waits.
eager: everything that the release asks, at once. Scores do not depend on it."""

SINGLE_CANDIDATE_WAVES: dict[Pace, float] = {"lazy": math.inf, "batched": 1, "eager": 0}
"""Waves of a pass that ask about one candidate of each entity; the next asks about all others.
Measured in research/results/performance.md."""

NO_VERDICT = Failure("error", "no candidate was judged")


def get_pace(judge: object) -> Pace:
    """The judge's own ``pace``; lazy if it has none."""
    pace: Pace = getattr(judge, "pace", "lazy")
    return pace


def check_grade(verdict: object) -> Verdict:
    """Return the verdict if it is a valid one over POSH's labels, else a failure."""
    return check_verdict(verdict, len(LABELS))


class Request(NamedTuple):
    """Phrases to rewrite or questions to answer, in one call."""

    turn: tuple[int, int, int]
    """Pass, wave, and 0 for rewrites or 1 for questions. Examinations wait for others at an earlier
    turn, so that each turn is one call to the judge."""
    items: list[Phrase] | list[Question]


Answers = Sequence[Reply] | Sequence[Verdict]
T = TypeVar("T")
RequestGenerator = Generator[Request, Answers, T]
"""A generator that yields requests, is sent their answers, and returns a T."""


def request_rewrites(turn: tuple[int, int], phrases: list[Phrase]) -> RequestGenerator[list[Reply]]:
    """Request rewrites, if any; one reply per phrase, in order."""
    if not phrases:
        return []
    answers = yield Request((*turn, 0), phrases)
    return [answer for answer in answers if isinstance(answer, Reply)]


def request_grades(
    turn: tuple[int, int], questions: list[Question]
) -> RequestGenerator[list[Verdict]]:
    """Ask questions, if any; one verdict per question, in order."""
    if not questions:
        return []
    answers = yield Request((*turn, 1), questions)
    return [answer for answer in answers if isinstance(answer, Verdict)]


@dataclass(slots=True)
class SearchState:
    """State of one direction of one pair while it is examined."""

    source: Description
    target: Description
    direction: Direction
    graph_index: GraphIndex
    matches: dict[int, EntityMatch]  # by entity index, as far as found
    failures: dict[int, Failure] = field(default_factory=dict)  # by entity index, if one failed
    replies: int = 0  # that count, so far
    unparsed: int = 0  # of these, replies without a label
    doubtful: int = 0  # of these, replies that were more likely no label than one

    def count_reply(self, verdict: Verdict) -> None:
        """Count a reply; a failed judgment is none."""
        if verdict.probabilities is not None:
            self.replies += 1
            self.unparsed += verdict.unparsed
            self.doubtful += verdict.mass < DOUBTFUL_MASS


@dataclass(slots=True)
class _EntitySearch:
    """An entity whose candidates are asked about in order of rank."""

    entity: int
    queue: deque[CandidateName]
    best: EntityMatch | None = None
    failure: Failure | None = None

    @property
    def is_settled(self) -> bool:
        """True if no candidate in the queue could change the match.

        Only a higher *rounded* grade replaces the best one (the release's rule), so nothing beats
        a rounded 5: most entities need one question instead of one per candidate.
        """
        unbeatable = self.best is not None and round(self.best.grade) >= HIGHEST_GRADE
        return unbeatable or self.failure is not None

    def take_verdict(self, identifier: str, verdict: Verdict) -> None:
        grade = verdict.grade
        if grade is None:
            self.failure = verdict.failure
        elif self.best is None or round(grade) > round(self.best.grade):
            self.best = EntityMatch(identifier, grade)


_Candidacy = tuple[_EntitySearch, CandidateName]


def search_entities(
    state: SearchState, entities: Sequence[int], number: int, pace: Pace
) -> RequestGenerator[None]:
    """Look for the entities of pass ``number`` side by side; record matches at its end."""
    # Make all names first: within a pass no entity sees another's match, so all entities can be
    # asked about side by side.
    searches: list[_EntitySearch] = []
    for entity in entities:
        names = name_candidates(state.graph_index, entity, state.matches)
        searches.append(_EntitySearch(entity, deque(names)))
    rewritten: dict[Phrase, Reply] = {}
    for wave in count():
        open_searches = [search for search in searches if search.queue and not search.is_settled]
        if not open_searches:
            break
        pending = [(search, name) for search in open_searches for name in search.queue]
        batch: list[_Candidacy] = []
        for search in open_searches:
            asked = 1 if wave < SINGLE_CANDIDATE_WAVES[pace] else len(search.queue)
            batch += [(search, search.queue.popleft()) for _ in range(asked)]
        # Lazily a candidate is rewritten when it is asked about. Otherwise all are rewritten at
        # once: some needlessly, but without a further wait.
        phrases: list[Phrase] = []
        for _, name in batch if pace == "lazy" else pending:
            if name.rewrite and Phrase(name.text, name.rewrite) not in rewritten:
                phrases.append(Phrase(name.text, name.rewrite))
        replies = yield from request_rewrites((number, wave), phrases)
        rewritten.update(zip(phrases, replies, strict=True))
        yield from _ask_wave(state, batch, rewritten, (number, wave))
    for search in searches:
        if search.failure is None and search.best is not None:
            state.matches[search.entity] = search.best
        else:
            state.failures[search.entity] = search.failure or NO_VERDICT


def _ask_wave(
    state: SearchState,
    wave: list[_Candidacy],
    rewritten: dict[Phrase, Reply],
    turn: tuple[int, int],
) -> RequestGenerator[None]:
    """Ask about some candidates, and take the answers in order of rank.

    Answers after the one that settles an entity are ignored, even failures, so it makes no
    difference how many candidates are asked about at once.
    """
    replies: list[Reply] = []
    questions: list[Question] = []
    for search, name in wave:
        reply, raw = Reply(name.text), None
        if name.rewrite:
            reply, raw = rewritten[Phrase(name.text, name.rewrite)], name.text
        replies.append(reply)
        if reply.text is not None:
            questions.append(
                Question(
                    state.direction, "entity", reply.text, state.source, state.target,
                    search.entity, raw=raw,
                )
            )  # fmt: skip
    # Phrases whose rewrite failed have no question, only a failed verdict in its place.
    graded = yield from request_grades(turn, questions)
    verdicts = iter(graded)
    for (search, _), reply in zip(wave, replies, strict=True):
        verdict = Verdict(None, reply.failure) if reply.text is None else next(verdicts)
        if not search.is_settled:
            search.take_verdict(reply.text or "", verdict)
            state.count_reply(verdict)
