"""Verbs in -s that the network reads as plural nouns: "A cook *cuts* onions."."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.lexicon.wordnet import wordnet

Array = NDArray[Any]
Tag = tuple[str, str]  # part of speech, fine tag
SINGULAR = frozenset("a an one another every each".split())
"""Determiners that no plural noun follows."""
FINITE = frozenset(("VBZ", "VBD", "VBP", "MD"))
PLURAL_MODIFIERS = frozenset("sports arms goods sales clothes glasses".split())  # a sports car
VERB_FILES = range(29, 44)  # WordNet's lexicographer files of verbs


def corrected(
    words: Sequence[str], rows: Array, labels: Sequence[str], tags: Sequence[Tag]
) -> Array:
    """Return a sentence's parse with a verb that was read as a noun as its root.

    ``rows`` are (words, 3): indices of head (a root is its own), of label and of tag.
    """
    heads, links, read = rows.T.tolist()
    own_links, own_tags = [labels[i] for i in links], [tags[i] for i in read]
    verb = misread_verb(words, heads, own_links, own_tags)
    better = None if verb is None else reread(verb, heads, own_links, own_tags)
    if better is None:
        return rows
    new_heads, new_links, new_tags = better
    columns = [new_heads, [labels.index(i) for i in new_links], [tags.index(i) for i in new_tags]]
    parse: Array = np.array(columns).T
    return parse


def misread_verb(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str],
    tags: Sequence[Tag],
) -> int | None:
    """Index of a verb that was read as a noun, behind the subject that opens a sentence.

    "A" + singular + plural is no noun phrase, nor is "the" + singular + plural + noun.

    Args:
        words: one sentence.
        heads: of each word; a root is its own.
        labels: of each word's link to its head.
        tags: (part of speech, fine tag) of each word.
    """
    subject = 1
    while subject < len(words) and tags[subject][0] == "ADJ":
        subject += 1
    verb = subject + 1
    if verb >= len(words) or tags[subject][1] != "NN" or tags[verb] != ("NOUN", "NNS"):
        return None
    after = heads[verb]
    if any(tag in FINITE and i != after for i, (_, tag) in enumerate(tags)):
        return None
    opening, word = words[0].lower(), words[verb].lower()
    has_object = after > verb or labels[subject] == "nsubj"
    fits = opening in SINGULAR or (opening == "the" and has_object)
    return verb if fits and word not in PLURAL_MODIFIERS and _is_verb(word) else None


def _is_verb(word: str) -> bool:
    net = wordnet()
    return word.endswith("s") and any(
        net.file[synset] in VERB_FILES
        for form in net.lemmas(word)
        for synset, _ in net.senses(form)
    )


def reread(
    verb: int, heads: Sequence[int], labels: Sequence[str], tags: Sequence[Tag]
) -> tuple[list[int], list[str], list[Tag]] | None:
    """Heads, labels and tags with the verb as the root; None if another word has to be the root."""
    subject, former = verb - 1, heads[verb]
    root = next(i for i, head in enumerate(heads) if head == i)
    if root not in (verb, former):
        return None
    new_heads, new_labels, new_tags = list(heads), list(labels), list(tags)
    for i in range(verb):
        if heads[i] >= verb:
            new_heads[i] = subject
    new_heads[subject], new_labels[subject] = verb, "nsubj"
    new_heads[verb], new_labels[verb], new_tags[verb] = verb, "ROOT", ("VERB", "VBZ")
    if former != verb:
        new_heads[former], new_labels[former] = verb, "dobj"
        if tags[former][0] == "VERB":
            new_tags[former] = ("NOUN", "NNS")
        for i, label in enumerate(labels):
            if heads[i] == former and label == "punct":
                new_heads[i] = verb
    return new_heads, new_labels, new_tags
