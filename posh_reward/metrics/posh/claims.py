"""The elements of one description as they are being graded: each with the question that settles it.

What belongs to an absent entity is not asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.roster import is_containing, is_part_of, plain
from posh_reward.metrics.posh.search import Knowledge
from posh_reward.types import (
    LOWEST_GRADE,
    Direction,
    Element,
    Failure,
    ImageGrade,
    Kind,
    Question,
    Span,
    Verdict,
)


@dataclass(slots=True)
class Claim:
    """An element whose grade may be open, and the question that will settle it then."""

    kind: Kind
    text: str
    spans: tuple[Span, ...]
    ends: tuple[int, ...]
    """The entities that it is about, by index: one, or the two ends of a relation."""
    identifier: str
    other: str | None = None
    grade: float | None = None
    failure: Failure | None = None
    question: Question | None = None
    image_grade: ImageGrade | None = None

    def hear(self, verdict: Verdict) -> None:
        """Takes the answer to its question."""
        self.grade, self.failure = verdict.grade, verdict.failure

    def below(self, grade: float) -> bool:
        """Whether it has a grade, and one below this."""
        return self.grade is not None and self.grade < grade

    def see(self, verdict: Verdict) -> None:
        """Takes what the image says: the larger grade counts.

        An image that does not tell (a failure of kind ``reply``) leaves the reference's grade. If
        it could not be asked or no answer came, the larger of the two is unknown, and so is the
        grade.
        """
        assert self.grade is not None, "the image is asked only about what has a grade"
        self.image_grade = ImageGrade(verdict.grade, self.grade, verdict.failure)
        if verdict.grade is not None:
            self.grade = max(self.grade, verdict.grade)
        elif verdict.failure is not None and verdict.failure.kind != "reply":
            self.grade, self.failure = None, verdict.failure

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
            self.kind == "entity" or self.question is not None,
            self.failure,
            self.image_grade,
        )


def questions_of(claims: Iterable[Claim]) -> list[Question]:
    """The questions of those that have one."""
    return [claim.question for claim in claims if claim.question is not None]


def claims(known: Knowledge) -> Iterator[Claim]:
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


def _entity_claim(known: Knowledge, index: int) -> Claim:
    finding = known.found.get(index)
    name = _called(known, index)
    grade = finding.grade if finding else None
    spans = known.source.graph.entities[index].spans
    return Claim(
        "entity", name, spans, (index,), name, grade=grade, failure=known.failed.get(index)
    )


def _relation_claim(known: Knowledge, index: int) -> Claim:
    """A relation, its ends called as they were found (the release cuts some parts' names short)."""
    relation = known.source.graph.relations[index]
    first, second = _called(known, relation.subject), _called(known, relation.object)
    if not known.roster.mended and is_part_of(relation):
        first = questions.shortened(first)
    elif not known.roster.mended and is_containing(relation):
        second = questions.shortened(second)
    ends = ((relation.subject, first), (relation.object, second))
    return _dependent(known, "relation", relation.text, relation.spans, ends)


def _attribute_claims(known: Knowledge, index: int) -> Iterator[Claim]:
    """The attributes of one entity, in alphabetical order."""
    ends = ((index, _called(known, index)),)
    for text, spans in _merged_attributes(known, index):
        yield _dependent(known, "attribute", text, spans, ends)


def _called(known: Knowledge, entity: int) -> str:
    """What an entity was found under, or else its bare name."""
    finding = known.found.get(entity)
    return finding.identifier if finding else known.roster.names[entity]


def uncounted(known: Knowledge) -> list[Claim]:
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
) -> Claim:
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
    claim = Claim(kind, text, spans, tuple(end for end, _ in ends), name, other, failure=failure)
    if failure is None and all(known.found[end].present for end, _ in ends):
        claim.question = known.question(kind, first, name, text, other, other_entity)
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
