"""Run-ons, fragments and hedges, in the words that people write: a parser reads others badly.

Every change keeps the text's length, and is one that the writer could have made: a full stop for a
comma or a dash before a clause of its own, a comma for a full stop before a fragment ("Holding a
fan."), and "is" for "appears to be". So it opens nothing.
"""

from __future__ import annotations

import re
from itertools import pairwise, starmap

from posh_reward.embedded.english.meaning import is_plural
from posh_reward.embedded.english.word_classes import PERSONAL, PREPOSITIONS
from posh_reward.embedded.english.word_order import tag_word

MIN_WORDS_OF_RUN_ON, MIN_CUTS_OF_RUN_ON = 25, 2
"""Words of a run-on sentence, and places where clauses meet in it without a word between. In 127
long texts by people no sentence has both; sixteen have one such place."""
MIN_FRAGMENTS, MIN_FRAGMENT_SHARE = 3, 0.2
"""Sentences without a verb, and their share, from which a text counts as split at its commas. Of
30,927 texts by people and models one has both, and of 86 that were split so 58 have."""
MAX_PARTS_TO_SUBJECT = 4  # parts of a sentence between which its subject and its verb may stand
FULL_STOP = re.compile(r"\.(?= +[A-Z])")
SENTENCE_PATTERN = re.compile(r"[^.!?\n]+")
CLAUSE_MARK = re.compile(r",(?=\s)|(?<=\s)(?:--|[\u2013\u2014-])(?=\s)")
WORD_PATTERN = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|\d+")
HEDGE = re.compile(r"\b(appears?|seems?) to (be\b|(?=([a-z]+)))", re.IGNORECASE)
AUXILIARIES = frozenset("is are was were has have had can".split())
HELPERS = AUXILIARIES.union("be do does did may might must will would could should".split())
SUBORDINATORS = frozenset(
    "because if since so that though what when where which while who whom whose".split()
)
"""Words whose clause is no sentence."""
SUBJECT_WORDS = frozenset("he i it she that there these they this those we you".split())
"""Words that sentences begin with, whatever follows them."""
LISTED_WORDS = frozenset(
    "a an the another one two three four five six several some many both".split()
)
"""Words that open a sentence which names an entity: "A tree to the left. Two dogs in front."."""
JOINING_WORDS = SUBORDINATORS | frozenset("and as but like or than with".split())
"""Words that no sentence begins with here."""
DETERMINERS = frozenset(
    "a an the his her its their our my your this that these those each every some no".split()
)
PLACE_OPENERS = PREPOSITIONS.union(
    "around farther further nearby opposite closest".split()
).difference("of with by for from as like along part having wearing".split())
"""Words that open a place before its clause: "on the left, a cat sleeps"."""


def recast_clauses(text: str) -> str:
    """Rewrite the run-ons, fragments and hedges of a text; the length stays."""
    text = HEDGE.sub(_simplify_hedge, text)
    if _is_split(text):
        text = FULL_STOP.sub(",", text)  # a run-on, which is cut where its clauses begin
    return SENTENCE_PATTERN.sub(lambda sentence: _cut_run_on(sentence[0]), text)


def _is_split(text: str) -> bool:
    """Test for many fragments: "A boy runs. His arms raised. In a red shirt. A dog barks."."""
    parts = FULL_STOP.split(text)
    count = sum(_is_fragment(part) for part in parts)
    return count >= max(MIN_FRAGMENTS, MIN_FRAGMENT_SHARE * len(parts))


def _is_fragment(sentence: str) -> bool:
    """Test for words none of which can be a verb with a subject before it."""
    words = [word[0].lower() for word in WORD_PATTERN.finditer(sentence)]
    if not words or words[0] in SUBORDINATORS:
        return bool(words) and "," not in sentence
    if words[0] in SUBJECT_WORDS | LISTED_WORDS or not all(map(str.isalpha, words)):
        return False
    return not any(starmap(_may_be_verb, pairwise(words)))


def _may_be_verb(before: str, word: str) -> bool:
    if word in HELPERS:
        return True
    if word.endswith("ing") or before in DETERMINERS:
        return False
    return "v" in _parts_of_speech(word)


def _simplify_hedge(hedge: re.Match[str]) -> str:
    """``appears to be`` -> ``is``, ``seem to hold`` -> ``do hold``; not ``appears to the left``."""
    singular = hedge[1].lower().endswith("s")
    if hedge[2]:
        verb = "is" if singular else "are"
    elif "v" in _parts_of_speech(hedge[3].lower()):
        verb = "does" if singular else "do"
    else:
        return hedge[0]
    return verb.ljust(len(hedge[0]))


def _cut_run_on(sentence: str) -> str:
    """End a run-on sentence at each mark that a clause follows.

    "A boy in red runs, his dog barks, on the left, a cat, white, sleeps here" becomes, if it is
    long enough, "A boy in red runs. his dog barks. on the left, a cat, white, sleeps here".
    """
    if len(sentence.split()) < MIN_WORDS_OF_RUN_ON:
        return sentence
    marks = [mark.span() for mark in CLAUSE_MARK.finditer(sentence)]
    edges = [(0, 0), *marks, (len(sentence), len(sentence))]
    parts = []
    for (_, start), (end, _) in pairwise(edges):
        words = WORD_PATTERN.findall(sentence, start, end)
        parts.append([word.lower() for word in words])
    cuts: list[int] = []
    done = -1  # the last part of the clause before
    for i, words in enumerate(parts):
        # Its subject may stand before: "a cat, white, sleeps here". Single words are a list's.
        first = i
        if words[1:] and _is_verb(words[0], "it"):
            first = max(done + 1, i - MAX_PARTS_TO_SUBJECT)
            while first < i and not _is_named(parts[first]):
                first += 1
            if first == i:
                continue
        elif not _is_clause(words):
            continue
        while first - 1 > done and PLACE_OPENERS.intersection(parts[first - 1][:1]):
            first -= 1
        if done >= 0:
            cuts.append(first - 1)
        done = i
    if len(cuts) < MIN_CUTS_OF_RUN_ON:
        return sentence
    text = list(sentence)
    for cut in cuts:
        start, end = marks[cut]
        text[start:end] = ".".ljust(end - start)
    return "".join(text)


def _is_clause(words: list[str]) -> bool:
    """Test for more verbs with a subject than subordinate clauses."""
    if not words or words[0] in JOINING_WORDS or words[0].endswith("ing"):
        return False
    verbs = sum(_is_verb(word, before) for before, word in pairwise(words))
    return verbs > len(SUBORDINATORS.intersection(words))


def _is_verb(word: str, subject: str) -> bool:
    """Test for a verb in the present after a subject of the same number."""
    if word in AUXILIARIES:
        return True
    if "v" not in _parts_of_speech(word):
        return False
    if "n" not in _parts_of_speech(subject) and subject not in PERSONAL:
        return False
    if subject in ("they", "we") or is_plural((subject, "n")):
        return not word.endswith(("ing", "ed", "s"))
    return word.endswith("s") and not word.endswith("ss")


def _is_named(words: list[str]) -> bool:
    return bool(words) and (words[0] in DETERMINERS or _parts_of_speech(words[0]).startswith("n"))


def _parts_of_speech(word: str) -> str:
    """Parts of speech of a word, ``n``, ``v``, ``a`` and ``r``; none of a function word."""
    if word == "have":
        return "v"
    tag = tag_word(word)
    return "" if tag == word else tag
