"""Records of a human comparison, all frozen, and every word that raters read.

The key file is exactly these records as JSON.

A *generation* is what one model wrote about one item. A *coarse* task shows two generations of one
item as #1 and #2, a *granular* task one. A *preference* runs from 2 (#1 is much better) to -2 (#2
is much better). Spans are character offsets, end exclusive, into a text as shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from posh_reward.errors import InputError
from posh_reward.study.agreement.rater_agreement import tokens_in
from posh_reward.types import Span

Form = Literal["coarse", "granular"]
FORMS: tuple[Form, ...] = ("coarse", "granular")
LABEL_STUDIO_FIELDS: dict[Form, tuple[str, ...]] = {  # generations of a task in Label Studio
    "coarse": ("first", "second"),
    "granular": ("generation",),
}
LANGUAGES = ("en", "nl", "de", "fr", "es")
PREFERENCE_AXES = ("mistakes", "omissions", "overall")
MARKED_SIDES = ("mistakes", "omissions")
"""Sides of granular tasks: marked in the generation, and in the correct description."""
PREFERENCE_VALUES = (2, 1, 0, -1, -2)
"""Preferences, in the order of the choices; 2: the first is much better."""
AXIS_MEANINGS = {
    "mistakes": "fewer mistakes",
    "omissions": "fewer missing details",
    "overall": "better overall",
}
"""By axis, the meaning of a preference."""
AXIS_STATEMENTS = {
    "mistakes": "has fewer mistakes",
    "omissions": "has fewer missing details",
    "overall": "is better overall",
}
SIDE_NAMES = {"mistakes": "Mistakes", "omissions": "Missing details"}
"""By side, for readers of the results."""


@dataclass(frozen=True, slots=True)
class RaterQuestion:
    """One question about two generations."""

    title: str
    text: str
    without_reference: str = ""  # the text without a correct description; empty if the same


@dataclass(frozen=True, slots=True)
class MarkingTexts:
    """One side of a granular task."""

    task: str
    name: str  # of the marks
    nothing: str  # for a rater who marks nothing


@dataclass(frozen=True, slots=True)
class BackgroundQuestion:
    """A question about the rater, before the first task; answering it is voluntary."""

    question: str
    choices: tuple[str, ...] = ()  # none: the rater writes


@dataclass(frozen=True, slots=True)
class RaterTexts:
    """The texts of a study, in one language; ``texts/en.yaml`` describes them."""

    language: str
    heading: dict[str, str]  # by form, as are the steps
    contact: str
    reference: str
    generation: str
    questions: dict[str, RaterQuestion]
    choices: tuple[str, str, str, str, str]  # from the first being much better to the second
    marking: dict[str, MarkingTexts]
    steps: dict[str, tuple[str, ...]]
    steps_without_reference: dict[str, tuple[str, ...]]
    no_image: str
    how_to_mark: str
    keeping: str
    page: dict[str, str]  # of buttons and messages, by name
    consent: str = ""  # what raters agree to before the first task; empty: nothing
    background: tuple[BackgroundQuestion, ...] = ()

    @property
    def values(self) -> dict[str, int]:
        return dict(zip(self.choices, PREFERENCE_VALUES, strict=True))

    def number(self, place: int) -> str:
        return self.page["number"].replace("{number}", str(place))

    def question(self, axis: str, *, reference: bool) -> str:
        """Text of a question, with or without a correct description."""
        each = self.questions[axis]
        return each.text if reference else each.without_reference or each.text

    def instructions(self, form: Form, *, images: bool, reference: bool) -> tuple[str, ...]:
        steps = (self.steps if reference else self.steps_without_reference)[form]
        if not images:
            return (self.no_image, *steps[1:])
        return steps


def texts_source(language: str = "en") -> str:
    if language not in LANGUAGES:
        raise InputError(f"no texts in {language!r}: choose one of {', '.join(LANGUAGES)}")
    path = resources.files("posh_reward.study.packets") / "texts" / f"{language}.yaml"
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=len(LANGUAGES))
def shipped_texts(language: str = "en") -> RaterTexts:
    return read_texts("", language)


QUOTE_ADVICE = "put texts with : or ? or # into quotes"


def read_texts(own: str, language: str | None = None, name: str = "the texts") -> RaterTexts:
    """The texts of a language, with those of an edited file, called ``name``, in their place."""
    import yaml

    try:
        changes = yaml.safe_load(own) or {}
        own.encode("utf-8")
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also a date that is none
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or error
        raise InputError(f"{name}{where}: not YAML ({why}): {QUOTE_ADVICE}") from None
    if not isinstance(changes, dict):
        raise InputError("the texts are not a table of names and texts: see `packets texts`")
    named = changes.get("language")
    if language and named and named != language:
        raise InputError(
            f"--language is {language!r}, but {name} are in {named!r} (its line `language:`): "
            f"leave --language out, or edit the output of `packets texts --language {language}`"
        )
    code = str(language or named or "en")
    base = yaml.safe_load(texts_source(code if code in LANGUAGES else "en"))
    try:
        texts = TypeAdapter(RaterTexts).validate_python(_merge_texts(base, changes, ""))
    except ValidationError as error:
        problem = describe_first_problem(error, f"'{{}}' of {name}")
        raise InputError(f"{problem}; {QUOTE_ADVICE}") from None
    if len(set(texts.choices)) < len(PREFERENCE_VALUES):
        raise InputError("two of the five choices of the texts are the same")
    return texts


def _merge_texts(base: Mapping[str, Any], changes: Mapping[Any, Any], where: str) -> dict[str, Any]:
    texts = dict(base)
    for name, value in changes.items():
        path = f"{where}{name}"
        if name not in base:
            raise InputError(f"the texts have no {path!r}, only {', '.join(map(str, base))}")
        shipped = base[name]
        if isinstance(shipped, dict) != isinstance(value, dict):
            kind = "a table" if isinstance(shipped, dict) else "a text"
            raise InputError(f"{path!r} of the texts must be {kind}")
        if isinstance(shipped, dict):
            texts[name] = _merge_texts(shipped, value, f"{path}.")
            continue
        # The page fills the slots: raters would miss a number, or see an unknown slot's braces.
        needed, slots = _find_slots(shipped), _find_slots(value)
        if isinstance(shipped, str) and needed != slots:
            raise InputError(
                f"{path!r} of the texts needs the words in braces of the original, no more and no "
                f"fewer: {', '.join(sorted(needed ^ slots))}"
            )
        texts[name] = value
    return texts


def _find_slots(text: object) -> set[str]:
    return set(re.findall(r"\{\w+\}", str(text)))


def describe_first_problem(error: ValueError, place: str = "{}") -> str:
    """The first problem of a file, preceded by its place if pydantic found it."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{place.format('.'.join(map(str, first['loc'])))}: {first['msg']}"


ANSWERS_FORMAT = "posh-reward answers 1"
MANIFEST_FORMAT = "posh-reward packet 1"


MAX_CLOCK_LEAD = timedelta(days=2)
"""Of a rater's clock; the year 9999 would supersede all other files."""
TIME_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


@dataclass(frozen=True, slots=True)
class StudyItem:
    """One image with its reference and what each model wrote about it."""

    id: str
    reference: str  # empty in a study without correct descriptions
    texts: dict[str, str]  # by model, in the order of the models
    image: str | int | None = None  # path of an image, or row of a dataset
    place: str = field(default="", repr=False, compare=False)  # in the file, for messages


Purpose = Literal["study", "practice", "attention"]
"""Of a task. Its answer counts only in the study. In practice the right one is shown afterwards; an
attention task has a right answer that raters are not told of."""
BETTER, WORSE = "better", "worse"
"""In place of models: the two texts of an item whose right answer is known."""


@dataclass(frozen=True, slots=True)
class KnownItem:
    """An item for practice or attention, with the texts ``BETTER`` and ``WORSE``."""

    item: StudyItem
    purpose: Purpose
    why: str = ""  # what a rater reads after practising


@dataclass(frozen=True, slots=True)
class RaterTask:
    """One task of one rater: all questions about the texts shown."""

    id: str  # opaque: reveals nothing about the item, the models or the sides
    item: str
    models: tuple[str, ...]  # in the order shown
    purpose: Purpose = "study"


@dataclass(frozen=True, slots=True)
class Rater:
    """The tasks of one rater."""

    form: Form
    token: str  # part of the answers' checksum, so that no other file passes for them
    tasks: tuple[RaterTask, ...]  # in the order shown, those for practice first

    @property
    def numbered(self) -> tuple[RaterTask, ...]:
        """Tasks that the page numbers and counts as done: all but those for practice."""
        return tuple(task for task in self.tasks if task.purpose != "practice")


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """An item's texts, as raters see them, and where its image is."""

    reference: str
    texts: dict[str, str]
    image: str | int | None = None  # as in the input; unknown in older keys
    why: str = ""  # of an item for practice

    def by_side(self, model: str) -> dict[str, str]:
        """Side -> the text that raters mark, in a task about one model."""
        return {"mistakes": self.texts[model], "omissions": self.reference}

    def count_words(self, models: Iterable[str]) -> int:
        texts = [self.reference, *(self.texts[model] for model in models)]
        return sum(map(len, map(word_spans, texts)))


FileName = Annotated[str, Field(pattern=r"^[\w-]{1,64}$")]
"""Text that is part of file names, so it has no dots or slashes."""


@dataclass(frozen=True, slots=True)
class PacketKey:
    """Everything needed to read answers, and hidden from raters."""

    packet: FileName
    seed: int
    # In the order of the input; results count a preference towards the later of two models.
    models: tuple[str, ...]
    images: bool
    items: dict[str, ItemTexts]
    raters: dict[FileName, Rater]
    identical: tuple[RaterTask, ...]  # pairs of equal texts: not asked, counted as ties
    incomplete: tuple[str, ...] = ()  # items left out, since not all models wrote about them
    inputs: dict[str, str] = field(default_factory=dict)  # SHA-256 of each input file
    origins: dict[str, str] = field(default_factory=dict)  # by model: ``provenance.Origin``
    reference: bool = True  # raters see a correct description
    known: dict[str, ItemTexts] = field(default_factory=dict)  # of practice and attention tasks
    texts: RaterTexts = field(default_factory=shipped_texts)  # all that raters read
    format: Literal["posh-reward packet key 1"] = "posh-reward packet key 1"

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides to mark; without a correct description nothing can be missing."""
        return MARKED_SIDES if self.reference else MARKED_SIDES[:1]

    def find_item(self, task: RaterTask) -> ItemTexts:
        return (self.items if task.purpose == "study" else self.known)[task.item]

    def by_task(self) -> dict[str, tuple[str, int, RaterTask]]:
        """Task id -> rater, place on the rater's page (from 1), task; none for practice."""
        tasks = {}
        for name, rater in self.raters.items():
            for place, task in enumerate(rater.numbered, start=1):
                tasks[task.id] = name, place, task
        return tasks

    def in_order(self, models: Iterable[str]) -> list[str]:
        """Models of a task in the order of the study, whichever was shown first."""
        return sorted(models, key=self.models.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A rater's answer to a task, of either form, but for its choices or marks."""

    task: str  # id
    seconds: float | None = None
    comment: str = ""
    # From the key:
    rater: str = ""
    item: str = ""
    models: tuple[str, ...] = ()  # in the order shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference(Answer):
    """Answer to a coarse task: on each axis -2 to 2, above 0 if the first text is better."""

    mistakes: int
    omissions: int
    overall: int

    @property
    def by_axis(self) -> dict[str, int]:
        return {"mistakes": self.mistakes, "omissions": self.omissions, "overall": self.overall}

    def towards(self, model: str) -> dict[str, int]:
        """By axis, how much better a model is than the other."""
        sign = 1 if self.models[0] == model else -1
        return {axis: sign * value for axis, value in self.by_axis.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking(Answer):
    """Answer to a granular task: the spans marked on each side, in order."""

    mistakes: tuple[Span, ...]
    omissions: tuple[Span, ...] = ()  # none in a study without correct descriptions

    @property
    def by_side(self) -> dict[str, tuple[Span, ...]]:
        return {"mistakes": self.mistakes, "omissions": self.omissions}


WORD_PATTERN = re.compile(r"\w+(?:['\N{RIGHT SINGLE QUOTATION MARK}]\w+)*")


def word_spans(text: str) -> tuple[Span, ...]:
    """Spans of a text's words; the parts of a hyphenated word count separately."""
    return tuple(match.span() for match in WORD_PATTERN.finditer(text))


def unmarked_share(text: str, spans: Iterable[Span]) -> float:
    """Share of a text's words that no span touches, 0 to 1; 1 without words."""
    words = word_spans(text)
    return 1 - len(tokens_in(spans, words)) / max(len(words), 1)


def check_time(saved: str) -> str:
    """Check a time in UTC as JavaScript writes it; such texts sort by time."""
    if not TIME_PATTERN.fullmatch(saved):
        raise ValueError(f"{saved[:40]!r} is not a time such as 2026-11-22T10:00:00.000Z")
    time = datetime.strptime(saved, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    if time > datetime.now(timezone.utc) + MAX_CLOCK_LEAD:
        raise ValueError(f"it was saved at {saved}: set the rater's clock and save again")
    return saved
