"""Referents: the entities that a text has mentioned so far, and how prominent each is.

Prominence follows Lappin and Leass (1994), "An algorithm for pronominal anaphora resolution":
each mention adds weight for its grammatical role, and weights halve with every sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from posh_reward.graph.coref.lexicon import SINGULAR, Gender, Number
from posh_reward.graph.coref.mentions import Mention

ACTIVE = 40  # most recently mentioned referents, among which a pronoun may choose
CANDIDATES = 12  # latest referents of a noun with which a definite phrase is compared
LARGEST_GROUP = 8  # members; a larger group is not as prominent as they are

RECENCY = 100.0
FADING = 0.5  # share of prominence left one sentence later
ROLE = {"subject": 80.0, "object": 50.0, "oblique": 30.0, "possessor": 40.0}
NOT_EMBEDDED = 60.0


@dataclass(eq=False, slots=True)
class Referent:
    """One entity, and everything that its mentions have said about it so far."""

    number: Number
    gender: Gender | None
    count: str
    sentence: int  # of the latest mention
    mentions: list[Mention] = field(default_factory=list)
    lemmas: set[str] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)  # see ``coreferencer.facts_of``
    ofs: set[str] = field(default_factory=set)  # nouns of its "of" phrases
    possessor: Referent | None = None
    members: list[Referent] = field(default_factory=list)
    weight: float = 0.0  # prominence up to sentence, without boost
    boost: float = 0.0  # the most prominent mention of the latest sentence

    @property
    def last(self) -> Mention:
        return self.mentions[-1]

    def salience(self, sentence: int) -> float:
        """Prominence in a sentence; a group's is at least 0.9 of its least prominent member's."""
        own = (self.weight + self.boost) * FADING ** (sentence - self.sentence)
        if not 2 <= len(self.members) <= LARGEST_GROUP:
            return own
        return max(own, 0.9 * min(member.salience(sentence) for member in self.members))

    def mention(self, mention: Mention) -> None:
        """Add a mention, with its prominence and the facts that it states."""
        # Within a sentence the most prominent mention counts, not the sum of all.
        if mention.sentence != self.sentence:
            sentences = mention.sentence - self.sentence
            self.weight = (self.weight + self.boost) * FADING**sentences
            self.boost, self.sentence = 0.0, mention.sentence
        embedded = mention.inner or mention.role == "possessor"
        prominence = RECENCY + ROLE[mention.role] + (0.0 if embedded else NOT_EMBEDDED)
        self.boost = max(self.boost, prominence)
        self.mentions.append(mention)
        self.facts |= mention.modifiers
        if mention.lemma and mention.form != "pronoun":
            self.lemmas.add(mention.lemma)
        if mention.of:
            self.ofs.add(mention.of)
        # Each mention narrows the gender down: "the sitter" may be either, until "she". A pronoun
        # that contradicts the noun wins, since it was resolved by everything but the noun.
        if self.gender and mention.gender and self.gender & mention.gender:
            self.gender &= mention.gender
        elif mention.form == "pronoun" and mention.number == SINGULAR:
            self.gender = mention.gender
        self.number = self.number & mention.number or self.number


class Discourse:
    """The referents of one text, to be looked up by noun, by token and by recency."""

    def __init__(self) -> None:
        self.referents: list[Referent] = []
        self.active: list[Referent] = []  # least recently mentioned first
        self.owner: dict[int, Referent] = {}  # by token
        self._by_lemma: dict[str, dict[Referent, None]] = {}

    def introduce(self, mention: Mention) -> Referent:
        """Add a referent for a mention of something new."""
        referent = Referent(mention.number, mention.gender, mention.count, mention.sentence)
        self.referents.append(referent)
        self.resume(referent, mention)
        return referent

    def resume(self, referent: Referent, mention: Mention) -> None:
        """Add a mention to its referent, which becomes the latest one."""
        referent.mention(mention)
        # ``active`` is ordered, for ties and for forgetting.
        if referent in self.active:
            self.active.remove(referent)
        self.active.append(referent)
        del self.active[:-ACTIVE]
        # The possessor keeps its own tokens: "his hat" owns "hat", not "his".
        if mention.form != "group":
            own = mention.start if mention.possessor is None else mention.possessor + 1
            self.owner.update(dict.fromkeys(range(own, mention.head + 1), referent))
        for lemma in referent.lemmas:
            self.call(referent, lemma)

    def of_noun(self, lemma: str) -> list[Referent]:
        """Latest referents of a noun, latest first."""
        return list(islice(reversed(self._by_lemma.get(lemma, {})), CANDIDATES))

    def call(self, referent: Referent, lemma: str) -> None:
        """Make a referent the latest one of a noun."""
        referents = self._by_lemma.setdefault(lemma, {})
        referents.pop(referent, None)
        referents[referent] = None
