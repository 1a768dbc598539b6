"""Captions of which one detail is changed, as pairs of a true and a false one, by kind.

Whole texts are made false by ``posh_reward.audit.variants``.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable

from posh_reward.audit.variants import ACTION_VERBS, PLACE_PREPOSITIONS, inflect, replace_tokens
from posh_reward.embedded.english.likeness import UNITS, likeness
from posh_reward.embedded.english.meaning import is_concrete, is_plural
from posh_reward.embedded.english.word_classes import PREPOSITIONS, preposition_agreement
from posh_reward.types import Description, Token

Sort = tuple[str, bool]
"""Words that can stand for each other: part of speech, and plural or not."""
BE = re.compile(r"\b(is|are)\b(?! not\b)")


def falsify(description: Description, seed: str) -> str:
    """Replace each common noun and adjective by one from another sentence of the text.

    A singular noun by a singular one, an adjective by an adjective: its objects are still those of
    the image, and nearly every attribute and relation is untrue.
    """
    rng = random.Random(seed)
    words: dict[Sort, list[Token]] = defaultdict(list)
    for token in description.tokens:
        if sort := sort_of(token):
            words[sort].append(token)
    changed = {}
    for i, token in enumerate(description.tokens):
        sort = sort_of(token)
        others = [w.text for w in words[sort] if w.sentence != token.sentence] if sort else []
        if others:
            changed[i] = rng.choice(others)
    return replace_tokens(description, changed) or description.text


def sort_of(token: Token) -> Sort | None:
    """Return the words that a token can be replaced by; None: it stays."""
    if token.text.isalpha() and token.text.islower():
        if token.pos == "NOUN" and is_concrete((token.text, "n")):
            return "noun", is_plural((token.text, "n"))
        if token.pos == "ADJ" and token.dep == "amod":
            return "adjective", False
    return None


def events(description: Description) -> list[tuple[str, int, str]]:
    """Return clauses with subject and object, as (subject, verb's index, object): whole phrases.

    Only of different words, in the active, present voice.
    """
    tokens, found = description.tokens, []
    for i, verb in enumerate(tokens):
        if verb.pos != "VERB" or verb.lemma in ("be", "have"):
            continue
        ends = {}
        for j, token in enumerate(tokens):
            if token.head == i and token.dep in ("nsubj", "dobj") and token.pos == "NOUN":
                own = [k for k, t in enumerate(tokens) if k == j or (t.head == j and k < j)]
                if all(tokens[k].dep in ("det", "nummod", "amod", "compound") for k in own[:-1]):
                    ends[token.dep] = " ".join(tokens[k].text for k in own)
        if len(ends) == 2 and ends["nsubj"].lower() != ends["dobj"].lower():
            found.append((ends["nsubj"], i, ends["dobj"]))
    return found


def _clause(subject: str, verb: str, object_: str) -> str:
    first = subject[:1].upper() + subject[1:]
    return f"{first} {verb} {object_[:1].lower() + object_[1:]}."


def actants(description: Description, rng: random.Random) -> tuple[str, str] | None:
    """Return a clause of the text, and the same with subject and object exchanged."""
    clauses = events(description)
    if not clauses:
        return None
    subject, at, object_ = rng.choice(clauses)
    verb = _finite(description.tokens[at])
    return _clause(subject, verb, object_), _clause(object_, verb, subject)


def actions(description: Description, rng: random.Random) -> tuple[str, str] | None:
    """Return a clause of the text, and the same with another verb."""
    clauses = events(description)
    if not clauses:
        return None
    subject, at, object_ = rng.choice(clauses)
    token = description.tokens[at]
    free = [v for v in ACTION_VERBS if likeness((token.lemma, "v"), (v, "v")) < 0.4]
    like = Token("holds", "hold", "VERB", "", 0, 0, (0, 5))
    other = inflect(rng.choice(free), like)
    return _clause(subject, _finite(token), object_), _clause(subject, other, object_)


def _finite(token: Token) -> str:
    like = Token("holds", "hold", "VERB", "", 0, 0, (0, 5))
    return inflect(token.lemma, like)


def one_preposition(description: Description, rng: random.Random) -> tuple[str, str] | None:
    """Return the text, and the same with one preposition of place changed."""
    places = [
        i
        for i, token in enumerate(description.tokens)
        if token.pos == "ADP"
        and token.dep == "prep"
        and token.text.lower() in PREPOSITIONS - {"of", "with", "by", "for", "to", "as", "from"}
    ]
    if not places:
        return None
    at = rng.choice(places)
    word = description.tokens[at].text.lower()
    other = rng.choice([p for p in PLACE_PREPOSITIONS if preposition_agreement(word, p) < 0.5])
    changed = replace_tokens(description, {at: other})
    return None if changed is None else (description.text, changed)


def one_count(description: Description, rng: random.Random) -> tuple[str, str] | None:
    """Return the text, and the same with one number changed."""
    places = [i for i, t in enumerate(description.tokens) if t.text.lower() in UNITS[2:12]]
    if not places:
        return None
    at = rng.choice(places)
    other = rng.choice([n for n in UNITS[2:10] if n != description.tokens[at].text.lower()])
    changed = replace_tokens(description, {at: other})
    return None if changed is None else (description.text, changed)


def negated(text: str) -> str | None:
    """Return a text with "not" behind its first "is" or "are"."""
    changed = BE.sub(r"\1 not", text, count=1)
    return None if changed == text else changed


CAPTIONS: dict[str, Callable[[Description, random.Random], tuple[str, str] | None]] = {
    "actants": actants,
    "actions": actions,
    "prepositions": one_preposition,
    "counts": one_count,
}
"""Ways to make a true and a false caption of a text, by name."""
