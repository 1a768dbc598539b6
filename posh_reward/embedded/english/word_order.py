"""Disorder of a text's words, by how well each part of speech predicts the next.

The table beside this module gives, for each pair of tags, their pointwise mutual information in
bits: high for "the" before a noun, negative for "the" before "of". Ordered words average 0.8 bits
each, shuffled ones -0.4. ``research/build_word_order.py`` builds it from UD English EWT,
ImageInWords and descriptions of the National Gallery of Art (CC BY-SA 4.0).
"""

from __future__ import annotations

import re
import zipfile
from array import array
from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from posh_reward.embedded.english.meaning import synset_pos
from posh_reward.embedded.english.wordnet import wordnet
from posh_reward.types import WORD_CACHE_SIZE
from posh_reward.words import LIGHT

TOKEN = re.compile("[^\\W\\d_]+(?:['\u2019](?!s\\b)[^\\W\\d_]+)?|['\u2019]s\\b|\\d+|[.!?;:,|\\n]")
ENDS = frozenset(".!?:\n|")  # headings and cells of tables are sentences of their own
PAUSES = frozenset(",;")
DASH = re.compile(r"(?<=\w) *(?:--|[\u2013\u2014]| -(?= )) *")  # between words, read as a comma
WRAP = re.compile(r"(?<=[\w,;])[ \t\r]*\n[ \t]*(?=[^\W\d_])")  # a line break between two words
BOUNDARY = "^"  # tag of a sentence's beginning and end
NUMBER, UNKNOWN = "#", "?"
ADVERBS = 2  # WordNet's file for adverbs
UNTAGGED = 0.1  # uses assumed for a sense without tagged uses in WordNet
MINOR = 0.15  # minimum share of a word's uses for a part of speech to count
INFLECTIONS = ("ing", "ed", "ly", "s")

BOUND = 3.0  # maximum bits, positive or negative, of one pair: a rare pair is not yet disorder
STEPS = 16  # steps of the table per bit
ARTICLE = "the"
ELLIPSIS = 3.0
"""Bits that a missing article costs at most, as in telegrams and headlines ("Man in red coat").
Chosen on 32 artworks without their articles: they keep 0.96 of their reward (0.82 without this
rule). At 2 bits it would be 0.99, but long words in threes would gain behind a first half."""
EXPECTED = 0.5
"""Bits per word that people's texts exceed on the whole, and shuffled ones do not. This and
``ALLOWANCE`` were chosen on one half of 6,000 texts by people and by the demo's policies, so that
none has any disorder; nor has any text of the other half."""
ALLOWANCE = 24.0  # bits that a passage may lag at no cost: 7 adversarial words, or 27 shuffled ones


@lru_cache(maxsize=WORD_CACHE_SIZE)
def tag_of(word: str) -> str:
    """Tag of a lower-case word: a function word itself, else parts of speech and ending.

    ``walking`` -> ``nving``: a noun or a verb. Words that WordNet lacks share one tag.
    """
    if word in LIGHT or not word[0].isalnum():
        return word
    if word[0].isdigit():
        return NUMBER
    net = wordnet()
    # Uses of each part of speech, over all dictionary forms: "leaves" is of "leaf" and "leave".
    uses: defaultdict[str, float] = defaultdict(float)
    for lemma in net.lemmas(word):
        number = net.words[lemma]
        start = net.sense_rows.starts[number]
        for i, synset in enumerate(net.sense_rows[number]):
            pos = "r" if net.file[synset] == ADVERBS else synset_pos(net.file[synset])
            uses[pos] += net.counts[start + i] + UNTAGGED
    if not uses:
        return UNKNOWN
    least = MINOR * sum(uses.values())
    ending = next((each for each in INFLECTIONS if word.endswith(each)), "")
    return "".join(sorted(pos for pos, count in uses.items() if count >= least)) + ending


def tags_of(text: str) -> list[str]:
    """Tags of a text's words and punctuation, with boundaries around its sentences."""
    tags = [BOUNDARY]
    for match in TOKEN.finditer(text.lower()):
        if match[0] not in ENDS:
            tags.append(tag_of(match[0].replace("\u2019", "'")))
        else:
            _end(tags)
    _end(tags)
    return tags


def _end(tags: list[str]) -> None:
    while tags[-1] in PAUSES:  # lines of verse and of lists end in commas
        tags.pop()
    if tags[-1] != BOUNDARY:
        tags.append(BOUNDARY)


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, int], array[int]]:
    """Tag -> number, and the bits of each pair in ``STEPS``, row by row of the first tag."""
    with (
        (files("posh_reward.embedded.english") / "word_order.zip").open("rb") as stream,
        zipfile.ZipFile(stream) as archive,
    ):
        names = archive.read("tags.txt").decode().split("\n")
        return {name: i for i, name in enumerate(names)}, array("b", archive.read("bits.b"))


def disorder(text: str) -> float:
    """Bits per word by which passages lag behind ordinary word order; 0 for honest texts.

    A CUSUM test for changes: shortfalls below ``EXPECTED`` add up, ordered passages bring the sum
    back to 0, and the part of each peak above ``ALLOWANCE`` counts. So a disordered passage is
    noticed however honest the rest is, wherever its full stops are.
    """
    # A line break may end a heading or wrap a sentence. The text is read as all of one or of the
    # other, whichever is better: a writer could as well type a full stop or a blank.
    text = DASH.sub(", ", text)
    return min(map(_disorder, {text, WRAP.sub(" ", text)}))


def _disorder(text: str) -> float:
    numbers, costs = _costs()
    unknown = numbers[UNKNOWN]
    tags = [numbers.get(tag, unknown) for tag in tags_of(text)]
    excess = lag = highest = 0.0
    for before, after in pairwise(tags):
        # A passage ends where order has made up for it, and counts by its worst moment.
        lag += costs[before * len(numbers) + after]
        highest = max(highest, lag)
        if lag <= 0:
            excess += max(0.0, highest - ALLOWANCE)
            lag = highest = 0.0
    return (excess + max(0.0, highest - ALLOWANCE)) / max(1, len(tags) - 1)


@lru_cache(maxsize=1)
def _costs() -> tuple[dict[str, int], array[float]]:
    """Tag -> number, and the bits by which each pair lags, with or without an article between."""
    numbers, bits = _table()
    size, article = len(numbers), numbers[ARTICLE]
    lags = array("d", (EXPECTED - each / STEPS for each in bits))
    for before in numbers.keys() - PAUSES:  # after a comma, a list of keywords would gain most
        row = numbers[before] * size
        with_article = lags[row + article] + ELLIPSIS
        for after in range(size):
            lags[row + after] = min(
                lags[row + after], with_article + EXPECTED - bits[article * size + after] / STEPS
            )
    return numbers, lags
