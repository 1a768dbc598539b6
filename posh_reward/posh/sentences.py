"""Sentences of the generation, read against the reference as wholes.

A false sentence is mostly true in its elements. "The tall monk reads a letter" has a monk who is
tall and a letter, as the reference does, in which he burns it. One element of five is a mistake,
and the others gain recall. So a reader says of the sentence whether the reference supports it,
does not mention it, or contradicts it, and

* a text is scored as it would be without its **contradicted** sentences, and each element that only
  these state is a mistake: ten elements of grade 5 and three of a contradicted sentence have
  precision (10 * 5 + 3 * 1) / 13 / 5 = 0.82, and recall is that of the ten;
* an element of a **supported** sentence gets the grade of its sentence, if that is higher;
* an **unmentioned** sentence is left to the judge: people see what the expert left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from posh_reward.models.model import NO_LABEL, check_verdict
from posh_reward.types import (
    VALUES,
    Element,
    Span,
    Verdict,
)


def check_sentence(verdict: object) -> Verdict:
    """Return the verdict if it is a valid one over the three values, else a failure.

    A reply without a label is one, too: read as the lowest, it would be a contradiction.
    """
    checked = check_verdict(verdict, len(VALUES))
    return Verdict(None, NO_LABEL) if checked.unparsed else checked


class Excerpt(NamedTuple):
    """A text without some of its sentences, and where the rest stands in the whole text."""

    text: str
    pieces: tuple[tuple[Span, int], ...]
    """Spans of the excerpt, in order, each with its place in the whole text."""

    def find_whole(self, span: Span) -> Span:
        """Turn a span of the excerpt into one of the whole text."""
        start, end = span
        for (first, last), place in self.pieces:
            if first <= start < last:
                return start - first + place, end - first + place
        raise ValueError(f"{span} is not in the excerpt")

    def find_here(self, span: Span) -> Span | None:
        """Turn a span of the whole text into one of the excerpt; None if it was left out."""
        start, end = span
        for (first, last), place in self.pieces:
            if place <= start < place + last - first:
                return start - place + first, end - place + first
        return None

    def place_in_whole(self, element: Element) -> Element:
        """Return an element of the excerpt with its spans in the whole text."""
        return replace(element, spans=tuple(map(self.find_whole, element.spans)))


def leave_out(text: str, sentences: Sequence[Span]) -> Excerpt:
    """Cut some sentences out of a text, each with the white space after it."""
    bounds = [0]
    for start, end in sentences:
        gap = len(text[end:]) - len(text[end:].lstrip())
        bounds += [start, end + gap]
    bounds.append(len(text))
    pieces: list[tuple[Span, int]] = []
    kept = ""
    for start, end in list(pairwise(bounds))[::2]:
        part = text[start:end]
        if not kept:  # an excerpt is stripped, as texts are
            start += len(part) - len(part.lstrip())
            part = part.lstrip()
        if part:
            pieces.append(((len(kept), len(kept) + len(part)), start))
            kept += part
    return Excerpt(kept.rstrip(), tuple(pieces))
