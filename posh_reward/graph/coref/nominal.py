"""When a definite noun phrase or a name resumes something: "the boy" after "a small boy".

One rule is behind all others: a phrase may resume a referent only if everything that it says was
said of the referent before. "The man on the left" can only be the one on the left, "the old woman"
only one who was said to be old, and "the women" cannot be a single woman.
"""

from __future__ import annotations

from dataclasses import replace

from posh_reward.graph.coref import lexicon
from posh_reward.graph.coref.chunks import SIDES
from posh_reward.graph.coref.mentions import Mention
from posh_reward.graph.coref.referents import Discourse, Referent

SYNONYMS = 80
"""How many referents back "the tree" may resume "an oak"."""


def antecedent_of_nominal(
    discourse: Discourse, mention: Mention, possessor: Referent | None
) -> Referent | None:
    """The referent that a phrase resumes; None if it introduces one."""
    if mention.form not in ("definite", "name") or not mention.lemma:
        return None
    if mention.elliptical and not mention.modifiers:
        return None
    candidates = discourse.known_as(mention.lemma)
    if mention.form == "name":
        return next((r for r in candidates if same_name(mention, r)), None)
    if mention.possessor is not None and possessor is None:
        return None
    for referent in candidates:
        if compatible(mention, referent) and same_owner(possessor, referent):
            return referent
    sole = candidates[0] if len(candidates) == 1 else None
    if sole and same_owner(possessor, sole) and only_one(mention, sole):
        return sole
    if possessor is not None or lexicon.has("relational", mention.lemma):
        return None
    return synonym(discourse, mention)


def compatible(mention: Mention, referent: Referent) -> bool:
    """Whether number, sex, count and modifiers agree, and neither phrase is inside the other."""
    if not mention.number & referent.number or overlap(mention, referent.last):
        return False
    if mention.gender and referent.gender and not mention.gender & referent.gender:
        return False
    if "others" in referent.facts - mention.modifiers:
        return False
    if mention.count and mention.count != referent.count:
        return False
    if lexicon.has("relational", mention.lemma):
        same = referent.mentions[0].modifiers == mention.modifiers
        return same and (mention.of == referent.mentions[0].of)
    if mention.of and mention.of not in referent.ofs:
        return False
    return mention.modifiers <= referent.facts


def only_one(mention: Mention, referent: Referent) -> bool:
    """Whether a phrase may say something new because there is only one such thing.

    A side may be added to things: "the floor to our left" after the only floor. To living beings
    anything may be added that does not contrast: "the bulky cow" after the only cow.
    """
    if lexicon.has("relational", mention.lemma) or mention.gender is None:
        return False
    if lexicon.animate(mention.gender):
        bare = replace(mention, modifiers=frozenset())
        return not contrasts(mention, referent) and compatible(bare, referent)
    said = {fact for fact in mention.modifiers if not fact.startswith("+")}
    sides = {fact for fact in referent.facts if fact in ("+left", "+right")}
    bare = replace(mention, modifiers=frozenset(said))
    return not sides and "s" in referent.number and compatible(bare, referent)


def contrasts(mention: Mention, referent: Referent) -> bool:
    """Whether a phrase tells one of several apart: "the other", "the younger", "on the left"."""
    for quality in mention.modifiers - referent.facts:
        if quality.startswith("+") or quality.endswith(("er", "est")):
            return True
        if lexicon.has("distinguishing", quality) or quality in SIDES:
            return True
        for name in ("contrast.age", "contrast.size", "contrast.colour"):
            if lexicon.has(name, quality) and referent.facts & lexicon.classes()[name]:
                return True
    return False


def overlap(first: Mention, second: Mention) -> bool:
    """Whether two mentions share a token: nothing is mentioned inside its own description."""
    return first.start <= second.end and second.start <= first.end


def same_owner(possessor: Referent | None, referent: Referent) -> bool:
    """Whether "his head" belongs to the same man; "the skirt" may be anyone's."""
    return possessor is None or possessor is referent.possessor


def same_name(mention: Mention, referent: Referent) -> bool:
    """Whether one name is a shorter form of the other: "Mary", "the Virgin Mary"."""
    if not mention.number & referent.number or overlap(mention, referent.last):
        return False
    if mention.gender and referent.gender and not mention.gender & referent.gender:
        return False
    return mention.modifiers <= referent.facts or referent.facts <= mention.modifiers


def synonym(discourse: Discourse, mention: Mention) -> Referent | None:
    """The latest referent that the noun is another word for."""
    recent = discourse.referents[-SYNONYMS:]
    for referent in sorted(recent, key=lambda r: r.last.head, reverse=True):
        if not compatible(mention, referent):
            continue
        if any(another_word(mention.lemma, lemma) for lemma in referent.lemmas):
            return referent
        if agent_of(mention.lemma, referent.facts):
            return referent
    return None


def another_word(anaphor: str, antecedent: str) -> bool:
    """Hypernyms and synonyms; equal nouns have rules of their own."""
    return anaphor != antecedent and lexicon.resumes(anaphor, antecedent)


def agent_of(noun: str, facts: set[str]) -> bool:
    """Whether the facts say that "the sleeper" sleeps, as "=sleep"."""
    if not noun.endswith(("er", "or")) or len(noun) < 5:
        return False
    stem = noun[:-2]
    doubled = stem[:-1] if stem[-1] == stem[-2] else stem
    return any(f"={verb}" in facts for verb in (stem, stem + "e", doubled))
