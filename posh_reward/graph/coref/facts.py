"""What the words around a noun say about it, which tells later phrases apart."""

from __future__ import annotations

from posh_reward.graph.coref import lexicon
from posh_reward.graph.coref.chunks import SIDES
from posh_reward.graph.coref.mentions import Mention
from posh_reward.graph.coref.words import Words

HAVING = frozenset("wear have hold carry".split())


def predicated_facts(words: Words, mention: Mention) -> set[str]:
    """Facts that are stated outside of the phrase: {"old"} of the man in "The man is old".

    "=sleep" says that it is the subject of this verb; "+hat" that it wears, has, holds or carries
    one, which a later phrase may express as "with a hat".
    """
    facts = loose_adjectives(words, mention.end + 1) | fronted_side(words, mention)
    verb = words.head[mention.head]
    if words.dep[mention.head] not in ("nsubj", "nsubjpass") or verb == mention.head:
        return facts
    facts.add(f"={words.lemma[verb]}")
    for child in words.children[verb]:
        dep = words.dep[child]
        if dep in ("acomp", "oprd") or (dep == "attr" and words.pos[child] == "ADJ"):
            facts.add(words.lower[child])
        elif dep in ("dobj", "obj") and words.lemma[verb] in HAVING:
            facts.add(f"+{words.lemma[child]}")
        elif dep == "prep" and words.lower[child] in ("in", "with"):
            facts |= {f"+{words.lemma[i]}" for i in words.children[child] if words.dep[i] == "pobj"}
    return facts


def loose_adjectives(words: Words, token: int) -> set[str]:
    """{"taller", "thinner"} of "the woman, taller and thinner, has"."""
    facts: set[str] = set()
    if token >= len(words) or words.lower[token] != ",":
        return facts
    sentence, token = words.sentence[token], token + 1
    while token < len(words) and words.sentence[token] == sentence:
        if words.pos[token] == "ADJ":
            facts.add(words.lower[token])
        elif words.pos[token] not in ("ADV", "CCONJ", "PUNCT") or words.lower[token] == ";":
            break
        token += 1
    ends_phrase = token < len(words) and words.pos[token] in ("VERB", "AUX", "ADP", "PUNCT", "NOUN")
    return facts if ends_phrase and words.pos[token] != "NOUN" else set()


def fronted_side(words: Words, mention: Mention) -> set[str]:
    """{"+left"} of the book in "To our left, a small book ..."."""
    start = mention.start
    fronted = start >= 4 and words.lower[start - 1] == "," and words.lower[start - 2] in SIDES
    if not fronted or words.lower[start - 3] not in ("our", "the"):
        return set()
    return {f"+{words.lower[start - 2]}"}


def predicate_noun_of(words: Words, mention: Mention) -> int | None:
    """The subject that a predicate noun describes: "man" for "shepherd", "The man is a shepherd".

    None for inversions ("Behind the women are three stalls"), which introduce something new.
    """
    if words.dep[mention.head] != "attr" or mention.form not in ("indefinite", "bare"):
        return None
    verb = words.head[mention.head]
    subject = words.child(verb, "nsubj")
    if subject is None or not subject < verb < mention.head or words.lemma[verb] != "be":
        return None
    first = next((i for i in range(subject, -1, -1) if words.pos[i] in ("ADP", "DET")), subject)
    inverted = words.pos[first] == "ADP" or (first > 0 and words.pos[first - 1] == "ADP")
    same_number = lexicon.has("pair", mention.lemma) or (
        (words.tag[subject] in ("NNS", "NNPS")) == ("p" in mention.number)
    )
    return subject if same_number and not inverted else None
