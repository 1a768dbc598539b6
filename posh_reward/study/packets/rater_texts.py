"""Every word that a rater reads: for the page, Label Studio, Potato and the guide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from posh_reward.errors import InputError

Form = Literal["coarse", "ranking", "granular"]
FORMS: tuple[Form, ...] = ("coarse", "ranking", "granular")
RANKED = 3  # models in a ranking
FIELDS: dict[Form, tuple[str, ...]] = {  # generations of a task in Label Studio and Potato
    "coarse": ("first", "second"),
    "ranking": ("first", "second", "third"),
    "granular": ("generation",),
}
NO_TEXT = "\N{EM DASH}"  # in a ranking of two texts, since two models wrote the same
LANGUAGES = ("en", "nl", "de", "fr", "es")
AXES = ("mistakes", "omissions", "overall")
SIDES = ("mistakes", "omissions")
"""Of granular tasks: marked in the generation, and in the correct description."""
VALUES = (2, 1, 0, -1, -2)
"""Preferences, as the choices name them; 2 means that the first is much better."""
BETTER = {
    "mistakes": "fewer mistakes",
    "omissions": "fewer missing details",
    "overall": "better overall",
}
"""By axis, what a preference means."""
MARKS = {"mistakes": "Mistakes", "omissions": "Missing details"}
"""By side, for whoever reads the results."""


@dataclass(frozen=True, slots=True)
class RaterQuestion:
    """One question about two generations."""

    title: str
    text: str
    # The text where raters see no correct description; empty if it is the same.
    without_reference: str = ""


@dataclass(frozen=True, slots=True)
class MarkingTexts:
    """One side of a granular task."""

    task: str
    name: str  # of the marks
    nothing: str  # for a rater who marks nothing


@dataclass(frozen=True, slots=True)
class RaterTexts:
    """The texts of a study, in one language; ``texts/en.yaml`` says what each is."""

    language: str
    heading: dict[Form, str]
    contact: str
    reference: str
    generation: str
    questions: dict[str, RaterQuestion]
    choices: tuple[str, str, str, str, str]  # from the first being much better to the second
    places: tuple[str, str, str]  # in a ranking, the best first
    marking: dict[str, MarkingTexts]
    steps: dict[Form, tuple[str, ...]]
    steps_without_reference: dict[Form, tuple[str, ...]]
    no_image: str
    how_to_mark: str
    suggested: str
    keeping: str
    page: dict[str, str]  # of buttons and messages, by name

    @property
    def values(self) -> dict[str, int]:
        """Choices -> preferences."""
        return dict(zip(self.choices, VALUES, strict=True))

    @property
    def ranks(self) -> dict[str, int]:
        """Places in a ranking, by their labels -> from 1, the best."""
        return {label: rank for rank, label in enumerate(self.places, start=1)}

    def question(self, axis: str, *, reference: bool) -> str:
        """The text of a question, with a correct description to see or without."""
        each = self.questions[axis]
        return each.text if reference else each.without_reference or each.text

    def instructions(
        self, form: Form, *, images: bool, suggested: bool, reference: bool
    ) -> tuple[str, ...]:
        """The steps that a rater reads first."""
        steps = (self.steps if reference else self.steps_without_reference)[form]
        if not images:
            steps = (self.no_image, *steps[1:])
        return (*steps, self.suggested) if suggested else steps


def texts_source(language: str = "en") -> str:
    """The file of a language, to edit."""
    if language not in LANGUAGES:
        raise InputError(f"there are no texts in {language!r}, but in {', '.join(LANGUAGES)}")
    path = resources.files("posh_reward.study.packets") / "texts" / f"{language}.yaml"
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=len(LANGUAGES))
def shipped_texts(language: str = "en") -> RaterTexts:
    """The texts of a language, unchanged."""
    return read_texts("", language)


def read_texts(own: str, language: str | None = None) -> RaterTexts:
    """The texts of a language, with those of an edited file in their place.

    Args:
        own: YAML with some or all of the names in ``texts/en.yaml``.
        language: of what it leaves out; None: the one that it names, or English.

    Raises:
        InputError: the file is not YAML, has an unknown name, or a text lost its {words}.
    """
    import yaml

    try:
        changes = yaml.safe_load(own) or {}
    except yaml.YAMLError as error:
        raise InputError(f"the texts are not YAML: {error}") from None
    if not isinstance(changes, dict):
        raise InputError("the texts are no table of names and texts: see `packets texts`")
    code = str(language or changes.get("language") or "en")
    base = yaml.safe_load(texts_source(code if code in LANGUAGES else "en"))
    return _check(_merge(base, changes, ""))


def _merge(base: Mapping[str, Any], changes: Mapping[Any, Any], where: str) -> dict[str, Any]:
    texts = dict(base)
    for name, value in changes.items():
        path = f"{where}{name}"
        if name not in base:
            raise InputError(f"the texts have no {path!r}; here are {', '.join(map(str, base))}")
        own = base[name]
        if isinstance(own, dict) != isinstance(value, dict):
            kind = "a table" if isinstance(own, dict) else "a text"
            raise InputError(f"{path!r} of the texts is {kind}")
        if isinstance(own, dict):
            texts[name] = _merge(own, value, f"{path}.")
            continue
        # The page fills the slots: a lost one would show raters no number, another one braces.
        if isinstance(own, str) and (slots := _slots(own) ^ _slots(str(value))):
            raise InputError(
                f"{path!r} of the texts needs the words in braces of the original, no more and no "
                f"fewer: {', '.join(sorted(slots))}"
            )
        texts[name] = value
    return texts


def _slots(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


def first_problem(error: ValueError, place: str = "{}") -> str:
    """The first thing that is wrong in a file, behind its place if pydantic tells it."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{place.format('.'.join(map(str, first['loc'])))}: {first['msg']}"


def _check(content: Mapping[str, Any]) -> RaterTexts:
    from pydantic import TypeAdapter

    try:
        texts = TypeAdapter(RaterTexts).validate_python(content)
    except ValueError as error:
        raise InputError(first_problem(error, "'{}' of the texts")) from None
    if len(set(texts.choices)) < len(VALUES):
        raise InputError("two of the five choices of the texts are the same")
    return texts
