"""One direction of one pair: asks in three passes, and grades every element.

``examine`` is a generator: it yields what it wants a judge to do next, and is sent the answers.
So many examinations can run in lockstep and share each call to the judge, and none of this
code knows about batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.asking import Asking, Pace, answered
from posh_reward.metrics.posh.questions import Finding
from posh_reward.metrics.posh.roster import Roster, is_containing, is_part_of, plain
from posh_reward.metrics.posh.search import Knowledge, look_for
from posh_reward.types import (
    LOWEST_GRADE,
    Description,
    Direction,
    Element,
    Failure,
    Kind,
    Request,
    Span,
)


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


Steps = Asking[Examination]


def examine(
    source: Description,
    target: Description,
    direction: Direction,
    *,
    pace: Pace = "lazy",
    mended: bool = False,
) -> Steps:
    """Looks for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are asked about.
        target: the description that they are looked for in.
        direction: which of the two is the generation.
        pace: how much is asked at a time; the result does not depend on it.
        mended: without the release's clear mistakes (docs/released_quirks.md).

    Yields:
        Rewrites or questions that can be answered in one call, and is sent their answers.

    Returns:
        The graded elements and what each entity was found to be.
    """
    roster = Roster(source.graph, mended=mended)
    viewer = questions.given(source.graph)
    # In the release the viewer has no name of its own before the second pass: "boy runs toward us".
    known = Knowledge(source, target, direction, roster, dict(viewer) if mended else {})
    yield from look_for(known, questions.wholes(roster), 1, pace)
    known.found.update(viewer)
    yield from look_for(known, questions.parts(roster), 2, pace)
    claims = list(_claims(known))
    asked = [claim for claim in claims if claim.request is not None]
    idle = _uncounted(known) if pace == "eager" else []
    verdicts = yield from answered((3, 0), _requests(asked) + _requests(idle))
    for claim, verdict in zip(asked, verdicts, strict=not idle):  # answers to idle ones come last
        claim.grade, claim.failure = verdict.grade, verdict.failure
        known.unparsed += verdict.unparsed
    elements = tuple([claim.element(direction) for claim in claims])
    return Examination(elements, known.found, known.unparsed)


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


def _claims(known: Knowledge) -> Iterator[_Claim]:
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


def _entity_claim(known: Knowledge, index: int) -> _Claim:
    finding = known.found.get(index)
    name = _called(known, index)
    grade = finding.grade if finding else None
    spans = known.source.graph.entities[index].spans
    return _Claim("entity", name, spans, name, grade=grade, failure=known.failed.get(index))


def _relation_claim(known: Knowledge, index: int) -> _Claim:
    """A relation, its ends called as they were found (the release cuts some parts' names short)."""
    relation = known.source.graph.relations[index]
    first, second = _called(known, relation.subject), _called(known, relation.object)
    if not known.roster.mended and is_part_of(relation):
        first = questions.shortened(first)
    elif not known.roster.mended and is_containing(relation):
        second = questions.shortened(second)
    ends = ((relation.subject, first), (relation.object, second))
    return _dependent(known, "relation", relation.text, relation.spans, ends)


def _attribute_claims(known: Knowledge, index: int) -> Iterator[_Claim]:
    """The attributes of one entity, in alphabetical order."""
    ends = ((index, _called(known, index)),)
    for text, spans in _merged_attributes(known, index):
        yield _dependent(known, "attribute", text, spans, ends)


def _called(known: Knowledge, entity: int) -> str:
    """What an entity was found under, or else its bare name."""
    finding = known.found.get(entity)
    return finding.identifier if finding else known.roster.names[entity]


def _uncounted(known: Knowledge) -> list[_Claim]:
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
    known: Knowledge,
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


def _merged_attributes(known: Knowledge, index: int) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Attributes in alphabetical order; those equal but for case are one."""
    merged: dict[str, tuple[Span, ...]] = {}
    entity = known.source.graph.entities[index]
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = plain(attribute.text)
        merged[text] = merged.get(text, ()) + attribute.spans
    return iter(merged.items())
