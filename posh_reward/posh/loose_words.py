"""Content words of a generation: which its elements cover, and which are loose."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from posh_reward.types import Scores
from posh_reward.words import CONTENT_WORD, LIGHT

SENTENCE = re.compile(r"[^.!?\n]*(?:\n(?=[ \t]*[a-z])[^.!?\n]*)*(?:[.!?\n]|\Z)")
"""Up to a full stop or a line break, unless a lower-case letter shows that the sentence goes on."""


@dataclass(frozen=True, slots=True)
class LooseWords:
    """Counts of a generation's content words."""

    content: int
    loose: int  # of these, words outside the spans of all elements
    supported: int  # of the loose ones, words whose lemma is in the reference
    bare: int  # of the loose ones missing from the reference, words in sentences without elements


def count_loose_words(scores: Scores) -> LooseWords:
    """Count the content words of a generation that none of its elements covers."""
    from posh_reward.embedded.english.word_forms import lacks_word

    text, covered = scores.generation, mark_covered_characters(scores)
    words = find_content_words(text)
    sentences = list(SENTENCE.finditer(text))
    ends = [sentence.end() for sentence in sentences]
    has_element = [any(covered[each.start() : each.end()]) for each in sentences]
    loose = supported = bare = 0
    for word in words:
        if any(covered[word.start() : word.end()]):
            continue
        loose += 1
        if not lacks_word(scores.reference, word[0]):
            supported += 1
        elif not has_element[bisect_right(ends, word.start())]:
            bare += 1
    return LooseWords(len(words), loose, supported, bare)


def measure_coverage(scores: Scores) -> float | None:
    """Share of content words inside spans of elements; None without content words."""
    words = find_content_words(scores.generation)
    if not words:
        return None
    covered = mark_covered_characters(scores)
    loose = sum(not any(covered[word.start() : word.end()]) for word in words)
    return 1 - loose / len(words)


def find_content_words(text: str) -> list[re.Match[str]]:
    return [word for word in CONTENT_WORD.finditer(text) if word[0].lower() not in LIGHT]


def mark_covered_characters(scores: Scores) -> bytearray:
    """Mark with 1 each character of the generation that is within a span of an element."""
    # One byte per character: spans overlap and nest, and marking is simpler than merging.
    covered = bytearray(len(scores.generation))
    for element in scores.elements:
        if element.direction == "precision":
            for start, end in element.spans:
                covered[start:end] = b"\1" * len(covered[start:end])
    return covered
