"""The embedded resolver: one pass over the text, mention by mention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from posh_reward.graph.coref.facts import predicate_noun_of, predicated_facts
from posh_reward.graph.coref.lexicon import SPEAKER, THING, gender_of
from posh_reward.graph.coref.mentions import Mention, find_mentions
from posh_reward.graph.coref.nominal import antecedent_of_nominal
from posh_reward.graph.coref.pronouns import antecedent_of_pronoun
from posh_reward.graph.coref.referents import Discourse, Referent
from posh_reward.graph.coref.words import Words, read_words
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc


class RuleCoreferencer:
    """Coreference by agreement, modifiers, binding and prominence. No model, no download."""

    @property
    def name(self) -> str:
        """Name and version, for signatures; the version changes with any rule or word."""
        return "rules-1"

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text, by first mention, each with two mentions or more."""
        return [Resolution(read_words(doc)).clusters() for doc in docs]


class Resolution:
    """One pass over one text, from left to right."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.discourse = Discourse()
        self.speakers: dict[str, Referent] = {}

    def clusters(self) -> Clusters:
        """Reads the text and gives its clusters."""
        for mention in find_mentions(self.words):
            self.resolve(mention)
        spans = (
            tuple(sorted({mention.span for mention in referent.mentions}))
            for referent in self.discourse.referents
        )
        return tuple(sorted(cluster for cluster in spans if len(cluster) > 1))

    def resolve(self, mention: Mention) -> None:
        """Links one mention to the referent that it resumes, or introduces a new one."""
        if mention.elliptical:
            mention = self.completed(mention)
        referent = self.antecedent(mention)
        if referent is None:
            if self.describes_subject(mention):
                return
            referent = self.discourse.introduce(mention)
            self.place(referent, mention)
        else:
            unsaid = any(f[0] == "+" and f not in referent.facts for f in mention.modifiers)
            if unsaid and mention.form == "definite":
                mention = replace(mention, end=mention.head)
            self.discourse.resume(referent, mention)
        if mention.form not in ("pronoun", "group"):
            referent.facts |= predicated_facts(self.words, mention)

    def antecedent(self, mention: Mention) -> Referent | None:
        """The referent that a mention resumes, by the rules for its form."""
        speaker = speaker_of(mention)
        if speaker:
            return self.speakers.get(speaker)
        if mention.form == "pronoun":
            return antecedent_of_pronoun(self.words, self.discourse, mention)
        if mention.count == "two" and self.words.lower[mention.start] == "both":
            return self.pair(mention)
        found = antecedent_of_nominal(self.discourse, mention, self.possessor(mention))
        return found or self.announced(mention)

    def possessor(self, mention: Mention) -> Referent | None:
        """The owner: the referent of "his" in "his head"."""
        if mention.possessor is None:
            return None
        return self.discourse.owner.get(mention.possessor)

    def place(self, referent: Referent, mention: Mention) -> None:
        """Links a new referent to its owner, its group and its members."""
        speaker = speaker_of(mention)
        if speaker:
            self.speakers[speaker] = referent
        referent.possessor = self.possessor(mention)
        referent.members = [
            self.discourse.owner[part] for part in mention.parts if part in self.discourse.owner
        ]
        if mention.form == "definite" and "p" not in mention.number and mention.modifiers:
            whole = next(
                (r for r in self.discourse.known_as(mention.lemma) if "p" in r.number), None
            )
            if whole is not None:
                whole.members.append(referent)

    def completed(self, mention: Mention) -> Mention:
        """An elliptical phrase with the noun that it omits: "ship" for "the third" of three."""
        source = self.left_out(mention)
        if source is None:
            return mention
        noun = next((m for m in source.mentions if m.lemma and m.form != "pronoun"), None)
        return replace(mention, lemma=noun.lemma if noun else "", gender=source.gender)

    def left_out(self, mention: Mention) -> Referent | None:
        """The referent whose noun an elliptical phrase omits."""
        if mention.end > mention.head and self.words.lower[mention.head + 1] == "of":
            return self.discourse.owner.get(mention.end) or self.owner_inside(mention)
        recent = [r for r in reversed(self.discourse.active) if r.last.form != "group"]
        if mention.form == "indefinite":
            return recent[0] if recent else None
        counted = (r for r in recent if r.count or r.members)
        return next(counted, None) or next((r for r in recent if "p" in r.number), None)

    def owner_inside(self, mention: Mention) -> Referent | None:
        """The referent of the "of" phrase: the awnings of "one of the awnings in front"."""
        owner = self.discourse.owner
        return next(
            (owner[i] for i in range(mention.head + 2, mention.end + 1) if i in owner), None
        )

    def pair(self, mention: Mention) -> Referent | None:
        """The referent that "both" resumes: the latest pair."""
        for referent in reversed(self.discourse.active):
            two = referent.count == "two" or len(referent.members) == 2
            if two and (not mention.lemma or mention.lemma in referent.lemmas):
                return referent
        return None

    def announced(self, mention: Mention) -> Referent | None:
        """The referent of a pronoun before its noun: "In her hands, a woman holds a bowl"."""
        if mention.role != "subject" or mention.form == "group":
            return None
        for referent in reversed(self.discourse.active[-6:]):
            first = referent.mentions[0]
            orphan = all(m.form == "pronoun" for m in referent.mentions) and not speaker_of(first)
            if orphan and first.sentence == mention.sentence and agreeing(first, mention):
                return referent
        return None

    def describes_subject(self, mention: Mention) -> bool:
        """Whether a predicate noun only describes the subject, which it may then refer to later."""
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
    """Whom a mention of the viewer, writer or reader means ("we", "i", "you"); else empty."""
    if mention.form == "pronoun":
        return SPEAKER.get(mention.lemma, "")
    return "we" if mention.form == "definite" and mention.lemma == "viewer" else ""


def agreeing(pronoun: Mention, noun: Mention) -> bool:
    """Whether a pronoun and a noun after it agree in number and sex."""
    if not pronoun.number & noun.number or noun.gender is None or pronoun.gender is None:
        return False
    return bool(pronoun.gender & noun.gender)
