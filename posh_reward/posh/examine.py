"""One direction of one pair: entities in two passes, then attributes and relations.

With an image as second witness two more passes follow. A true detail that the reference lacks is a
mistake to POSH. So the image is consulted about elements that the reference does not support, and
the higher of the two grades counts, as in PROVE's truthfulness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posh_reward.posh.names import (
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
from posh_reward.posh.search import Asking, Inquiry, Pace, grade, look_for
from posh_reward.types import (
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
"""The image is consulted about elements that the reference grades lower. In POSH's scoring guide 2
is a weak hint and 3 is partial: below 3 the reference at most hints at an element."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Every element of one description, graded against the other."""

    elements: tuple[Element, ...]  # in the order in which the release averages them
    findings: dict[int, Finding]  # by entity index; those whose judgment failed are missing
    replies: int  # of the judge
    unparsed: int  # of these, replies that contained no label and were read as the lowest one
    doubtful: int  # of these, replies that were more likely no label than one

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
    image: PromptImage | None = None,
    supported: float = SUPPORTED,
) -> Steps:
    """Look for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are graded.
        target: the description in which they are sought.
        direction: "precision" if ``source`` is the generation, "recall" if it is the reference.
        pace: how much is asked at a time; the result does not depend on it.
        image: consulted about elements that ``target`` does not support; None: no witness.
        supported: grade of ``target`` at which the image is no longer consulted.

    Yields:
        Rewrites or questions for one call; is sent their answers.

    Returns:
        The graded elements, and the finding for each entity.
    """
    roster = Roster(source.graph)
    viewer = viewer_findings(source.graph)
    # In the release the viewer is unnamed before the second pass: "boy runs toward us".
    inquiry = Inquiry(source, target, direction, roster, {})
    # Wholes before parts: a part is asked about as "basket of the woman", with the name by which
    # its whole was found.
    yield from look_for(inquiry, wholes(roster), 1, pace)
    inquiry.findings.update(viewer)
    yield from look_for(inquiry, parts(roster), 2, pace)
    # Attributes and relations last: those of an absent entity need no question.
    elements = list(_open_elements(inquiry))
    pending = [element for element in elements if element.is_open]
    # The release also asks about the viewer's elements, and ignores the answers. They come last.
    unscored = [e for e in _viewer_elements(inquiry) if e.is_open] if pace == "eager" else []
    verdicts = yield from grade((3, 0), [element.question for element in pending + unscored])
    for element, verdict in zip(pending, verdicts[: len(pending)], strict=True):
        element.grade, element.failure = verdict.grade, verdict.failure
        inquiry.note(verdict)
    if image is not None:
        yield from _ask_image(image, supported, inquiry, elements)
    graded = tuple([element.close() for element in elements])
    counts = (inquiry.replies, inquiry.unparsed, inquiry.doubtful)
    return Examination(graded, inquiry.findings, *counts)


@dataclass(slots=True)
class OpenElement:
    """An element whose grade may still be open, and the question that settles it."""

    question: Question
    spans: tuple[Span, ...]
    grade: float | None = None
    failure: Failure | None = None
    direct: bool = True
    """False if the question is not asked, since an entity is absent or its judgment failed."""
    image_grade: ImageGrade | None = None

    @property
    def is_open(self) -> bool:
        """True before the question is answered."""
        return self.grade is None and self.failure is None

    def below(self, grade: float) -> bool:
        """Return True if the element has a lower grade."""
        return self.grade is not None and self.grade < grade

    def take_image(self, verdict: Verdict) -> None:
        """Take the image's answer: the higher grade counts.

        If the image does not settle the question (a failure of kind ``reply``), the reference's
        grade stands. After any other failure the higher grade is unknown, and so is the result.
        """
        assert self.grade is not None, "the image is consulted only about graded elements"
        self.image_grade = ImageGrade(verdict.grade, self.grade, verdict.failure)
        if verdict.grade is not None:
            self.grade = max(self.grade, verdict.grade)
        elif verdict.failure is not None and verdict.failure.kind != "reply":
            self.grade, self.failure = None, verdict.failure

    def close(self) -> Element:
        question = self.question
        return Element(
            question.direction,
            question.kind,
            question.identifier if question.text is None else question.text,
            self.grade,
            tuple(sorted(set(self.spans))),  # a graph may contain the same evidence twice
            question.identifier,
            question.other,
            self.direct,
            self.failure,
            self.image_grade,
        )


def _open_elements(inquiry: Inquiry) -> Iterator[OpenElement]:
    """All scored elements: entity by entity, each with its attributes and relations.

    A relation comes once, with its first end that is scored. The viewer's elements are left out.
    """
    graph = inquiry.source.graph
    touching: list[list[int]] = [[] for _ in graph.entities]
    for index, relation in enumerate(graph.relations):
        for end in {relation.subject, relation.object}:
            touching[end].append(index)
    seen: set[int] = set()
    # Entity by entity, as the release averages: floating-point sums depend on the order.
    for index, entity in enumerate(graph.entities):
        if entity.flagged:
            continue
        finding = inquiry.findings.get(index)
        question = _question(inquiry, "entity", (index, _identifier(inquiry, index)))
        grade = finding.grade if finding else None
        yield OpenElement(question, entity.spans, grade, inquiry.failures.get(index))
        yield from _attributes(inquiry, index)
        for relation_index in touching[index]:
            if relation_index not in seen:
                seen.add(relation_index)
                yield _relation(inquiry, relation_index)


def _attributes(inquiry: Inquiry, index: int) -> Iterator[OpenElement]:
    """Attributes of one entity, in alphabetical order; texts that differ only in case are one."""
    spans_by_text: dict[str, tuple[Span, ...]] = {}
    entity = inquiry.source.graph.entities[index]
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = normal_form(attribute.text)
        spans_by_text[text] = spans_by_text.get(text, ()) + attribute.spans
    owner = index, _identifier(inquiry, index)
    for text, spans in spans_by_text.items():
        yield _dependent(inquiry, _question(inquiry, "attribute", owner, text), spans)


def _relation(inquiry: Inquiry, index: int) -> OpenElement:
    """A relation between entities as they were found; the release shortens some parts' names."""
    relation = inquiry.source.graph.relations[index]
    first = _identifier(inquiry, relation.subject)
    second = _identifier(inquiry, relation.object)
    if is_part_of(relation):
        first = short_identifier(first)
    elif is_containing(relation):
        second = short_identifier(second)
    subject, other = (relation.subject, first), (relation.object, second)
    question = _question(inquiry, "relation", subject, relation.text, other)
    return _dependent(inquiry, question, relation.spans)


def _question(
    inquiry: Inquiry,
    kind: Kind,
    subject: tuple[int, str],
    text: str | None = None,
    other: tuple[int, str] | None = None,
) -> Question:
    """A question about an entity, or what is said of it; entities come with their names."""
    entity, name = subject
    other_entity, other_name = other or (None, None)
    return Question(
        inquiry.direction, kind, name, inquiry.source, inquiry.target, entity, text, other_name,
        other_entity,
    )  # fmt: skip


def _dependent(inquiry: Inquiry, question: Question, spans: tuple[Span, ...]) -> OpenElement:
    """An attribute or a relation, open only if all its entities are present.

    What belongs to an absent entity cannot be there: it has the lowest grade, without a question.
    """
    ends = [end for end in (question.entity, question.other_entity) if end is not None]
    failure = next((inquiry.failures[end] for end in ends if end in inquiry.failures), None)
    if failure is not None:
        return OpenElement(question, spans, failure=failure, direct=False)
    if not all(inquiry.findings[end].present for end in ends):
        return OpenElement(question, spans, LOWEST_GRADE, direct=False)
    return OpenElement(question, spans)


def _viewer_elements(inquiry: Inquiry) -> list[OpenElement]:
    """Attributes of the viewer and the viewer's sides, and relations between these."""
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


def _ask_image(
    image: PromptImage, supported: float, inquiry: Inquiry, elements: Sequence[OpenElement]
) -> Asking[None]:
    """Ask the image about elements below ``supported``; raises their grades in place.

    Entities first, then attributes and relations of entities that either witness shows.
    """
    entities = [element for element in elements if element.question.kind == "entity"]
    yield from _ask_image_pass(image, inquiry, [e for e in entities if e.below(supported)], 4)
    # By their grades after the image was asked: what it shows is present.
    absent = {e.question.entity for e in entities if e.grade is None or e.below(PRESENT)}
    dependents = [
        element
        for element in elements
        if element.question.kind != "entity"
        and element.below(supported)
        and absent.isdisjoint((element.question.entity, element.question.other_entity))
    ]
    yield from _ask_image_pass(image, inquiry, dependents, 5)


def _ask_image_pass(
    image: PromptImage, inquiry: Inquiry, elements: Sequence[OpenElement], number: int
) -> Asking[None]:
    questions = [element.question._replace(image=image) for element in elements]
    verdicts = yield from grade((number, 0), questions)
    for element, verdict in zip(elements, verdicts, strict=True):
        element.take_image(verdict)
        inquiry.note(verdict)
