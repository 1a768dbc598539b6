"""Run-ons, fragments and hedges, in the words that people write: a parser reads others badly.

Every change keeps the text's length, and is one that the writer could have made: a full stop for a
comma or a dash before a clause of its own, a comma for a full stop before a fragment ("Holding a
fan."), and "is" for "appears to be". So it opens nothing.
"""

from __future__ import annotations

import re
from itertools import pairwise

from posh_reward.embedded.english.meaning import is_plural
from posh_reward.embedded.english.word_classes import PERSONAL, PREPOSITIONS
from posh_reward.embedded.english.word_order import tag_of

LONG, CUTS = 25, 2
"""Words of a run-on sentence, and places where clauses meet in it without a word between. In 127
long texts by people no sentence has both; sixteen have one such place."""
FRAGMENTS, FRAGMENT_SHARE = 3, 0.2
"""Sentences without a verb, and their share, from which a text counts as split at its commas. Of
30,927 texts by people and models one has both, and of 86 that were split so 58 have."""
APPOSITIONS = 4  # parts of a sentence between which its subject and its verb may stand
STOP = re.compile(r"\.(?= +[A-Z])")
SENTENCE = re.compile(r"[^.!?\n]+")
MARK = re.compile(r",(?=\s)|(?<=\s)(?:--|[\u2013\u2014-])(?=\s)")
WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|\d+")
HEDGE = re.compile(r"\b(appears?|seems?) to (be\b|(?=([a-z]+)))", re.IGNORECASE)
AUXILIARIES = frozenset("is are was were has have had can".split())
HELPERS = AUXILIARIES.union("be do does did may might must will would could should".split())
SUBORDINATE = frozenset(
    "because if since so that though what when where which while who whom whose".split()
)
"""Words whose clause is no sentence."""
SUBJECTS = frozenset("he i it she that there these they this those we you".split())
"""Words that sentences begin with, whatever follows them."""
LISTED = frozenset("a an the another one two three four five six several some many both".split())
"""Words that open a sentence which names a thing: "A tree to the left. Two dogs in front."."""
JOINED = SUBORDINATE | frozenset("and as but like or than with".split())
"""Words that no sentence begins with here."""
BEFORE_NOUNS = frozenset(
    "a an the his her its their our my your this that these those each every some no".split()
)
PLACING = PREPOSITIONS.union("around farther further nearby opposite closest".split()).difference(
    "of with by for from as like along part having wearing".split()
)
"""Words that open a place before its clause: "on the left, a cat sleeps"."""


def recast(text: str) -> str:
    """Rewrite the run-ons, fragments and hedges of a text; the length stays."""
    text = HEDGE.sub(_plain, text)
    if _is_split(text):
        text = STOP.sub(",", text)  # a run-on, which is cut where its clauses begin
    return SENTENCE.sub(lambda sentence: _cut(sentence[0]), text)


def _is_split(text: str) -> bool:
    """Test for many fragments: "A boy runs. His arms raised. In a red shirt. A dog barks."."""
    parts = STOP.split(text)
    count = sum(_is_fragment(part) for part in parts)
    return count >= max(FRAGMENTS, FRAGMENT_SHARE * len(parts))


def _is_fragment(sentence: str) -> bool:
    """Test for words none of which can be a verb with a subject before it."""
    words = [word[0].lower() for word in WORD.finditer(sentence)]
    if not words or words[0] in SUBORDINATE:
        return bool(words) and "," not in sentence
    return (
        words[0] not in SUBJECTS | LISTED
        and all(map(str.isalpha, words))
        and not any(
            word in HELPERS
            or ("v" in _kinds(word) and not word.endswith("ing") and before not in BEFORE_NOUNS)
            for before, word in pairwise(words)
        )
    )


def _plain(hedge: re.Match[str]) -> str:
    """``appears to be`` -> ``is``, ``seem to hold`` -> ``do hold``; not ``appears to the left``."""
    singular = hedge[1].lower().endswith("s")
    if hedge[2]:
        verb = "is" if singular else "are"
    elif "v" in _kinds(hedge[3].lower()):
        verb = "does" if singular else "do"
    else:
        return hedge[0]
    return verb.ljust(len(hedge[0]))


def _cut(sentence: str) -> str:
    """End a run-on sentence at each mark that a clause follows.

    "A boy in red runs, his dog barks, on the left, a cat, white, sleeps here" becomes, if it is
    long enough, "A boy in red runs. his dog barks. on the left, a cat, white, sleeps here".
    """
    if len(sentence.split()) < LONG:
        return sentence
    marks = [mark.span() for mark in MARK.finditer(sentence)]
    edges = [(0, 0), *marks, (len(sentence), len(sentence))]
    parts = [
        [word[0].lower() for word in WORD.finditer(sentence, start, end)]
        for (_, start), (end, _) in pairwise(edges)
    ]
    cuts, done = list[int](), -1  # the last part of the clause before
    for i, words in enumerate(parts):
        # Its subject may stand before: "a cat, white, sleeps here". Single words are a list's.
        if words[1:] and _is_verb(words[0], "it"):
            nearest = range(max(done + 1, i - APPOSITIONS), i)
            first = next((j for j in nearest if _is_named(parts[j])), None)
        else:
            first = i if _is_clause(words) else None
        if first is None:
            continue
        while first - 1 > done and PLACING.intersection(parts[first - 1][:1]):
            first -= 1
        if done >= 0:
            cuts.append(first - 1)
        done = i
    text = list(sentence)
    for start, end in (marks[cut] for cut in cuts if len(cuts) >= CUTS):
        text[start:end] = ".".ljust(end - start)
    return "".join(text)


def _is_clause(words: list[str]) -> bool:
    """Test for more verbs with a subject than subordinate clauses."""
    if not words or words[0] in JOINED or words[0].endswith("ing"):
        return False
    verbs = sum(_is_verb(word, before) for before, word in pairwise(words))
    return verbs > len(SUBORDINATE.intersection(words))


def _is_verb(word: str, subject: str) -> bool:
    """Test for a verb in the present after a subject of the same number."""
    if word in AUXILIARIES:
        return True
    if "v" not in _kinds(word) or not ("n" in _kinds(subject) or subject in PERSONAL):
        return False
    if subject in ("they", "we") or is_plural((subject, "n")):
        return not word.endswith(("ing", "ed", "s"))
    return word.endswith("s") and not word.endswith("ss")


def _is_named(words: list[str]) -> bool:
    return bool(words) and (words[0] in BEFORE_NOUNS or _kinds(words[0]).startswith("n"))


def _kinds(word: str) -> str:
    """Parts of speech of a word, ``n``, ``v``, ``a`` and ``r``; none of a function word."""
    tag = tag_of(word)
    return "v" if word == "have" else "" if tag == word else tag
