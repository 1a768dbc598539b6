"""Disorder of a text's words, by how much each part of speech tells of the next.

The table beside this module has, for each pair of tags, the bits by which the first makes the
second likelier: "the" before a noun has many, "the" before "of" less than none. In order, words
gain 0.8 bits each on average, shuffled ones lose 0.4. ``research/build_word_order.py`` counts it in
UD English EWT, ImageInWords and descriptions of the National Gallery of Art (CC BY-SA 4.0).
"""

from __future__ import annotations

import re
import zipfile
from array import array
from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from posh_reward.lexicon.function_words import LIGHT
from posh_reward.lexicon.meaning import synset_pos
from posh_reward.lexicon.wordnet import wordnet
from posh_reward.types import CACHED

TOKEN = re.compile("[^\\W\\d_]+(?:['\u2019](?!s\\b)[^\\W\\d_]+)?|['\u2019]s\\b|\\d+|[.!?;:,|\\n]")
ENDS = frozenset(".!?\n|")  # a table's cells are sentences of their own
BOUNDARY = "^"
"""Tag of a sentence's beginning and end."""
NUMBER, UNKNOWN = "#", "?"
ADVERBS = 2  # WordNet's file of adverbs
UNTAGGED = 0.1
"""Uses of a sense that WordNet's texts lack."""
MINOR = 0.15
"""Share of a word's uses from which on a part of speech counts."""
INFLECTIONS = ("ing", "ed", "ly", "s")

BOUND = 3.0
"""Most bits, either way, that one pair of tags counts for: a rare pair is no shuffled text."""
STEPS = 16
"""The table's steps to a bit."""
EXPECTED = 0.5
"""Bits a word that people's texts exceed on the whole, and shuffled ones do not. This and the next
were chosen on one half of 6,000 texts by people and by the demo's policies, so that none has any
disorder; none of the other half has either."""
ALLOWANCE = 24.0
"""Bits that a passage may fall behind at no cost: seven words against all order, 27 shuffled."""


@lru_cache(maxsize=CACHED)
def tag_of(word: str) -> str:
    """Tag of a lower-case word: itself if it is a function word, else parts of speech and ending.

    ``walking`` -> ``nving``: a noun or a verb. Words that WordNet lacks have one tag together.
    """
    if word in LIGHT or not word[0].isalnum():
        return word
    if word[0].isdigit():
        return NUMBER
    net = wordnet()
    uses: defaultdict[str, float] = defaultdict(float)
    for lemma in net.lemmas(word):
        number = net.words[lemma]
        start = net.sense_rows.starts[number]
        for i, synset in enumerate(net.sense_rows[number]):
            uses[_part_of_speech(net.file[synset])] += net.counts[start + i] + UNTAGGED
    if not uses:
        return UNKNOWN
    least = MINOR * sum(uses.values())
    ending = next((each for each in INFLECTIONS if word.endswith(each)), "")
    return "".join(sorted(pos for pos, count in uses.items() if count >= least)) + ending


def _part_of_speech(file: int) -> str:
    return "r" if file == ADVERBS else synset_pos(file)


def tags_of(text: str) -> list[str]:
    """Tags of a text's words, commas and the like, with boundaries around its sentences."""
    tags = [BOUNDARY]
    for match in TOKEN.finditer(text.lower()):
        if match[0] not in ENDS:
            tags.append(tag_of(match[0].replace("\u2019", "'")))
        elif tags[-1] != BOUNDARY:
            tags.append(BOUNDARY)
    return tags if tags[-1] == BOUNDARY else [*tags, BOUNDARY]


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, int], array[int]]:
    """Tags by number, and bits of each pair in ``STEPS``, row by row of the first."""
    with (
        (files("posh_reward.lexicon") / "word_order.zip").open("rb") as stream,
        zipfile.ZipFile(stream) as archive,
    ):
        names = archive.read("tags.txt").decode().split("\n")
        return {name: i for i, name in enumerate(names)}, array("b", archive.read("bits.b"))


def disorder(text: str) -> float:
    """Bits a word by which passages fall behind what people's order gains; 0 for honest texts.

    A cumulative sum, as used to detect changes: what lags behind ``EXPECTED`` adds up, passages in
    order bring it down to 0 again, and what exceeds ``ALLOWANCE`` at its highest counts. So a
    passage without order is noticed however honest the rest, wherever its full stops are.
    """
    numbers, bits = _table()
    unknown = numbers[UNKNOWN]
    tags = [numbers.get(tag, unknown) for tag in tags_of(text)]
    excess = lag = highest = 0.0
    for before, after in pairwise(tags):
        lag += EXPECTED - bits[before * len(numbers) + after] / STEPS
        highest = max(highest, lag)
        if lag <= 0:
            excess += max(0.0, highest - ALLOWANCE)
            lag = highest = 0.0
    return (excess + max(0.0, highest - ALLOWANCE)) / max(1, len(tags) - 1)
