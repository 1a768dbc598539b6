"""The parts of a reference against which a sentence is read."""

from __future__ import annotations

import re
from math import log

MOST_SENTENCES = 3
MOST_RUNS = 4
NEXT_LATER = 0.5  # sentences: the one before the best comes before the one after it
STEM_LETTERS = 5
SENTENCE_END = re.compile(r"(?<=[.!?])[^\w\s]*\s+(?=[^\w\s]*[A-Z0-9])")
WORD = re.compile(r"\w+")
FUNCTION_WORDS = frozenset(
    "a an the of and or to is are was were be been being it its that this these those there here "
    "in on at by with for from as into onto her his their he she they who which whose has have had "
    "one some other another while".split()
)


def split_sentences(text: str) -> list[str]:
    return [sentence for sentence in SENTENCE_END.split(text.strip()) if sentence]


def find_stems(text: str) -> set[str]:
    words = (word for word in WORD.findall(text.lower()) if word not in FUNCTION_WORDS)
    return {word.rstrip("s")[:STEM_LETTERS] for word in words}


def choose_windows(reference: str, sentence: str) -> list[str]:
    """Return the reference's sentence that shares most with a sentence, and the best three.

    A shared stem weighs more the fewer sentences of the reference have it. Of the three,
    each adds the most stems that those before it lack; among equals, the one next to the
    best, which may say who "she" is. They stand in the reference's order.
    """
    parts = split_sentences(reference)
    stems = [find_stems(part) for part in parts]
    lacking = find_stems(sentence)
    counts = {stem: sum(stem in found for found in stems) for stem in lacking}
    chosen: list[int] = []
    while len(chosen) < min(MOST_SENTENCES, len(parts)):
        best = max(
            (index for index in range(len(parts)) if index not in chosen),
            key=lambda index: (
                sum(log((len(parts) + 1) / counts[stem]) for stem in lacking & stems[index]),
                -abs(index - chosen[0] + NEXT_LATER) if chosen else 0,
                -index,
            ),
        )
        lacking = lacking - stems[best]
        chosen.append(best)
    windows = [chosen[:1], sorted(chosen)]
    return [" ".join(parts[index] for index in window) for window in windows[: len(chosen)]]


def choose_runs(reference: str, sentence: str) -> list[str]:
    """Return the four runs of up to three sentences that share most with a sentence."""
    parts = split_sentences(reference)
    stems = [find_stems(part) for part in parts]
    wanted = find_stems(sentence)
    counts = {stem: sum(stem in found for found in stems) for stem in wanted}
    ranked = []
    for size in range(1, MOST_SENTENCES + 1):
        for start in range(len(parts) - size + 1):
            shared = wanted & set().union(*stems[start : start + size])
            weight = sum(log(1 + len(parts) / counts[stem]) for stem in shared)
            ranked.append((-weight, size, start))
    return [" ".join(parts[start : start + size]) for _, size, start in sorted(ranked)[:MOST_RUNS]]
