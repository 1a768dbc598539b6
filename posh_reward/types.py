"""The records that pass between stages. All are frozen, all are plain data.

Offsets: a *span* is ``(start, end)``, character offsets into the *stripped* text that the
element came from, end exclusive. Token and sentence indices count from 0 within one text.
A *grade* is a real number from 1 (absent) to 5 (explicit), the mean of the labels under a
judge's distribution; a *score* is a mean of grades divided by 5, so 0.2 to 1.

Flow: ``Description`` (a parsed text and its ``SceneGraph``) -> ``Question`` -> ``Verdict``
-> ``Element`` -> ``Scores``. Whatever could not be done is a ``Failure`` in place of its result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from itertools import count
from operator import mul
from typing import Literal

Span = tuple[int, int]
"""Character offsets (start, end) into a stripped text, end exclusive."""

Mention = tuple[int, int]
"""Token indices (first, last) of a mention, both inclusive."""

Clusters = tuple[tuple[Mention, ...], ...]
"""Coreference clusters of one text: each is the mentions of one thing."""

Direction = Literal["precision", "recall"]
"""precision: elements of the generation, looked for in the reference (mistakes).
recall: elements of the reference, looked for in the generation (omissions)."""

Kind = Literal["entity", "attribute", "relation"]

RelationSource = Literal["poss", "verb", "prep"]
"""The construction that a relation was read from: a possessive, a verb, or a preposition."""


FailureKind = Literal["text", "prompt", "reply", "engine", "error"]
"""Origin of a failure.

text: a generation or a reference cannot be scored as it is (missing, too long, unparseable).
prompt: a question cannot be put to this model (longer than its context, say).
reply: the model answered, but not with anything that could be read.
engine: no answer came: unreachable, timed out, out of memory, crashed, or given up.
error: code raised an exception that it should not have raised.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing result: never a low score, never an exception for its neighbours."""

    kind: FailureKind
    detail: str
    """One line for people, with the remedy where there is one."""

    def __str__(self) -> str:
        return self.detail

    @property
    def passing(self) -> bool:
        """True where a second try may help: the fault is the judge's, not the text's."""
        return self.kind in ("engine", "error")

    def about(self, subject: str) -> Failure:
        """The same of a subject: "the caption is missing" of "is missing"."""
        return replace(self, detail=f"{subject} {self.detail}")


LABELS = ("1", "2", "3", "4", "5")
"""POSH's scale, worst first: what a judge answers (paper, A.1.4)."""
LOWEST_GRADE, HIGHEST_GRADE = 1.0, 5.0

CACHED = 8_192
"""Words, or pairs of words, that a cache of theirs holds: as many as a policy uses, but bounded
where texts bring new numbers without end."""


@dataclass(frozen=True, slots=True, order=True)
class PromptImage:
    """An image that goes with a prompt. Two are the same if their digests are."""

    digest: str
    """SHA-256 of its pixels, in hexadecimal."""
    image: object = field(compare=False, repr=False)
    """A PIL image."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a parsed text."""

    text: str
    lemma: str
    pos: str
    """Universal part of speech."""
    dep: str
    """ClearNLP dependency label."""
    head: int
    """Token index of the syntactic head; a root points at itself."""
    sentence: int
    span: Span


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property of one entity, e.g. ``"mustard-yellow"`` of a shawl (paper, section 3)."""

    text: str
    sentences: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that a text mentions, with all its mentions merged."""

    head: str
    """Text of the first mention."""
    heads: tuple[str, ...]
    """Texts of all mentions, in text order; ``heads[0] == head``."""
    attributes: tuple[Attribute, ...]
    sentences: tuple[int, ...]
    """Sentence of each mention, aligned with ``heads``."""
    spans: tuple[Span, ...]
    us: bool = False
    """The viewer: "we", "us", "our"."""
    left: bool = False
    """"our left"."""
    right: bool = False
    """"our right"."""

    @property
    def flagged(self) -> bool:
        """True for the viewer and the viewer's sides, which are left out of the scores."""
        return self.us or self.left or self.right


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed edge between two entities of one graph."""

    subject: int
    """Index into ``SceneGraph.entities``."""
    object: int
    """Index into ``SceneGraph.entities``."""
    text: str
    source: RelationSource
    sentences: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class SceneGraph:
    """Entities with attributes, and the relations between them, in text order."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True)
class Description:
    """A text with everything that was read from it. Identity of content is ``text``."""

    text: str
    """Stripped; every span of ``graph`` and ``tokens`` points into it."""
    graph: SceneGraph
    tokens: tuple[Token, ...] = ()
    clusters: Clusters = ()
    original: str | None = None
    """The text before it was stripped, if that made a difference."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a judge, in structure; LLM judges render it to a prompt.

    Entity: is ``identifier`` mentioned in ``target``? Attribute: is ``identifier`` described
    there as ``text``? Relation: is what joins ``identifier`` to ``other`` there ``text``?
    """

    direction: Direction
    kind: Kind
    identifier: str
    """The (subject) entity's confirmed or candidate identifier."""
    source: Description
    """The description that the element comes from."""
    target: Description
    """The description that it is looked for in."""
    entity: int
    """Index of the (subject) entity in ``source.graph.entities``."""
    text: str | None = None
    """The attribute's or the relation's text; None for an entity."""
    other: str | None = None
    """The object entity's identifier; None unless a relation."""
    other_entity: int | None = None
    """Index of the object entity; None unless a relation."""
    raw: str | None = None
    """``identifier`` before it was rewritten; None if it was not."""
    image: PromptImage | None = None
    """The image that is asked in place of ``target``; None for a question about texts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer by label: a distribution over the labels, or why there is none."""

    probabilities: tuple[float, ...] | None
    """One per label, worst label first, summing to 1; None if the judgment failed."""
    failure: Failure | None = None
    """Reason for missing probabilities; None if there are some."""
    unparsed: bool = False
    """The reply held no label and was read as the lowest one (the release's policy)."""
    mass: float = 1.0
    """Probability, before renormalising, that the reply was a label at all."""

    @property
    def grade(self) -> float | None:
        """Mean label under the distribution, counting labels from 1; None if failed."""
        if self.probabilities is None:
            return None
        grade: float = sum(map(mul, self.probabilities, count(1)))
        return grade


@dataclass(frozen=True, slots=True)
class Phrase:
    """A raw candidate identifier that a judge turns into a fluent noun phrase."""

    text: str
    kind: Literal["attribute", "relation"]
    """The rewrite instruction that applies (paper, A.1.4)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in words, such as a rewritten phrase: a text, or why there is none."""

    text: str | None
    failure: Failure | None = None


@dataclass(slots=True)
class Usage:
    """Work of a judge or a model so far. The one mutable record: a running total."""

    requests: int = 0
    """Questions that were to be graded."""
    images: int = 0
    """Of these, those about an image."""
    rewrites: int = 0
    """Phrases that were to be rewritten."""
    cache_hits: int = 0
    """Of both, those answered from memory, from the store, or by an equal prompt of the call."""
    prompt_tokens_submitted: int = 0
    prompt_tokens_computed: int = 0
    """Those submitted whose state was not found in a prefix cache."""
    tokens_decoded: int = 0
    unparsed: int = 0
    doubtful: int = 0
    """Replies of which less than half was a label: the model did not take up the question."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed judgments by reason."""
    seconds: float = 0.0
    """Wall time of the calls that gave answers."""

    def __add__(self, other: Usage) -> Usage:
        """The two together, as a new total."""
        names = [each.name for each in fields(self) if each.name != "failures"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Usage(**sums, failures=dict(Counter(self.failures) + Counter(other.failures)))


@dataclass(frozen=True, slots=True)
class ImageGrade:
    """The image's grade of an element that the reference does not support."""

    grade: float | None
    """1-5; None if the image could not be asked, or does not tell."""
    reference_grade: float
    """1-5; the lowest if the reference was not asked either."""
    failure: Failure | None = None
    """Reason for a missing grade."""


@dataclass(frozen=True, slots=True)
class Element:
    """One graded element of a scene graph: what a score is the mean of."""

    direction: Direction
    kind: Kind
    text: str
    """The entity's identifier, or the attribute's or relation's text."""
    grade: float | None
    """1-5; None if its judgment failed."""
    spans: tuple[Span, ...]
    """Into the generation for precision, into the reference for recall."""
    identifier: str
    """The (subject) entity as the judge was asked about it."""
    other: str | None = None
    """The object entity of a relation."""
    direct: bool = True
    """False where the grade follows from an absent entity, without a question."""
    failure: Failure | None = None
    image_grade: ImageGrade | None = None
    """None if the image was not asked. ``grade`` is the larger of the two."""

    @property
    def witness(self) -> Literal["reference", "picture"] | None:
        """The source of the grade; None where only the reference was asked."""
        if self.image_grade is None:
            return None
        image, reference = self.image_grade.grade, self.image_grade.reference_grade
        return "picture" if image is not None and image > reference else "reference"


@dataclass(frozen=True, slots=True)
class Scores:
    """POSH of one generation against one reference (paper, section 3).

    ``precision`` (the paper's *mistakes*), ``recall`` (*omissions*) and their harmonic mean
    ``f1`` lie in [0.2, 1], higher is better; each is None where a judgment that it rests on
    failed, and ``failure`` then says why.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    signature: str
    """Everything that another run needs to reproduce the figures."""
    elements: tuple[Element, ...] = ()
    failure: Failure | None = None
    unparsed: int = 0
    """Judge replies among ``elements`` that were read as the lowest label."""
    generation: str = ""
    """The stripped text that precision spans point into."""
    reference: str = ""
    """The stripped text that recall spans point into."""

    def __repr__(self) -> str:
        """``Scores(precision=0.613, recall=0.520, f1=0.563, elements=12, 'A red dog ...')``."""
        if self.failure is not None:
            return f"Scores(failure={str(self.failure)!r}, {_beginning(self.generation)})"
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        means = ", ".join(f"{name}={x:.3f}" for name, x in figures.items() if x is not None)
        return f"Scores({means}, elements={len(self.elements)}, {_beginning(self.generation)})"

    def count(self, direction: Direction) -> int:
        """Number of elements in the mean of one direction."""
        return sum(element.direction == direction for element in self.elements)

    @classmethod
    def failed(cls, failure: Failure, signature: str) -> Scores:
        """The scores of a pair that has none."""
        return cls(None, None, None, signature, failure=failure)


def _beginning(text: str, length: int = 32) -> str:
    return repr(text if len(text) <= length else f"{text[:length]}...")
