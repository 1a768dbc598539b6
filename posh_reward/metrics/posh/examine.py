"""One direction of one pair: entities in two passes, then attributes and relations.

With an image as second witness two more passes follow. A detail may be true and missing from the
reference: POSH then calls it a mistake. So the image is asked about elements that the reference
does not support, and the larger of the two grades counts, as in PROVE's truthfulness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posh_reward.errors import InputError
from posh_reward.metrics.posh.questions import (
    PRESENT,
    Finding,
    Roster,
    is_containing,
    is_part_of,
    normal_form,
    parts,
    short_identifier,
    viewer_findings,
    wholes,
)
from posh_reward.metrics.posh.search import Asking, Inquiry, Pace, grade, look_for
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

SUPPORTED = 3.0
"""The image is asked about an element when the reference's grade is below this. In POSH's guide 2
is a weak hint and 3 is partial: below 3 the reference at most hints at it."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Every element of one description, graded against the other."""

    elements: tuple[Element, ...]  # in the order in which the release averages them
    findings: dict[int, Finding]  # by entity index; those whose judgment failed are missing
    unparsed: int  # judge replies that held no label and were read as the lowest one

    @property
    def failure(self) -> Failure | None:
        """Reason of the first failed judgment; None if the direction has a score."""
        return next((e.failure for e in self.elements if e.grade is None), None)


Steps = Asking[Examination]


def examine(
    source: Description,
    target: Description,
    direction: Direction,
    *,
    pace: Pace = "lazy",
    mended: bool = False,
    image: PromptImage | None = None,
    supported: float = SUPPORTED,
) -> Steps:
    """Look for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are asked about.
        target: the description that they are looked for in.
        direction: which of the two is the generation.
        pace: how much is asked at a time; the result does not depend on it.
        mended: without the release's clear mistakes (docs/released_quirks.md).
        image: is asked about elements that ``target`` does not support; None for none.
        supported: grade of ``target`` from which on the image is not asked.

    Yields:
        Rewrites or questions that can be answered in one call, and is sent their answers.

    Returns:
        The graded elements and what each entity was found to be.
    """
    roster = Roster(source.graph, mended=mended)
    viewer = viewer_findings(source.graph)
    # In the release the viewer has no name of its own before the second pass: "boy runs toward us".
    inquiry = Inquiry(source, target, direction, roster, dict(viewer) if mended else {})
    # Wholes before parts: a part is asked about as "basket of the woman", by the name under which
    # its whole was found.
    yield from look_for(inquiry, wholes(roster), 1, pace)
    inquiry.findings.update(viewer)
    yield from look_for(inquiry, parts(roster), 2, pace)
    elements = list(_open_elements(inquiry))
    pending = [element for element in elements if element.question is not None]
    idle = _viewer_elements(inquiry) if pace == "eager" else []
    questions = [e.question for e in pending + idle if e.question is not None]
    # Attributes and relations last, since those of an absent entity need no question.
    verdicts = yield from grade((3, 0), questions)
    for element, verdict in zip(pending, verdicts, strict=not idle):  # those of idle ones come last
        element.take(verdict)
        inquiry.unparsed += verdict.unparsed
    if image is not None:
        yield from _ask_image(image, supported, inquiry, elements)
    graded = tuple([element.close(direction) for element in elements])
    return Examination(graded, inquiry.findings, inquiry.unparsed)


@dataclass(slots=True)
class OpenElement:
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

    def take(self, verdict: Verdict) -> None:
        """Take the answer to the question."""
        self.grade, self.failure = verdict.grade, verdict.failure

    def take_image(self, verdict: Verdict) -> None:
        """Take the image's answer: the larger grade counts.

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

    def below(self, grade: float) -> bool:
        """True with a grade that is lower; False without one."""
        return self.grade is not None and self.grade < grade

    def close(self, direction: Direction) -> Element:
        """The element with its final grade."""
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


def _open_elements(inquiry: Inquiry) -> Iterator[OpenElement]:
    """All elements that count: entity by entity, each with its attributes and relations.

    Those of the viewer are left out; a relation stands once, with its first end that is not the
    viewer's.
    """
    graph = inquiry.source.graph
    touching: list[list[int]] = [[] for _ in graph.entities]
    for index, relation in enumerate(graph.relations):
        for end in sorted({relation.subject, relation.object}):
            touching[end].append(index)
    relations_so_far: set[int] = set()
    for index, entity in enumerate(graph.entities):
        if entity.flagged:
            continue
        finding = inquiry.findings.get(index)
        name = _identifier(inquiry, index)
        grade = finding.grade if finding else None
        failure = inquiry.failures.get(index)
        yield OpenElement("entity", name, entity.spans, (index,), name, None, grade, failure)
        yield from _attributes(inquiry, index)
        for relation_index in touching[index]:
            if relation_index not in relations_so_far:
                relations_so_far.add(relation_index)
                yield _relation(inquiry, relation_index)


def _attributes(inquiry: Inquiry, index: int) -> Iterator[OpenElement]:
    """Attributes of one entity in alphabetical order; those equal but for case are one."""
    spans_by_text: dict[str, tuple[Span, ...]] = {}
    entity = inquiry.source.graph.entities[index]
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = normal_form(attribute.text)
        spans_by_text[text] = spans_by_text.get(text, ()) + attribute.spans
    ends = ((index, _identifier(inquiry, index)),)
    for text, spans in spans_by_text.items():
        yield _dependent(inquiry, "attribute", text, spans, ends)


def _relation(inquiry: Inquiry, index: int) -> OpenElement:
    """A relation, its ends named as they were found (the release cuts some parts' names short)."""
    relation = inquiry.source.graph.relations[index]
    first = _identifier(inquiry, relation.subject)
    second = _identifier(inquiry, relation.object)
    if not inquiry.roster.mended and is_part_of(relation):
        first = short_identifier(first)
    elif not inquiry.roster.mended and is_containing(relation):
        second = short_identifier(second)
    ends = ((relation.subject, first), (relation.object, second))
    return _dependent(inquiry, "relation", relation.text, relation.spans, ends)


def _dependent(
    inquiry: Inquiry,
    kind: Kind,
    text: str,
    spans: tuple[Span, ...],
    ends: tuple[tuple[int, str], ...],
) -> OpenElement:
    """An attribute or a relation, with a question only where all its entities are present.

    What belongs to an absent entity cannot be there, so it has the lowest grade unasked.
    ``ends`` are the entities, each with its name in the question.
    """
    failure = next((inquiry.failures[end] for end, _ in ends if end in inquiry.failures), None)
    (first, name), (other_entity, other) = ends[0], ends[1] if len(ends) > 1 else (None, None)
    indices = tuple(end for end, _ in ends)
    element = OpenElement(kind, text, spans, indices, name, other, failure=failure)
    if failure is None and all(inquiry.findings[end].present for end in indices):
        element.question = inquiry.question(kind, first, name, text, other, other_entity)
    elif failure is None:
        element.grade = LOWEST_GRADE
    return element


def _viewer_elements(inquiry: Inquiry) -> list[OpenElement]:
    """Elements of the viewer, which the release asks about and leaves out of the mean."""
    graph = inquiry.source.graph
    flags = [entity.flagged for entity in graph.entities]
    return [
        *(e for index, flag in enumerate(flags) if flag for e in _attributes(inquiry, index)),
        *(
            _relation(inquiry, index)
            for index, relation in enumerate(graph.relations)
            if flags[relation.subject] and flags[relation.object]
        ),
    ]


def _identifier(inquiry: Inquiry, entity: int) -> str:
    finding = inquiry.findings.get(entity)
    return finding.identifier if finding else inquiry.roster.names[entity]


def check_supported(grade: float) -> float:
    """Return ``grade`` if it can be the one from which on the image is not asked.

    Raises:
        InputError: it cannot.
    """
    if not LOWEST_GRADE < grade <= HIGHEST_GRADE:
        raise InputError(f"supported is {grade}: give a grade above 1, up to 5")
    return grade


def _ask_image(
    image: PromptImage, supported: float, inquiry: Inquiry, elements: Sequence[OpenElement]
) -> Asking[None]:
    """Ask the image about elements below ``supported``; raises their grades in place.

    Entities first, then attributes and relations of those that either witness shows: also of
    entities that the reference lacks.
    """
    entities = [element for element in elements if element.kind == "entity"]
    doubtful = [element for element in entities if element.below(supported)]
    yield from _ask_image_pass(image, inquiry, doubtful, 4)
    # Grades are those after the image was asked: what it shows is present, and its attributes
    # count.
    absent = {each.ends[0] for each in entities if each.grade is None or each.below(PRESENT)}
    dependents = [
        element
        for element in elements
        if element.kind != "entity" and element.below(supported) and absent.isdisjoint(element.ends)
    ]
    yield from _ask_image_pass(image, inquiry, dependents, 5)


def _ask_image_pass(
    image: PromptImage, inquiry: Inquiry, elements: Sequence[OpenElement], number: int
) -> Asking[None]:
    questions = []
    for element in elements:
        first, *others = element.ends
        text = None if element.kind == "entity" else element.text
        other = others[0] if others else None
        questions.append(
            inquiry.question(
                element.kind, first, element.identifier, text, element.other, other, image=image
            )
        )
    verdicts = yield from grade((number, 0), questions)
    for element, verdict in zip(elements, verdicts, strict=True):
        element.take_image(verdict)
        inquiry.unparsed += verdict.unparsed
