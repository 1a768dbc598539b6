"""One direction of one pair: entities in two passes, then attributes and relations.

What a sentence reader found supported as a whole (``posh.sentences``) has at least its sentence's
grade.

With an image as second witness two more passes follow. A true detail that the reference lacks is a
mistake to POSH. So the image is consulted about elements that the reference does not support, and
the higher of the two grades counts, as in PROVE's truthfulness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from posh_reward.posh.names import (
    MIN_PRESENT_GRADE,
    EntityMatch,
    GraphIndex,
    is_containing,
    is_part_of,
    list_parts,
    list_wholes,
    match_viewer,
    normal_form,
    short_identifier,
)
from posh_reward.posh.search import (
    Pace,
    RequestGenerator,
    SearchState,
    request_grades,
    search_entities,
)
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
    SentenceVerdict,
    Span,
    Verdict,
)

MIN_SUPPORTED_GRADE = 3.0
"""The image is consulted about elements that the reference grades lower. In POSH's scoring guide 2
is a weak hint and 3 is partial: below 3 the reference at most hints at an element."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Every element of one description, graded against the other."""

    elements: tuple[Element, ...]  # in the order in which the release averages them
    matches: dict[int, EntityMatch]  # by entity index; those whose judgment failed are missing
    replies: int  # of the judge
    unparsed: int  # of these, replies that contained no label and were read as the lowest one
    doubtful: int  # of these, replies that were more likely no label than one

    @property
    def failure(self) -> Failure | None:
        """Reason of the first failed judgment; None if the direction has a score."""
        for element in self.elements:
            if element.grade is None:
                return element.failure
        return None


Steps = RequestGenerator[Examination]


def examine(
    source: Description,
    target: Description,
    direction: Direction,
    *,
    pace: Pace = "lazy",
    sentences: Sequence[SentenceVerdict] = (),
    image: PromptImage | None = None,
    supported: float = MIN_SUPPORTED_GRADE,
) -> Steps:
    """Look for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are graded.
        target: the description in which they are sought.
        direction: "precision" if ``source`` is the generation, "recall" if it is the reference.
        pace: how much is asked at a time; the result does not depend on it.
        sentences: of ``source``, as a reader found them in ``target``; none is contradicted.
        image: consulted about elements that ``target`` does not support; None: no witness.
        supported: grade of ``target`` at which the image is no longer consulted.

    Yields:
        Rewrites or questions for one call; is sent their answers.

    Returns:
        The graded elements, and the match for each entity.
    """
    graph_index = GraphIndex(source.graph)
    viewer = match_viewer(source.graph)
    # In the release the viewer is unnamed before the second pass: "boy runs toward us".
    state = SearchState(source, target, direction, graph_index, {})
    # Wholes before parts: a part is asked about as "basket of the woman", with the name by which
    # its whole was found.
    yield from search_entities(state, list_wholes(graph_index), 1, pace)
    state.matches.update(viewer)
    yield from search_entities(state, list_parts(graph_index), 2, pace)
    # Attributes and relations last: those of an absent entity need no question.
    elements = list(_open_elements(state))
    pending = [element for element in elements if element.is_open]
    # The release also asks about the viewer's elements, and ignores the answers. They come last.
    unscored: list[OpenElement] = []
    if pace == "eager":
        unscored = [element for element in _viewer_elements(state) if element.is_open]
    questions = [element.question for element in pending + unscored]
    verdicts = yield from request_grades((3, 0), questions)
    for element, verdict in zip(pending, verdicts[: len(pending)], strict=True):
        element.grade, element.failure = verdict.grade, verdict.failure
        state.count_reply(verdict)
    for element in elements:
        element.take_sentences(sentences)
    if image is not None:
        yield from _ask_image(image, supported, state, elements)
    graded = tuple([element.to_element() for element in elements])
    counts = (state.replies, state.unparsed, state.doubtful)
    return Examination(graded, state.matches, *counts)


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
    decided_by: Literal["supported", "contradicted"] | None = None

    @property
    def is_open(self) -> bool:
        """True before the question is answered."""
        return self.grade is None and self.failure is None

    def is_below(self, grade: float) -> bool:
        """Return True if the element has a lower grade."""
        return self.grade is not None and self.grade < grade

    def take_sentences(self, sentences: Sequence[SentenceVerdict]) -> None:
        """Take the best grade of the supported sentences that state the element, if it is higher.

        A failed judgment stays one: its grade is unknown, so it is not known to be lower.
        """
        for sentence in sentences:
            states = any(_stands_in(start, [sentence.span]) for start, _ in self.spans)
            if states and sentence.value == "supported" and self.is_below(sentence.grade):
                self.grade, self.decided_by = sentence.grade, "supported"

    def take_image(self, verdict: Verdict) -> None:
        """Take the image's answer: the higher grade counts.

        If the image does not settle the question (a failure of kind ``reply``), the reference's
        grade stands. After any other failure the higher grade is unknown, and so is the result.
        """
        assert self.grade is not None, "the image is consulted only about graded elements"
        self.image_grade = ImageGrade(verdict.grade, self.grade, verdict.failure)
        if verdict.grade is not None and verdict.grade > self.grade:
            self.grade, self.decided_by = verdict.grade, None
        elif verdict.failure is not None and verdict.failure.kind != "reply":
            self.grade, self.failure = None, verdict.failure

    def to_element(self) -> Element:
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
            self.decided_by,
        )


def _open_elements(state: SearchState) -> Iterator[OpenElement]:
    """All scored elements: entity by entity, each with its attributes and relations.

    A relation comes once, with its first end that is scored. The viewer's elements are left out.
    """
    graph = state.source.graph
    touching: list[list[int]] = [[] for _ in graph.entities]
    for index, relation in enumerate(graph.relations):
        for end in {relation.subject, relation.object}:
            touching[end].append(index)
    seen: set[int] = set()
    # Entity by entity, as the release averages: floating-point sums depend on the order.
    for index, entity in enumerate(graph.entities):
        if entity.flagged:
            continue
        question = _make_question(state, "entity", (index, _find_identifier(state, index)))
        element = OpenElement(question, entity.spans, failure=state.failures.get(index))
        if index in state.matches:
            element.grade = state.matches[index].grade
        yield element
        yield from _open_attributes(state, index)
        for relation_index in touching[index]:
            if relation_index not in seen:
                seen.add(relation_index)
                yield _open_relation(state, relation_index)


def _open_attributes(state: SearchState, index: int) -> Iterator[OpenElement]:
    """Attributes of one entity, in alphabetical order; texts that differ only in case are one."""
    spans_by_text: dict[str, tuple[Span, ...]] = {}
    entity = state.source.graph.entities[index]
    for attribute in sorted(entity.attributes, key=lambda a: a.text.strip()):
        text = normal_form(attribute.text)
        spans_by_text[text] = spans_by_text.get(text, ()) + attribute.spans
    owner = index, _find_identifier(state, index)
    for text, spans in spans_by_text.items():
        yield _open_dependent(state, _make_question(state, "attribute", owner, text), spans)


def _open_relation(state: SearchState, index: int) -> OpenElement:
    """A relation between entities as they were found; the release shortens some parts' names."""
    relation = state.source.graph.relations[index]
    first = _find_identifier(state, relation.subject)
    second = _find_identifier(state, relation.object)
    if is_part_of(relation):
        first = short_identifier(first)
    elif is_containing(relation):
        second = short_identifier(second)
    subject, other = (relation.subject, first), (relation.object, second)
    question = _make_question(state, "relation", subject, relation.text, other)
    return _open_dependent(state, question, relation.spans)


def _make_question(
    state: SearchState,
    kind: Kind,
    subject: tuple[int, str],
    text: str | None = None,
    other: tuple[int, str] | None = None,
) -> Question:
    """A question about an entity, or what is said of it; entities come with their names."""
    entity, name = subject
    other_entity, other_name = other or (None, None)
    return Question(
        state.direction, kind, name, state.source, state.target, entity, text, other_name,
        other_entity,
    )  # fmt: skip


def _open_dependent(state: SearchState, question: Question, spans: tuple[Span, ...]) -> OpenElement:
    """An attribute or a relation, open only if all its entities are present.

    What belongs to an absent entity cannot be there: it has the lowest grade, without a question.
    """
    ends = [end for end in (question.entity, question.other_entity) if end is not None]
    failure = next((state.failures[end] for end in ends if end in state.failures), None)
    if failure is not None:
        return OpenElement(question, spans, failure=failure, direct=False)
    if not all(state.matches[end].present for end in ends):
        return OpenElement(question, spans, LOWEST_GRADE, direct=False)
    return OpenElement(question, spans)


def list_mistakes(
    source: Description, target: Description, contradicted: Sequence[SentenceVerdict]
) -> list[Element]:
    """List the elements that only contradicted sentences state: mistakes, without a question."""
    index = GraphIndex(source.graph)
    worst = {i: EntityMatch(name, LOWEST_GRADE) for i, name in enumerate(index.names)}
    state = SearchState(source, target, "precision", index, worst | match_viewer(source.graph))
    ends = [sentence.span for sentence in contradicted]
    mistakes: list[Element] = []
    for element in _open_elements(state):
        if all(_stands_in(start, ends) for start, _ in element.spans):
            mistakes.append(
                replace(
                    element.to_element(), grade=LOWEST_GRADE, direct=False,
                    decided_by="contradicted",
                )
            )  # fmt: skip
    return mistakes


def _stands_in(place: int, spans: Sequence[Span]) -> bool:
    return any(start <= place < end for start, end in spans)


def _viewer_elements(state: SearchState) -> list[OpenElement]:
    """Attributes of the viewer and the viewer's sides, and relations between these."""
    graph = state.source.graph
    elements: list[OpenElement] = []
    for index, entity in enumerate(graph.entities):
        if entity.flagged:
            elements += _open_attributes(state, index)
    for index, relation in enumerate(graph.relations):
        if graph.entities[relation.subject].flagged and graph.entities[relation.object].flagged:
            elements.append(_open_relation(state, index))
    return elements


def _find_identifier(state: SearchState, entity: int) -> str:
    if entity in state.matches:
        return state.matches[entity].identifier
    return state.graph_index.names[entity]


def _ask_image(
    image: PromptImage, supported: float, state: SearchState, elements: Sequence[OpenElement]
) -> RequestGenerator[None]:
    """Ask the image about elements below ``supported``; raises their grades in place.

    Entities first, then attributes and relations of entities that either witness shows.
    """
    unsupported = [element for element in elements if element.is_below(supported)]
    entities = [element for element in unsupported if element.question.kind == "entity"]
    yield from _ask_image_pass(image, state, entities, 4)
    # By their grades after the image was asked: what it shows is present.
    absent: set[int] = set()
    for element in elements:
        is_absent = element.grade is None or element.is_below(MIN_PRESENT_GRADE)
        if element.question.kind == "entity" and is_absent:
            absent.add(element.question.entity)
    dependents: list[OpenElement] = []
    for element in unsupported:
        ends = (element.question.entity, element.question.other_entity)
        if element.question.kind != "entity" and absent.isdisjoint(ends):
            dependents.append(element)
    yield from _ask_image_pass(image, state, dependents, 5)


def _ask_image_pass(
    image: PromptImage, state: SearchState, elements: Sequence[OpenElement], number: int
) -> RequestGenerator[None]:
    questions = [element.question._replace(image=image) for element in elements]
    verdicts = yield from request_grades((number, 0), questions)
    for element, verdict in zip(elements, verdicts, strict=True):
        element.take_image(verdict)
        state.count_reply(verdict)
