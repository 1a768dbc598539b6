"""The pairs of a call: texts as given, then as descriptions, ready to be examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from posh_reward.metrics.metric import join_references
from posh_reward.models.model import NO_REASON
from posh_reward.models.prompt_images import load_prompt_images
from posh_reward.posh.examine import list_mistakes
from posh_reward.posh.sentences import Excerpt, leave_out
from posh_reward.text_values import read_text, read_texts
from posh_reward.types import (
    Description,
    Element,
    Failure,
    PromptImage,
    SentenceVerdict,
    Verdict,
)


class PairTask(NamedTuple):
    """One pair to score; equal tasks are scored once."""

    generation: str | Failure
    reference: str | Failure
    image: PromptImage | Failure | None
    joined: bool = False  # ``reference`` consists of several


class DescriptionPair(NamedTuple):
    """A pair ready to be examined."""

    generation: Description
    reference: Description
    image: PromptImage | None
    sentences: tuple[SentenceVerdict, ...] = ()  # of the generation, if they were read
    excerpt: Excerpt | None = None  # the generation without its contradicted sentences
    examined: Description | None = None  # the excerpt as a description

    @property
    def contradicted(self) -> list[SentenceVerdict]:
        return [each for each in self.sentences if each.value == "contradicted"]

    def with_sentences(self, verdicts: Sequence[Verdict]) -> DescriptionPair | Failure:
        """Return the pair with its sentences read, or the reason why one was not."""
        sentences: list[SentenceVerdict] = []
        for span, verdict in zip(self.generation.sentences, verdicts, strict=True):
            if verdict.probabilities is None:
                return verdict.failure or NO_REASON
            sentences.append(SentenceVerdict(span, *verdict.probabilities))
        pair = self._replace(sentences=tuple(sentences))
        if not pair.contradicted:
            return pair
        spans = [each.span for each in pair.contradicted]
        return pair._replace(excerpt=leave_out(self.generation.text, spans))

    def list_examined(self) -> list[SentenceVerdict]:
        """List the sentences that are examined, where they stand in the text that is."""
        if self.excerpt is None:
            return list(self.sentences)
        found: list[SentenceVerdict] = []
        for each in self.sentences:
            place = self.excerpt.find_here(each.span)
            if place is not None:
                found.append(replace(each, span=place))
        return found

    def complete(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        """Return all elements of the generation: those examined, and its mistakes."""
        if self.excerpt is None:
            return elements
        mistakes = list_mistakes(self.generation, self.reference, self.contradicted)
        return (*map(self.excerpt.place_in_whole, elements), *mistakes)


def make_tasks(
    generations: Sequence[object], references: Sequence[object], images: Sequence[object] | None
) -> list[PairTask]:
    """Pair the arguments of a call; several references of one pair become one text."""
    prompt_images = [None] * len(generations) if images is None else load_prompt_images(images)
    tasks = []
    for generation, reference, image in zip(generations, references, prompt_images, strict=True):
        texts = read_texts(reference)
        if isinstance(texts, Failure):
            tasks.append(PairTask(read_text(generation), texts, image))
        else:
            whole, joined = join_references(texts), len(texts) > 1
            tasks.append(PairTask(read_text(generation), whole, image, joined))
    return tasks


def pair_descriptions(
    generation: Description | Failure, reference: Description | Failure, task: PairTask
) -> DescriptionPair | Failure:
    """Return the pair, or the reason why it cannot be examined."""
    if isinstance(reference, Failure):
        return reference.about("the reference")
    if isinstance(generation, Failure):
        return generation.about("the generation")
    if isinstance(task.image, Failure):
        return task.image
    if not reference.text:
        return Failure("text", "the reference is empty")
    return DescriptionPair(generation, reference, task.image)


def list_usable(pairs: Sequence[DescriptionPair | Failure]) -> list[DescriptionPair]:
    return [pair for pair in pairs if isinstance(pair, DescriptionPair)]
