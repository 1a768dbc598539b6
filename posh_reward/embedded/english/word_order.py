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
from posh_reward.embedded.english.wordnet import load_wordnet
from posh_reward.types import WORD_CACHE_SIZE
from posh_reward.words import LIGHT

TOKEN_PATTERN = re.compile(
    "[^\\W\\d_]+(?:['\u2019](?!s\\b)[^\\W\\d_]+)?|['\u2019]s\\b|\\d+|[.!?;:,|\\n]"
)
SENTENCE_ENDS = frozenset(".!?:\n|")  # headings and cells of tables are sentences of their own
PAUSES = frozenset(",;")
DASH = re.compile(r"(?<=\w) *(?:--|[\u2013\u2014]| -(?= )) *")  # between words, read as a comma
# A line break between two words.
WRAPPED_LINE = re.compile(r"(?<=[\w,;])[ \t\r]*\n[ \t]*(?=[^\W\d_])")
BOUNDARY_TAG = "^"  # tag of a sentence's beginning and end
NUMBER_TAG, UNKNOWN_TAG = "#", "?"
ADVERB_FILE = 2  # WordNet's file for adverbs
USES_OF_UNTAGGED_SENSE = 0.1  # assumed for a sense without tagged uses in WordNet
MIN_SHARE_OF_USES = 0.15  # of a word, for a part of speech to count
INFLECTIONS = ("ing", "ed", "ly", "s")

MAX_BITS_PER_PAIR = 3.0  # positive or negative: a rare pair is not yet disorder
STEPS_PER_BIT = 16  # of the table
ARTICLE = "the"
MAX_BITS_OF_MISSING_ARTICLE = 3.0
"""Bits that a missing article costs at most, as in telegrams and headlines ("Man in red coat").
Chosen on 32 artworks without their articles: they keep 0.96 of their reward (0.82 without this
rule). At 2 bits it would be 0.99, but long words in threes would gain behind a first half."""
EXPECTED_BITS_PER_WORD = 0.5
"""Exceeded by people's texts on the whole, and not by shuffled ones. This and
``ALLOWED_BITS_OF_LAG`` were chosen on one half of 6,000 texts by people and by the demo's policies,
so that none has any disorder; nor has any text of the other half."""
ALLOWED_BITS_OF_LAG = 24.0  # of a passage, at no cost: 7 adversarial words, or 27 shuffled ones


@lru_cache(maxsize=WORD_CACHE_SIZE)
def tag_word(word: str) -> str:
    """Tag a lower-case word: a function word itself, else parts of speech and ending.

    ``walking`` -> ``nving``: a noun or a verb. Words that WordNet lacks share one tag.
    """
    if word in LIGHT or not word[0].isalnum():
        return word
    if word[0].isdigit():
        return NUMBER_TAG
    net = load_wordnet()
    # Uses of each part of speech, over all dictionary forms: "leaves" is of "leaf" and "leave".
    uses: defaultdict[str, float] = defaultdict(float)
    for lemma in net.lemmas(word):
        number = net.words[lemma]
        start = net.sense_rows.starts[number]
        for i, synset in enumerate(net.sense_rows[number]):
            pos = "r" if net.file[synset] == ADVERB_FILE else synset_pos(net.file[synset])
            uses[pos] += net.counts[start + i] + USES_OF_UNTAGGED_SENSE
    if not uses:
        return UNKNOWN_TAG
    least = MIN_SHARE_OF_USES * sum(uses.values())
    tags = sorted(pos for pos, count in uses.items() if count >= least)
    ending = next((each for each in INFLECTIONS if word.endswith(each)), "")
    return "".join(tags) + ending


def tag_text(text: str) -> list[str]:
    """Tag a text's words and punctuation, with boundaries around its sentences."""
    tags = [BOUNDARY_TAG]
    for match in TOKEN_PATTERN.finditer(text.lower()):
        if match[0] not in SENTENCE_ENDS:
            tags.append(tag_word(match[0].replace("\u2019", "'")))
        else:
            _end_sentence(tags)
    _end_sentence(tags)
    return tags


def _end_sentence(tags: list[str]) -> None:
    while tags[-1] in PAUSES:  # lines of verse and of lists end in commas
        tags.pop()
    if tags[-1] != BOUNDARY_TAG:
        tags.append(BOUNDARY_TAG)


@lru_cache(maxsize=1)
def _load_pair_bits() -> tuple[dict[str, int], array[int]]:
    """Tag -> number, and the bits of each pair, ``STEPS_PER_BIT``, by row of the first tag."""
    with (
        (files("posh_reward.embedded.english") / "word_order.zip").open("rb") as stream,
        zipfile.ZipFile(stream) as archive,
    ):
        names = archive.read("tags.txt").decode().split("\n")
        return {name: i for i, name in enumerate(names)}, array("b", archive.read("bits.b"))


def disorder(text: str) -> float:
    """Bits per word by which passages lag behind ordinary word order; 0 for honest texts.

    A CUSUM (cumulative sum) test for changes: shortfalls below ``EXPECTED_BITS_PER_WORD`` add up,
    ordered passages bring the sum back to 0, and the part of each peak above
    ``ALLOWED_BITS_OF_LAG`` counts. So a disordered passage is noticed however honest the rest is,
    wherever its full stops are.
    """
    # A line break may end a heading or wrap a sentence. The text is read as all of one or of the
    # other, whichever is better: a writer could as well type a full stop or a blank.
    text = DASH.sub(", ", text)
    return min(map(_compute_disorder, {text, WRAPPED_LINE.sub(" ", text)}))


def _compute_disorder(text: str) -> float:
    numbers, costs = _compute_pair_costs()
    unknown = numbers[UNKNOWN_TAG]
    tags = [numbers.get(tag, unknown) for tag in tag_text(text)]
    excess = lag = highest = 0.0
    for before, after in pairwise(tags):
        # A passage ends where order has made up for it, and counts by its worst moment.
        lag += costs[before * len(numbers) + after]
        highest = max(highest, lag)
        if lag <= 0:
            excess += max(0.0, highest - ALLOWED_BITS_OF_LAG)
            lag = highest = 0.0
    return (excess + max(0.0, highest - ALLOWED_BITS_OF_LAG)) / max(1, len(tags) - 1)


@lru_cache(maxsize=1)
def _compute_pair_costs() -> tuple[dict[str, int], array[float]]:
    """Tag -> number, and the bits by which each pair lags, with or without an article between."""
    numbers, bits = _load_pair_bits()
    size, article = len(numbers), numbers[ARTICLE]
    lags = array("d", (EXPECTED_BITS_PER_WORD - each / STEPS_PER_BIT for each in bits))
    for before in numbers.keys() - PAUSES:  # after a comma, a list of keywords would gain most
        row = numbers[before] * size
        to_article = lags[row + article] + MAX_BITS_OF_MISSING_ARTICLE
        for after in range(size):
            from_article = bits[article * size + after] / STEPS_PER_BIT
            with_article = to_article + EXPECTED_BITS_PER_WORD - from_article
            lags[row + after] = min(lags[row + after], with_article)
    return numbers, lags
