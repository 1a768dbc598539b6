"""Questions -> prompts. The wording is data: ``prompts/*.txt``, one ``[section]`` each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from posh_reward.errors import InputError
from posh_reward.metrics.metric import sections
from posh_reward.models.model import Prompt
from posh_reward.types import Description, Phrase, Question


@dataclass(frozen=True, slots=True)
class Preset:
    """Wording of the questions, and the kind of scene graphs that they are about."""

    prompts: str
    """File of the wording, ``prompts/<this>.txt``."""
    mended: bool = False
    """Scene graphs and names of entities are without the release's clear mistakes."""
    edition: int = 1
    """Version of the wording, which signatures carry from 2 on: raise it with any change."""


PRESET = {
    "released": Preset("released"),
    "paper": Preset("paper"),
    "prefix-first": Preset("prefix-first", edition=2),
    "mended": Preset("released", mended=True),
}
"""released: what the published numbers came from. paper: the wording of its appendix A.1.4.
prefix-first: the instruction before the descriptions, so that all but the short question is shared.
mended: the wording of released, without the release's clear mistakes in scene graphs and in names
of entities (docs/released_quirks.md). The last two are ours; no published number is theirs."""

PRESETS = tuple(PRESET)


def question(question: Question, preset: str = "released") -> str:
    """The question block alone, as people read it: ``Q: Is "the tall man" ...``."""
    return _question_and_rest(question, preset)[0]


def prompt(question: Question, preset: str = "released") -> Prompt:
    """The whole message: descriptions or the image, question, guide and instruction.

    An image is asked about without the description that the element comes from: its identifier
    tells it from the others, the shared prefix is the image alone, and nothing suggests an answer.
    """
    if question.image is not None:
        opening = _opening(preset, "prompt.picture", "", "")
        return Prompt(opening, "".join(_question_and_rest(question, preset)), (question.image,))
    source, target = _text_of(question.source, preset), _text_of(question.target, preset)
    reference, generation = (
        (target, source) if question.direction == "precision" else (source, target)
    )
    opening = _opening(preset, f"prompt.{question.direction}", reference, generation)
    return Prompt(opening, "".join(_question_and_rest(question, preset)))


def _text_of(description: Description, preset: str) -> str:
    """A description as prompts have it: as released with the white space around it."""
    if description.original is None or PRESET[preset].mended:
        return description.text
    return description.original


def _question_and_rest(question: Question, preset: str) -> tuple[str, str]:
    """The question, and the rest of the prompt after it.

    The release puts a rewritten identifier where the prompt holds the raw one for the last time.
    That is the question, unless the rest of the prompt happens to hold it: of "a *weak hint*
    glows" it asks about the "weak hint", with "2: the weak hint" in the scoring guide.
    """
    section = question.direction if question.image is None else "picture"
    template = _sections(preset)[f"{question.kind}.{section}"]
    _, after = _around(preset, f"prompt.{section}", "{question}")
    raw = None if PRESET[preset].mended else question.raw
    identifier = question.identifier if raw is None else raw
    text = template.format(
        identifier=identifier, text=question.text or "", other=question.other or ""
    )
    if raw is None:
        return text, after
    if raw in after:
        return text, _with_last(after, raw, question.identifier)
    return _with_last(text, raw, question.identifier), after


def _with_last(text: str, old: str, new: str) -> str:
    before, _, after = text.rpartition(old)
    return before + new + after


def rewrite_prompt(question: Phrase, preset: str = "released") -> Prompt:
    """The message that asks for a fluent noun phrase.

    All of it is its own: a phrase begins within a token of what stands before it (``"dog``).
    """
    before, after = _around(preset, f"rewrite.{question.kind}", "{phrase}")
    return Prompt("", before + question.text + after)


def check_preset(preset: str) -> str:
    """Return ``preset`` if there is one of that name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    if preset not in PRESETS:
        raise InputError(f"no preset {preset!r}: choose one of {', '.join(PRESETS)}")
    return preset


def templates_of(preset: str) -> tuple[str, ...]:
    """The wording of a preset, section by section."""
    return tuple(_sections(preset).values())


def _sections(preset: str) -> Mapping[str, str]:
    return sections("posh_reward.metrics.posh", PRESET[check_preset(preset)].prompts)


@cache
def _around(preset: str, section: str, field: str) -> tuple[str, str]:
    """A section before and after its one field that differs between questions."""
    before, after = _sections(preset)[section].split(field)
    return before, after


@lru_cache(maxsize=1024)
def _opening(preset: str, section: str, reference: str, generation: str) -> str:
    before, _ = _around(preset, section, "{question}")
    return before.format(reference=reference, generation=generation)
