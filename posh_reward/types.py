"""The records that pass between stages: plain data, all frozen but ``Usage``.

Most that a pair has by the hundred are named tuples, which are made five times as fast as frozen
dataclasses; Python writes them as JSON lists.

Flow: ``Description`` (a parsed text and its ``SceneGraph``) -> ``Question`` -> ``Verdict``
-> ``Element`` -> ``Scores``. A step that cannot be done leaves a ``Failure`` as its result.

Token and sentence indices count from 0 within one text. A *grade* is a real number from 1 (absent)
to 5 (explicit): the mean label under a judge's distribution. A *score* is a mean of grades divided
by 5, so from 0.2 to 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count
from math import fsum
from numbers import Real
from operator import mul
from typing import Annotated, Any, Literal, NamedTuple, get_args

Span = tuple[int, int]
"""Character offsets (start, end) into the *stripped* text, end exclusive."""

Mention = tuple[int, int]
"""Token indices (first, last) of a mention, both inclusive."""

Clusters = tuple[tuple[Mention, ...], ...]
"""Coreference clusters of one text; a cluster lists all mentions of one entity."""

Direction = Literal["precision", "recall"]
"""precision: elements of the generation, sought in the reference.
recall: elements of the reference, sought in the generation."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

Kind = Literal["entity", "attribute", "relation"]
KINDS: tuple[Kind, ...] = get_args(Kind)

RelationSource = Literal["poss", "verb", "prep"]
"""Construction that expressed a relation: a possessive, a verb, or a preposition."""
PART_OF = "part of"
"""Text of a relation from a possessive: "her head" is (head, part of, woman)."""

FailureKind = Literal["text", "prompt", "reply", "engine", "error"]
"""Origin of a failure.

text: a generation or reference cannot be scored (missing, too long, unparseable).
prompt: the model cannot take a question (it exceeds the context, say).
reply: the model answered, but the answer could not be read.
engine: no answer: unreachable, timed out, out of memory, crashed, or the judge gave up.
error: unexpected exception.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing result: neither a low score nor an exception that stops the batch."""

    kind: FailureKind
    detail: str  # one line for people, with the remedy if there is one

    def __str__(self) -> str:
        return self.detail

    @property
    def is_transient(self) -> bool:
        """True if a retry may help: the judge is at fault, not the text."""
        return self.kind in ("engine", "error")

    def about(self, subject: str) -> Failure:
        """Return the failure with its subject: "is missing" -> "the caption is missing"."""
        return replace(self, detail=f"{subject} {self.detail}")


LABELS = ("1", "2", "3", "4", "5")
"""A judge's possible answers on POSH's scale, worst first (paper, A.1.4)."""
LOWEST_GRADE, HIGHEST_GRADE = 1.0, 5.0

Value = Literal["contradicted", "unmentioned", "supported"]
VALUES: tuple[Value, ...] = get_args(Value)
"""What a text can say of another's sentence: that it is false, nothing, or that it is true. Worst
first, as labels are."""


@dataclass(frozen=True, slots=True)
class FieldBounds:
    """Bounds that pydantic, which is not imported here, checks when a record is read."""

    least: float
    most: float

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> dict[str, Any]:
        return {**handler(kind), "ge": self.least, "le": self.most}


Grade = Annotated[float, FieldBounds(LOWEST_GRADE, HIGHEST_GRADE)]
Count = Annotated[int, FieldBounds(0, 2**31)]
Share = Annotated[float, FieldBounds(0.0, 1.0)]

WORD_CACHE_SIZE = 8_192
"""Size of caches keyed by words: enough for a policy's vocabulary, and bounded because texts can
contain any number of different numerals."""


@dataclass(frozen=True, slots=True, order=True)
class PromptImage:
    """An image that accompanies a prompt; images with equal digests compare equal."""

    digest: str  # SHA-256 of the pixels, in hexadecimal
    image: object = field(compare=False, repr=False)  # a PIL image


class Token(NamedTuple):
    """One word of a parsed text."""

    text: str
    lemma: str
    pos: str  # Universal part of speech
    dep: str  # ClearNLP dependency label
    head: int  # token index of the syntactic head; a root points at itself
    sentence: int
    span: Span


class Attribute(NamedTuple):
    """A property of one entity, e.g. ``"mustard-yellow"`` of a shawl (paper, section 3)."""

    text: str
    sentences: tuple[int, ...]
    spans: tuple[Span, ...]


class Entity(NamedTuple):
    """An object, person or place that a text mentions, with all its mentions merged."""

    head: str  # text of the first mention
    heads: tuple[str, ...]  # texts of all mentions, in text order
    attributes: tuple[Attribute, ...]
    sentences: tuple[int, ...]  # of each mention, aligned with ``heads``
    spans: tuple[Span, ...]
    us: bool = False  # the viewer: "we", "us", "our"
    left: bool = False  # "our left", if mentioned at least twice (the release's rule)
    right: bool = False  # "our right", likewise

    @property
    def flagged(self) -> bool:
        """True for the viewer and the viewer's sides, which are not scored."""
        return self.us or self.left or self.right


class Relation(NamedTuple):
    """A directed edge between two entities of one graph."""

    subject: int  # index into ``SceneGraph.entities``
    object: int  # index into ``SceneGraph.entities``
    text: str
    source: RelationSource
    sentences: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class SceneGraph:
    """Entities with their attributes, and the relations between them, in text order."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True)
class Description:
    """A parsed text with its scene graph."""

    text: str  # stripped; all spans of ``graph`` and ``tokens`` point into it
    graph: SceneGraph
    tokens: tuple[Token, ...] = ()
    clusters: Clusters = ()
    original: str | None = None  # the text before stripping, if that changed it

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Spans of the sentences that the parser found, but for those without a word."""
        spans: dict[int, Span] = {}
        words = [token for token in self.tokens if not token.text.isspace()]
        for token in words:
            start, _ = spans.get(token.sentence, token.span)
            spans[token.sentence] = start, token.span[1]
        return tuple((a, b) for a, b in spans.values() if any(map(str.isalnum, self.text[a:b])))


class Question(NamedTuple):
    """One question to a judge, in structured form; language models get it as a prompt.

    Entity: is ``identifier`` mentioned in ``target``? Attribute: is ``identifier`` described
    there as ``text``? Relation: is the relation of ``identifier`` to ``other`` there ``text``?
    """

    direction: Direction
    kind: Kind
    identifier: str  # name of the (subject) entity: a candidate, or the one it was found by
    source: Description  # contains the element
    target: Description  # searched for the element
    entity: int  # index of the (subject) entity in ``source.graph.entities``
    text: str | None = None  # of the attribute or relation; None for an entity
    other: str | None = None  # identifier of the object entity; None unless a relation
    other_entity: int | None = None  # index of the object entity; None unless a relation
    raw: str | None = None  # ``identifier`` before rewriting; None if it was not rewritten
    image: PromptImage | None = None  # searched in place of ``target``; None: the text is searched


class Sentence(NamedTuple):
    """A sentence of ``source``, to be read against ``target``."""

    source: Description
    target: Description
    span: Span  # into the source's text

    @property
    def text(self) -> str:
        start, end = self.span
        return self.source.text[start:end]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A distribution over labels, or the reason why there is none."""

    probabilities: tuple[float, ...] | None
    """One per label, worst label first, summing to 1; None if the judgment failed."""
    failure: Failure | None = None  # reason for missing probabilities
    unparsed: bool = False
    """The reply contained no label and was read as the lowest one (the release's policy)."""
    mass: float = 1.0
    """Total probability of the labels before renormalising."""

    @property
    def grade(self) -> float | None:
        """Mean label, counted from 1; None if the judgment failed."""
        if self.probabilities is None:
            return None
        return fsum(map(mul, self.probabilities, count(1)))


class Phrase(NamedTuple):
    """A raw candidate identifier, to be rewritten as a fluent noun phrase."""

    text: str
    kind: Literal["attribute", "relation"]  # selects the rewrite instruction (paper, A.1.4)


class Reply(NamedTuple):
    """A text, such as a rewritten phrase, or the reason why there is none."""

    text: str | None
    failure: Failure | None = None


@dataclass(slots=True)
class Usage:
    """Running totals of the work of a judge or a model."""

    requests: int = 0  # questions to be graded
    images: int = 0  # of these, questions about an image
    rewrites: int = 0  # phrases to be rewritten
    unrelated_rewrites: int = 0  # replies that share no word with their phrase
    cache_hits: int = 0
    """Requests and rewrites answered from memory, the store, or an equal prompt in the call."""
    prompt_tokens_submitted: int = 0
    prompt_tokens_computed: int = 0  # of these, tokens not found in a prefix cache
    tokens_decoded: int = 0
    unparsed: int = 0
    doubtful: int = 0  # replies whose labels had less than half of the probability
    failures: dict[str, int] = field(default_factory=dict)  # failed judgments by reason
    seconds: float = 0.0  # wall time of the calls that returned answers

    def count_failures(self, answers: Iterable[Verdict | Reply]) -> None:
        """Add the failures among ``answers``, by reason."""
        reasons = Counter(str(each.failure) for each in answers if each.failure is not None)
        self.failures = dict(Counter(self.failures) + reasons)

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both as a new total."""
        total = replace(self)
        total.add(other)
        return total

    def add(self, other: Usage) -> None:
        """Add the work of another, such as one in a worker process."""
        for each in fields(self):
            if each.name != "failures":
                total = getattr(self, each.name) + getattr(other, each.name)
                setattr(self, each.name, total)
        self.failures = dict(Counter(self.failures) + Counter(other.failures))


@dataclass(frozen=True, slots=True)
class ImageGrade:
    """The image's grade of an element that the reference does not support."""

    grade: Grade | None  # 1-5; None if the image could not be judged or does not settle it
    reference_grade: Grade  # 1-5; the lowest if the reference was not asked
    failure: Failure | None = None  # reason for a missing grade


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """What the reference says of one sentence of the generation, as probabilities."""

    span: Span  # into the generation
    contradicted: Share
    unmentioned: Share
    supported: Share

    @property
    def value(self) -> Value:
        """The likeliest of the three; unmentioned if that leaves a doubt."""
        likeliest = max(self.contradicted, self.unmentioned, self.supported)
        if likeliest == self.unmentioned or self.contradicted == self.supported:
            return "unmentioned"
        return "supported" if likeliest == self.supported else "contradicted"

    @property
    def grade(self) -> float:
        """Mean grade of what the sentence says: the highest if it is supported, else the lowest."""
        return LOWEST_GRADE + (HIGHEST_GRADE - LOWEST_GRADE) * self.supported


@dataclass(frozen=True, slots=True)
class Element:
    """One graded element of a scene graph; a score is the mean over elements."""

    direction: Direction
    """precision: part of the generation; recall: part of the reference."""
    kind: Kind
    """Entity, attribute or relation."""
    text: str
    """The entity's identifier, or the attribute's or relation's text."""
    grade: Grade | None
    """1-5; None if the judgment failed."""
    spans: tuple[Span, ...]
    """Into the generation for precision, into the reference for recall."""
    identifier: str
    """Name of the (subject) entity in the question."""
    other: str | None = None
    """Name of a relation's object entity."""
    direct: bool = True
    """False if the grade follows from an absent entity, without a question."""
    failure: Failure | None = None
    """Reason for a missing grade."""
    image_grade: ImageGrade | None = None
    """None if the image was not consulted. ``grade`` is the higher of the two."""
    decided_by: Literal["supported", "contradicted"] | None = None
    """Value of the sentence that decided the grade; None if the judge's or the image's counts."""

    @property
    def witness(self) -> Literal["reference", "image"] | None:
        """Source of the grade; None if the image was not consulted."""
        if self.image_grade is None:
            return None
        image, reference = self.image_grade.grade, self.image_grade.reference_grade
        if image is not None and image > reference:
            return "image"
        return "reference"


ELEMENTS_OF = {"precision": "generation_elements", "recall": "reference_elements"}
"""Score -> number of elements that it is the mean of; without any it is 1 by definition."""
WORST_SCORE = LOWEST_GRADE / HIGHEST_GRADE  # every element graded 1 of 5


def score_in_means(value_of: Callable[[str], Any], axis: str) -> float | None:
    """Return a score as it counts in means; None if it is left out, and should be named.

    An empty text has precision 1, for lack of elements, and so an f1 of about .35: a model that is
    silent where it is unsure would seem better than one that errs. Its precision is left out, and
    its f1 is the worst, as rewards pay it. A reference without elements says nothing of a text:
    recall and f1 are left out.

    Args:
        value_of: reads a field of the record or row by its name. A row of an earlier version has no
            number of elements, and its record 0: a score below 1 has some all the same.
        axis: name of the score.
    """
    value: float | None = value_of(axis)
    empty = {
        each: value_of(each) == 1 and value_of(elements) == 0
        for each, elements in ELEMENTS_OF.items()
    }
    if axis != "f1":
        return None if empty.get(axis) else value
    if empty["recall"]:
        return None
    if empty["precision"]:
        return WORST_SCORE
    return value


@dataclass(frozen=True, slots=True)
class Scores:
    """POSH scores of one generation against one reference (paper, section 3).

    Files, pages and servers have the same fields (``metrics/metric.py``).
    Scores are 0.2 to 1, higher is better; None if a judgment that they depend on failed.
    """

    precision: float | None
    """Support of the generation by the reference: what people judge as *mistakes*."""
    recall: float | None
    """Coverage of the reference by the generation: what people judge as *omissions*."""
    f1: float | None
    """Harmonic mean of both, for what people judge as *overall* quality."""
    signature: str
    """Settings and versions that reproduce the scores."""
    elements: tuple[Element, ...] = ()
    """All graded elements, those of precision first."""
    failure: Failure | None = None
    """Reason for missing scores."""
    unparsed: Count = 0
    """Judge replies without a label, which were read as the lowest one."""
    generation: str = ""
    """Stripped; precision spans point into it."""
    reference: str = ""
    """Stripped; recall spans point into it."""
    generation_elements: Count = 0
    """Number of elements in the mean of ``precision``, also where ``elements`` are left out."""
    reference_elements: Count = 0
    """Number of elements in the mean of ``recall``."""
    doubtful_share: Share = 0.0
    """Share of judge replies whose labels had less than half of the probability."""
    sentences: tuple[SentenceVerdict, ...] = ()
    """Of the generation, if a sentence reader read it against the reference."""

    @property
    def contradicted(self) -> list[SentenceVerdict]:
        """Sentences that the reference contradicts."""
        return [each for each in self.sentences if each.value == "contradicted"]

    @property
    def contradicted_share(self) -> float | None:
        """Share of the sentences that the reference contradicts; None if none was read."""
        if not self.sentences:
            return None
        return len(self.contradicted) / len(self.sentences)

    def __post_init__(self) -> None:
        if self.elements:
            sides = [element.direction for element in self.elements]
            object.__setattr__(self, "generation_elements", sides.count("precision"))  # frozen
            object.__setattr__(self, "reference_elements", sides.count("recall"))

    def __repr__(self) -> str:
        """``Scores(precision=0.613, recall=0.520, f1=0.563, elements=12, 'A red dog ...')``."""
        if self.failure is not None:
            return f"Scores(failure={str(self.failure)!r}, {_quote_beginning(self.generation)})"
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        means = ", ".join(f"{name}={x:.3f}" for name, x in figures.items() if x is not None)
        return (
            f"Scores({means}, elements={len(self.elements)}, {_quote_beginning(self.generation)})"
        )

    @classmethod
    def failed(cls, failure: Failure, signature: str) -> Scores:
        """Return the record of a pair that could not be scored."""
        return cls(None, None, None, signature, failure=failure)


def _quote_beginning(text: str, length: int = 32) -> str:
    if len(text) > length:
        text = f"{text[:length]}..."
    return repr(text)


def is_missing(text: object) -> bool:
    """Test for None, and for the marks of missing values in data frames: NaN, NA, NaT."""
    if text is None or type(text).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(text, Real) and text != text
