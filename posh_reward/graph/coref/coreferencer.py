"""Coreference resolvers: the protocol, the names, and the embedded resolver by rules.

The embedded resolver goes through a text once, mention by mention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from posh_reward.errors import InputError
from posh_reward.graph.coref import lexicon
from posh_reward.graph.coref.antecedents import (
    Discourse,
    Referent,
    antecedent_of_nominal,
    antecedent_of_pronoun,
)
from posh_reward.graph.coref.lexicon import SPEAKER, THING, gender_of
from posh_reward.graph.coref.mentions import SIDES, Mention, Words, find_mentions, read_words
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc

RESOLVERS = {
    "rules": "posh_reward.graph.coref.coreferencer:RuleCoreferencer",
    "maverick": "posh_reward.graph.coref.maverick:MaverickCoref",
    "none": "posh_reward.graph.coref.coreferencer:NoCoref",
}
"""Name -> ``module:class``, imported on demand; the class needs no arguments."""


class Coreferencer(Protocol):
    """Finder of the phrases of a text that mention the same entity (paper, section 3)."""

    @property
    def name(self) -> str:
        """Name and version, e.g. ``"rules-1"``: part of every score's signature."""

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Return the clusters of each text, which is a whole description.

        A cluster has two or more mentions, as (first, last) token indices into the Doc, both
        inclusive. Equal Docs give equal clusters.
        """


class NoCoref:
    """No links: every mention is an entity of its own."""

    name = "none"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """No clusters for any text."""
        return [() for _ in docs]


def load_coref(name: str = "rules") -> Coreferencer:
    """Make the resolver called ``name``.

    Raises:
        InputError: the name is unknown.
    """
    if name not in RESOLVERS:
        names = ", ".join(sorted(RESOLVERS))
        raise InputError(f"unknown coreference resolver {name!r}: use one of {names}")
    module, _, attribute = RESOLVERS[name].partition(":")
    resolver: Coreferencer = getattr(import_module(module), attribute)()
    return resolver


class RuleCoreferencer:
    """Coreference by agreement, modifiers, binding and prominence. No model, no download."""

    name = "rules-1"  # for signatures; the version changes with any rule or word

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text, ordered by first mention."""
        return [Resolution(read_words(doc)).clusters() for doc in docs]


class Resolution:
    """One pass over one text, from left to right."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.discourse = Discourse()
        self.speakers: dict[str, Referent] = {}

    def clusters(self) -> Clusters:
        """Resolve all mentions, and return the clusters ordered by first mention."""
        for mention in find_mentions(self.words):
            self.resolve(mention)
        spans = (
            tuple(sorted({mention.span for mention in referent.mentions}))
            for referent in self.discourse.referents
        )
        return tuple(sorted(cluster for cluster in spans if len(cluster) > 1))

    def resolve(self, mention: Mention) -> None:
        """Link one mention to the referent that it resumes, or introduce a new one."""
        if mention.elliptical:
            mention = self.complete(mention)
        # Left to right and greedy: a wrong link is never undone, but each decision knows the whole
        # text so far, and the time is linear.
        referent = self.antecedent(mention)
        if referent is None:
            if self.describes_subject(mention):
                return
            referent = self.discourse.introduce(mention)
            self.place(referent, mention)
        else:
            # "The man with a hat", said of a man without one so far: the mention ends at "man".
            extends = any(f[0] == "+" and f not in referent.facts for f in mention.modifiers)
            if extends and mention.form == "definite":
                mention = replace(mention, end=mention.head)
            self.discourse.resume(referent, mention)
        if mention.form not in ("pronoun", "group"):
            referent.facts |= facts_of(self.words, mention)

    def antecedent(self, mention: Mention) -> Referent | None:
        """Return the referent that a mention resumes, by the rules for its form."""
        speaker = speaker_of(mention)
        if speaker:
            return self.speakers.get(speaker)
        if mention.form == "pronoun":
            return antecedent_of_pronoun(self.words, self.discourse, mention)
        if mention.count == "two" and self.words.lower[mention.start] == "both":
            return self.pair(mention)
        antecedent = antecedent_of_nominal(self.discourse, mention, self.possessor(mention))
        return antecedent or self.cataphor(mention)

    def possessor(self, mention: Mention) -> Referent | None:
        """Return the referent of "his" in "his head"."""
        owner = self.discourse.owner
        return None if mention.possessor is None else owner.get(mention.possessor)

    def place(self, referent: Referent, mention: Mention) -> None:
        """Link a new referent to its owner, its group and its members."""
        speaker = speaker_of(mention)
        if speaker:
            self.speakers[speaker] = referent
        referent.possessor = self.possessor(mention)
        owner = self.discourse.owner
        referent.members = [owner[part] for part in mention.parts if part in owner]
        # "Two men ... the man on the left": one of a group, which "they" and "both" can then mean.
        if mention.form == "definite" and "p" not in mention.number and mention.modifiers:
            groups = (r for r in self.discourse.of_noun(mention.lemma) if "p" in r.number)
            if (group := next(groups, None)) is not None:
                group.members.append(referent)

    def complete(self, mention: Mention) -> Mention:
        """Add the noun that an elliptical phrase omits: "ship" to "the third" of three ships."""
        source = self.ellipsis(mention)
        if source is None:
            return mention
        noun = next((m for m in source.mentions if m.lemma and m.form != "pronoun"), None)
        return replace(mention, lemma=noun.lemma if noun else "", gender=source.gender)

    def ellipsis(self, mention: Mention) -> Referent | None:
        """Return the referent whose noun an elliptical phrase omits."""
        if mention.end > mention.head and self.words.lower[mention.head + 1] == "of":
            # The awnings of "one of the awnings in front": the last token's, else the first found.
            owner = self.discourse.owner
            tokens = (mention.end, *range(mention.head + 2, mention.end))
            return next((owner[i] for i in tokens if i in owner), None)
        recent = [r for r in reversed(self.discourse.active) if r.last.form != "group"]
        if mention.form == "indefinite":
            return recent[0] if recent else None
        # "The third" is one of several that were counted or listed; failing that, of any plural.
        groups = (r for r in recent if r.count or r.members)
        return next(groups, None) or next((r for r in recent if "p" in r.number), None)

    def pair(self, mention: Mention) -> Referent | None:
        """Return the referent that "both" resumes: the latest pair."""
        for referent in reversed(self.discourse.active):
            two = referent.count == "two" or len(referent.members) == 2
            if two and (not mention.lemma or mention.lemma in referent.lemmas):
                return referent
        return None

    def cataphor(self, mention: Mention) -> Referent | None:
        """Return the referent of an earlier pronoun: "In her hands, a woman holds a bowl"."""
        if mention.role != "subject" or mention.form == "group":
            return None
        for referent in reversed(self.discourse.active[-6:]):
            first = referent.mentions[0]
            orphan = all(m.form == "pronoun" for m in referent.mentions) and not speaker_of(first)
            if orphan and first.sentence == mention.sentence and agreeing(first, mention):
                return referent
        return None

    def describes_subject(self, mention: Mention) -> bool:
        """Test for a predicate noun that describes the subject, to which it may refer later."""
        subject = predicate_noun_of(self.words, mention)
        referent = self.discourse.owner.get(subject) if subject is not None else None
        if referent is None or (referent.last.form == "pronoun" and referent.gender == THING):
            return False
        if mention.lemma and gender_of(mention.lemma) not in (None, THING):
            referent.lemmas.add(mention.lemma)
            self.discourse.call(referent, mention.lemma)
            referent.facts |= mention.modifiers
            return True
        return False


def speaker_of(mention: Mention) -> str:
    """Return "we", "i" or "you" for a mention of the viewer, writer or reader; else empty."""
    if mention.form == "pronoun":
        return SPEAKER.get(mention.lemma, "")
    return "we" if mention.form == "definite" and mention.lemma == "viewer" else ""


def agreeing(pronoun: Mention, noun: Mention) -> bool:
    """Test whether a pronoun and a later noun agree in number and gender."""
    if not pronoun.number & noun.number or noun.gender is None or pronoun.gender is None:
        return False
    return bool(pronoun.gender & noun.gender)


HAVING = frozenset("wear have hold carry".split())


def facts_of(words: Words, mention: Mention) -> set[str]:
    """Return the facts stated outside of the phrase: {"old"} in "The man is old".

    "=sleep": the referent is the subject of this verb. "+hat": it wears, has, holds or carries one,
    which a later phrase may express as "with a hat".
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
    """Return {"taller", "thinner"} in "the woman, taller and thinner, has"."""
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
    """Return {"+left"} for the book in "To our left, a small book ..."."""
    start = mention.start
    is_fronted = start >= 4 and words.lower[start - 1] == "," and words.lower[start - 2] in SIDES
    if not is_fronted or words.lower[start - 3] not in ("our", "the"):
        return set()
    return {f"+{words.lower[start - 2]}"}


def predicate_noun_of(words: Words, mention: Mention) -> int | None:
    """Return the subject of a predicate noun: "man" in "The man is a shepherd".

    None for inversions ("Behind the women are three stalls"), which introduce something new.
    """
    if words.dep[mention.head] != "attr" or mention.form not in ("indefinite", "bare"):
        return None
    verb = words.head[mention.head]
    subject = words.child(verb, "nsubj")
    if subject is None or not subject < verb < mention.head or words.lemma[verb] != "be":
        return None
    first = next((i for i in range(subject, -1, -1) if words.pos[i] in ("ADP", "DET")), subject)
    is_inverted = words.pos[first] == "ADP" or (first > 0 and words.pos[first - 1] == "ADP")
    same_number = lexicon.has("pair", mention.lemma) or (
        (words.tag[subject] in ("NNS", "NNPS")) == ("p" in mention.number)
    )
    return subject if same_number and not is_inverted else None
