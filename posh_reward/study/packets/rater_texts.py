"""Every word that raters read: on the page, in Label Studio and in the guide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from posh_reward.errors import InputError

Form = Literal["coarse", "granular"]
FORMS: tuple[Form, ...] = ("coarse", "granular")
FIELDS: dict[Form, tuple[str, ...]] = {  # generations of a task in Label Studio
    "coarse": ("first", "second"),
    "granular": ("generation",),
}
LANGUAGES = ("en", "nl", "de", "fr", "es")
AXES = ("mistakes", "omissions", "overall")
SIDES = ("mistakes", "omissions")
"""Sides of granular tasks: marked in the generation, and in the correct description."""
VALUES = (2, 1, 0, -1, -2)
"""Preferences, in the order of the choices; 2: the first is much better."""
BETTER = {
    "mistakes": "fewer mistakes",
    "omissions": "fewer missing details",
    "overall": "better overall",
}
"""By axis, the meaning of a preference."""
MARKS = {"mistakes": "Mistakes", "omissions": "Missing details"}
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

    @property
    def values(self) -> dict[str, int]:
        return dict(zip(self.choices, VALUES, strict=True))

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


def read_texts(own: str, language: str | None = None) -> RaterTexts:
    """The texts of a language, with those of an edited file in their place."""
    import yaml

    try:
        changes = yaml.safe_load(own) or {}
    except yaml.YAMLError as error:
        raise InputError(f"the texts are not YAML: {error}") from None
    if not isinstance(changes, dict):
        raise InputError("the texts are not a table of names and texts: see `packets texts`")
    code = str(language or changes.get("language") or "en")
    base = yaml.safe_load(texts_source(code if code in LANGUAGES else "en"))
    try:
        texts = TypeAdapter(RaterTexts).validate_python(_merge(base, changes, ""))
    except ValidationError as error:
        raise InputError(first_problem(error, "'{}' of the texts")) from None
    if len(set(texts.choices)) < len(VALUES):
        raise InputError("two of the five choices of the texts are the same")
    return texts


def _merge(base: Mapping[str, Any], changes: Mapping[Any, Any], where: str) -> dict[str, Any]:
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
            texts[name] = _merge(shipped, value, f"{path}.")
            continue
        # The page fills the slots: raters would miss a number, or see an unknown slot's braces.
        needed, slots = ({*re.findall(r"\{\w+\}", str(each))} for each in (shipped, value))
        if isinstance(shipped, str) and needed != slots:
            raise InputError(
                f"{path!r} of the texts needs the words in braces of the original, no more and no "
                f"fewer: {', '.join(sorted(needed ^ slots))}"
            )
        texts[name] = value
    return texts


def first_problem(error: ValueError, place: str = "{}") -> str:
    """The first problem of a file, preceded by its place if pydantic found it."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{place.format('.'.join(map(str, first['loc'])))}: {first['msg']}"
