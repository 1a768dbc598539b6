"""Questions -> prompts (paper, A.1.4), whose wording is data: ``prompts/*.txt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from posh_reward.errors import InputError
from posh_reward.metrics.wording import load_sections
from posh_reward.models.model import Prompt
from posh_reward.types import Description, Direction, Phrase, Question, Sentence


@dataclass(frozen=True, slots=True)
class Preset:
    """Wording of the questions."""

    prompts: str  # the wording is in ``prompts/<this>.txt``
    edition: int = 1  # of the wording, in signatures from 2 on; raise it with any change


PRESET = {
    "released": Preset("released"),
    "paper": Preset("paper"),
    "prefix-first": Preset("prefix-first", edition=2),
}
"""released: wording of the released code, which produced the published numbers. paper: wording of
the paper's appendix A.1.4. prefix-first: instruction before the descriptions, so that prompts of a
pair share all but the short question; it is ours and has no published numbers."""

PRESETS = tuple(PRESET)


def build_question(question: Question, preset: str = "released") -> str:
    """Return the question alone, for people: ``Q: Is "the tall man" ...``."""
    return _question_and_rest(question, preset)[0]


def build_prompt(question: Question, preset: str = "released") -> Prompt:
    """Return the whole message: descriptions or image, question, guide and instruction.

    A question about an image omits the element's own description: the identifier is enough to
    tell entities apart, prompts share the image as their prefix, and nothing suggests an answer.
    """
    suffix = "".join(_question_and_rest(question, preset))
    if question.image is not None:
        return Prompt(_fill_opening(preset, "prompt.image", "", ""), suffix, (question.image,))
    return Prompt(
        build_opening(question.direction, question.source, question.target, preset), suffix
    )


def build_sentence_prompt(sentence: Sentence, preset: str = "released") -> Prompt:
    """Return the message about a whole sentence, which begins as those about its elements do."""
    prefix = build_opening("precision", sentence.source, sentence.target, preset)
    question = load_sections("posh", "sentence")["sentence"]
    return Prompt(prefix, question.replace("{sentence}", sentence.text))


def build_opening(
    direction: Direction, source: Description, target: Description, preset: str
) -> str:
    """Return what all questions about a pair in one direction begin with."""
    reference, generation = _original_text(target), _original_text(source)
    if direction == "recall":
        reference, generation = generation, reference
    return _fill_opening(preset, f"prompt.{direction}", reference, generation)


def _original_text(description: Description) -> str:
    """Return a description's text, in the release with the white space around it."""
    if description.original is None:
        return description.text
    return description.original


def _question_and_rest(question: Question, preset: str) -> tuple[str, str]:
    """Return the question, and the prompt's text after it.

    The release replaces the last occurrence of the raw identifier in the prompt by the rewritten
    one. That is the one in the question, unless the text after it contains the identifier, too:
    for "a *weak hint* glows" it asks about the "weak hint" and changes the scoring guide to
    "2: the weak hint".
    """
    section = question.direction if question.image is None else "image"
    template = _load_sections(preset)[f"{question.kind}.{section}"]
    _, after = _split_at(preset, f"prompt.{section}", "{question}")
    raw = question.raw
    identifier = question.identifier if raw is None else raw
    text = template.format(
        identifier=identifier, text=question.text or "", other=question.other or ""
    )
    if raw is None:
        return text, after
    if raw in after:
        return text, _replace_last(after, raw, question.identifier)
    return _replace_last(text, raw, question.identifier), after


def _replace_last(text: str, old: str, new: str) -> str:
    before, _, after = text.rpartition(old)
    return before + new + after


def build_rewrite_prompt(phrase: Phrase, preset: str = "released") -> Prompt:
    """Return the message that asks for a fluent noun phrase."""
    before, after = _split_at(preset, f"rewrite.{phrase.kind}", "{phrase}")
    # No shared prefix: tokenizers join a phrase's first word to the quotation mark before it.
    return Prompt("", before + phrase.text + after)


def check_preset(preset: str) -> str:
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}: choose one of {', '.join(PRESETS)}")
    return preset


def _load_sections(preset: str) -> Mapping[str, str]:
    return load_sections("posh", PRESET[check_preset(preset)].prompts)


@cache
def _split_at(preset: str, section: str, field: str) -> tuple[str, str]:
    """Return a section's text before and after the one field that differs between questions."""
    before, after = _load_sections(preset)[section].split(field)
    return before, after


@lru_cache(maxsize=1024)
def _fill_opening(preset: str, section: str, reference: str, generation: str) -> str:
    before, _ = _split_at(preset, section, "{question}")
    return before.format(reference=reference, generation=generation)
