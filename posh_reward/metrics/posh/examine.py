"""One direction of one pair: asks in three passes, and grades every element.

``examine`` is a generator: it yields what it wants a judge to do next, and is sent the answers.
So many examinations can run in lockstep and share each call to the judge, and none of this
code knows about batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.questions import Candidate, Finding
from posh_reward.metrics.posh.roster import Roster, is_containing, is_part_of, plain
from posh_reward.types import (
    HIGHEST_GRADE,
    LOWEST_GRADE,
    Description,
    Direction,
    Element,
    Failure,
    Kind,
    Reply,
    Request,
    RewriteRequest,
    Span,
    Verdict,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

UNJUDGED = Failure("error", "no candidate was judged")

Ask = list[RewriteRequest] | list[Request]
Answers = Sequence[Reply] | Sequence[Verdict]


@dataclass(frozen=True, slots=True)
class Examination:
    """Every element of one description, graded against the other."""

    elements: tuple[Element, ...]
    """In the order in which the release averages them."""
    found: dict[int, Finding]
    """By entity index, what each turned out to be; those whose judgment failed are missing."""
    unparsed: int
    """Judge replies that held no label and were read as the lowest one."""

    @property
    def failure(self) -> Failure | None:
        """Why this direction has no score: the reason of its first failed judgment."""
        return next((e.failure for e in self.elements if e.grade is None), None)


Steps = Generator[Ask, Answers, Examination]


def is_rewrites(ask: Ask) -> TypeIs[list[RewriteRequest]]:
    """Whether an examination wants phrases rewritten rather than questions answered."""
    return isinstance(ask[0], RewriteRequest)


@dataclass(slots=True)
class _Knowledge:
    """What one examination has found out so far."""

    source: Description
    target: Description
    direction: Direction
    roster: Roster
    found: dict[int, Finding]
    failed: dict[int, Failure] = field(default_factory=dict)
    """Entities whose judgment failed, with the reason."""
    unparsed: int = 0

    def request(
        self,
        kind: Kind,
        entity: int,
        identifier: str,
        text: str | None = None,
        other: str | None = None,
        other_entity: int | None = None,
        raw: str | None = None,
    ) -> Request:
        """A question about one of the source's entities."""
        source, target = self.source, self.target
        return Request(
            self.direction, kind, identifier, source, target, entity, text, other, other_entity, raw
        )


def examine(
    source: Description,
    target: Description,
    direction: Direction,
    *,
    lazy: bool = True,
    mended: bool = False,
) -> Steps:
    """Looks for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are asked about.
        target: the description that they are looked for in.
        direction: which of the two is the generation.
        lazy: ask only what can change the result; otherwise all that the release asks.
        mended: without the release's clear mistakes (docs/released_quirks.md).

    Yields:
        Rewrites or questions that can be answered in one batch, and is sent their answers.

    Returns:
        The graded elements and what each entity was found to be.
    """
    roster = Roster(source.graph, mended=mended)
    viewer = questions.given(source.graph)
    # In the release the viewer has no name of its own before the second pass: "boy runs toward us".
    known = _Knowledge(source, target, direction, roster, dict(viewer) if mended else {})
    yield from _look_for(known, questions.wholes(roster), lazy)
    known.found.update(viewer)
    yield from _look_for(known, questions.parts(roster), lazy)
    claims = list(_claims(known))
    idle = [] if lazy else _uncounted(known)
    verdicts = yield from _grade(known, _requests(claims) + _requests(idle))
    asked = [claim for claim in claims if claim.request is not None]
    for claim, verdict in zip(asked, verdicts, strict=not idle):  # answers to idle ones come last
        claim.grade, claim.failure = verdict.grade, verdict.failure
    elements = tuple([claim.element(direction) for claim in claims])
    return Examination(elements, known.found, known.unparsed)


@dataclass(slots=True)
class _Search:
    """An entity that is being asked for: what has been asked, and what is left to ask."""

    entity: int
    left: deque[Candidate]
    best: Finding | None = None
    failure: Failure | None = None

    @property
    def open(self) -> bool:
        """Whether some candidate is left that could still win."""
        beaten = self.best is not None and round(self.best.grade) >= HIGHEST_GRADE
        return bool(self.left) and not beaten and self.failure is None

    def hear(self, identifier: str, verdict: Verdict) -> None:
        """A later candidate replaces an earlier one only with a higher rounded grade."""
        grade = verdict.grade
        if grade is None:
            self.failure = self.failure or verdict.failure
        elif self.best is None or round(grade) > round(self.best.grade):
            self.best = Finding(identifier, grade)


def _look_for(
    known: _Knowledge, entities: Sequence[int], lazy: bool
) -> Generator[Ask, Answers, None]:
    """Asks for one pass's entities, candidate by candidate, all of them side by side."""
    searches = [
        _Search(entity, deque(questions.candidates(known.roster, entity, known.found)))
        for entity in entities
    ]
    asking = searches
    while asking := [search for search in asking if search.open]:
        wave = [
            (search, search.left.popleft())
            for search in asking
            for _ in range(1 if lazy else len(search.left))
        ]
        yield from _ask_wave(known, wave)
    for search in searches:
        if search.failure is None and search.best is not None:
            known.found[search.entity] = search.best
        else:
            known.failed[search.entity] = search.failure or UNJUDGED


def _ask_wave(
    known: _Knowledge, wave: list[tuple[_Search, Candidate]]
) -> Generator[Ask, Answers, None]:
    raw = [RewriteRequest(way.text, way.rewrite) for _, way in wave if way.rewrite is not None]
    fluent = iter((yield raw) if raw else ())
    called: list[tuple[_Search, str, str | None]] = []
    for search, way in wave:
        if way.rewrite is None:
            called.append((search, way.text, None))
            continue
        rewrite = next(fluent)
        assert isinstance(rewrite, Reply)
        if rewrite.text is None:
            search.failure = search.failure or rewrite.failure
        else:
            called.append((search, rewrite.text, way.text))
    requests = [
        known.request("entity", search.entity, text, raw=raw) for search, text, raw in called
    ]
    verdicts = yield from _grade(known, requests)
    for (search, text, _), verdict in zip(called, verdicts, strict=True):
        search.hear(text, verdict)


def _grade(
    known: _Knowledge, requests: list[Request]
) -> Generator[Ask, Answers, Sequence[Verdict]]:
    verdicts: list[Verdict] = []
    for verdict in (yield requests) if requests else ():
        assert isinstance(verdict, Verdict)
        verdicts.append(verdict)
    known.unparsed += sum(verdict.unparsed for verdict in verdicts)
    return verdicts


@dataclass(slots=True)
class _Claim:
    """An element whose grade may be open, and the question that will settle it then."""

    kind: Kind
    text: str
    spans: tuple[Span, ...]
    identifier: str
    other: str | None = None
    grade: float | None = None
    failure: Failure | None = None
    request: Request | None = None

    def element(self, direction: Direction) -> Element:
        """The element, as settled so far."""
        return Element(
            direction,
            self.kind,
            self.text,
            self.grade,
            tuple(sorted(set(self.spans))),  # a graph may hold the same evidence twice
            self.identifier,
            self.other,
            self.kind == "entity" or self.request is not None,
            self.failure,
        )


def _requests(claims: Iterable[_Claim]) -> list[Request]:
    return [claim.request for claim in claims if claim.request is not None]


def _claims(known: _Knowledge) -> Iterator[_Claim]:
    """All elements that count: entity by entity, each with its attributes and relations.

    What belongs to the viewer is left out; a relation stands once, with its first end that is
    not the viewer's.
    """
    touching: list[list[int]] = [[] for _ in known.source.graph.entities]
    for index, relation in enumerate(known.source.graph.relations):
        for end in sorted({relation.subject, relation.object}):
            touching[end].append(index)
    listed: set[int] = set()
    for index, entity in enumerate(known.source.graph.entities):
        if entity.flagged:
            continue
        yield _entity_claim(known, index)
        yield from _attribute_claims(known, index)
        for relation_index in touching[index]:
            if relation_index not in listed:
                listed.add(relation_index)
                yield _relation_claim(known, relation_index)


def _entity_claim(known: _Knowledge, index: int) -> _Claim:
    finding = known.found.get(index)
    name = _called(known, index)
    grade = finding.grade if finding else None
    spans = known.source.graph.entities[index].spans
    return _Claim("entity", name, spans, name, grade=grade, failure=known.failed.get(index))


def _relation_claim(known: _Knowledge, index: int) -> _Claim:
    """A relation, its ends called as they were found (the release cuts some parts' names short)."""
    relation = known.source.graph.relations[index]
    first, second = _called(known, relation.subject), _called(known, relation.object)
    if not known.roster.mended and is_part_of(relation):
        first = questions.shortened(first)
    elif not known.roster.mended and is_containing(relation):
        second = questions.shortened(second)
    ends = ((relation.subject, first), (relation.object, second))
    return _dependent(known, "relation", relation.text, relation.spans, ends)


def _attribute_claims(known: _Knowledge, index: int) -> Iterator[_Claim]:
    """The attributes of one entity, in alphabetical order."""
    ends = ((index, _called(known, index)),)
    for text, spans in _merged_attributes(known, index):
        yield _dependent(known, "attribute", text, spans, ends)


def _called(known: _Knowledge, entity: int) -> str:
    """What an entity was found under, or else its bare name."""
    finding = known.found.get(entity)
    return finding.identifier if finding else known.roster.names[entity]


def _uncounted(known: _Knowledge) -> list[_Claim]:
    """What the release asks about the viewer and then leaves out of the mean."""
    graph = known.source.graph
    return [
        claim
        for index, entity in enumerate(graph.entities)
        if entity.flagged
        for claim in _attribute_claims(known, index)
    ] + [
        _relation_claim(known, index)
        for index, relation in enumerate(graph.relations)
        if graph.entities[relation.subject].flagged and graph.entities[relation.object].flagged
    ]


def _dependent(
    known: _Knowledge,
    kind: Kind,
    text: str,
    spans: tuple[Span, ...],
    ends: tuple[tuple[int, str], ...],
) -> _Claim:
    """An element that is asked about only if all the entities that it belongs to are present.

    Args:
        known: what has been found out.
        kind: attribute or relation.
        text: its text.
        spans: where it was read.
        ends: the entities that it belongs to, each with what the question calls it.
    """
    failure = next((known.failed[end] for end, _ in ends if end in known.failed), None)
    (first, name), (other_entity, other) = ends[0], ends[1] if len(ends) > 1 else (None, None)
    claim = _Claim(kind, text, spans, name, other, failure=failure)
    if failure is None and all(known.found[end].present for end, _ in ends):
        claim.request = known.request(kind, first, name, text, other, other_entity)
    elif failure is None:
        claim.grade = LOWEST_GRADE  # it cannot be there: what it belongs to is absent
    return claim


def _merged_attributes(known: _Knowledge, index: int) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Attributes in alphabetical order; those equal but for case are one."""
    merged: dict[str, tuple[Span, ...]] = {}
    entity = known.source.graph.entities[index]
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = plain(attribute.text)
        merged[text] = merged.get(text, ()) + attribute.spans
    return iter(merged.items())
