"""One direction of one pair: asks in three passes, and grades every element.

With an image as second witness two more passes follow (``witness``).

``examine`` is a generator: it yields what it wants a judge to do next, and is sent the answers.
So many examinations can run in lockstep and share each call to the judge, and none of this
code knows about batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.questions import (
    PRESENT,
    Finding,
    Roster,
    is_containing,
    is_part_of,
    plain,
)
from posh_reward.metrics.posh.search import Asking, Knowledge, Pace, answered, look_for
from posh_reward.types import (
    HIGHEST_GRADE,
    LOWEST_GRADE,
    Description,
    Direction,
    Element,
    Failure,
    ImageGrade,
    Kind,
    PromptImage,
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


SUPPORTED = 3.0
"""An element is asked of the image when the reference's grade is below this. In POSH's guide 2 is
a weak hint and 3 is partial: below 3 the reference at most hints at it."""


class Look(NamedTuple):
    """Which image is asked, and about what."""

    image: PromptImage
    below: float = SUPPORTED
    """The reference's grade below which an element is asked of the image."""


def check_supported(grade: float) -> float:
    """Returns ``grade`` if it can be the one from which on the image is not asked.

    Raises:
        InputError: it cannot.
    """
    if not LOWEST_GRADE < grade <= HIGHEST_GRADE:
        raise InputError(f"supported is {grade}: give a grade above 1, up to 5")
    return grade


def look_at(look: Look, known: Knowledge, claims: Sequence[Claim]) -> Asking[None]:
    """Asks the image about the claims that the other text does not support.

    Args:
        look: the image.
        known: what the three passes have found out.
        claims: all elements, with the other text's grades; their grades are raised in place.
    """
    entities = [claim for claim in claims if claim.kind == "entity"]
    yield from _ask(look, known, [each for each in entities if each.below(look.below)], 4)
    absent = {each.ends[0] for each in entities if each.grade is None or each.below(PRESENT)}
    yield from _ask(
        look,
        known,
        [
            each
            for each in claims
            if each.kind != "entity" and each.below(look.below) and absent.isdisjoint(each.ends)
        ],
        5,
    )


def _ask(look: Look, known: Knowledge, claims: Sequence[Claim], number: int) -> Asking[None]:
    """One pass: puts a question about each claim to the image, and hears the answers."""
    asked = [_question(look, known, claim) for claim in claims]
    verdicts = yield from answered((number, 0), asked)
    for claim, verdict in zip(claims, verdicts, strict=True):
        claim.see(verdict)
        known.unparsed += verdict.unparsed


def _question(look: Look, known: Knowledge, claim: Claim) -> Question:
    first, *others = claim.ends
    return known.question(
        claim.kind,
        first,
        claim.identifier,
        None if claim.kind == "entity" else claim.text,
        claim.other,
        others[0] if others else None,
        image=look.image,
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
    look: Look | None = None,
) -> Steps:
    """Looks for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are asked about.
        target: the description that they are looked for in.
        direction: which of the two is the generation.
        pace: how much is asked at a time; the result does not depend on it.
        mended: without the release's clear mistakes (docs/released_quirks.md).
        look: the image that is asked about what ``target`` does not support; None for none.

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
    found = list(claims(known))
    asked = [claim for claim in found if claim.question is not None]
    idle = uncounted(known) if pace == "eager" else []
    verdicts = yield from answered((3, 0), questions_of(asked) + questions_of(idle))
    for claim, verdict in zip(asked, verdicts, strict=not idle):  # answers to idle ones come last
        claim.hear(verdict)
        known.unparsed += verdict.unparsed
    if look is not None:
        yield from look_at(look, known, found)
    elements = tuple([claim.element(direction) for claim in found])
    return Examination(elements, known.found, known.unparsed)
