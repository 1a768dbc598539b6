"""The things that a text has mentioned so far, and how prominent each is.

Prominence follows Lappin and Leass (1994), "An algorithm for pronominal anaphora resolution":
each mention adds weight for its grammatical role, and weights halve with every sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from posh_reward.graph.coref.lexicon import Gender
from posh_reward.graph.coref.mentions import Mention

ACTIVE = 40  # referents that a pronoun may choose from: the most recently mentioned ones
CANDIDATES = 12  # referents of one noun, latest first, that a definite phrase is compared with

LARGEST_GROUP = 8  # members up to which a group is as prominent as they are

RECENCY = 100.0
FADING = 0.5  # share of prominence that is left a sentence later
ROLE = {"subject": 80.0, "object": 50.0, "oblique": 30.0, "possessor": 40.0}
NOT_EMBEDDED = 60.0


@dataclass(eq=False, slots=True)
class Referent:
    """One thing, and everything that its mentions have said about it so far."""

    mentions: list[Mention]
    lemmas: set[str]
    number: frozenset[str]
    gender: Gender | None
    facts: set[str]
    ofs: set[str]
    count: str = ""
    possessor: Referent | None = None
    members: list[Referent] = field(default_factory=list)
    weight: float = 0.0  # prominence up to sentence, without boost
    boost: float = 0.0  # the most prominent mention of the latest sentence
    sentence: int = 0

    @property
    def last(self) -> Mention:
        """Its latest mention."""
        return self.mentions[-1]

    def salience(self, sentence: int) -> float:
        """Prominence in a sentence; a group has at least 0.9 times its least prominent member's."""
        own = (self.weight + self.boost) * FADING ** (sentence - self.sentence)
        if not 2 <= len(self.members) <= LARGEST_GROUP:
            return own
        return max(own, 0.9 * min(member.salience(sentence) for member in self.members))

    def mention(self, mention: Mention) -> None:
        """Add a mention, with its prominence and what it says."""
        # Within a sentence the most prominent mention counts, not the sum of all.
        if mention.sentence != self.sentence:
            sentences = mention.sentence - self.sentence
            self.weight = (self.weight + self.boost) * FADING**sentences
            self.boost, self.sentence = 0.0, mention.sentence
        self.boost = max(self.boost, prominence(mention))
        self.mentions.append(mention)
        self.facts |= mention.modifiers
        if mention.lemma and mention.form != "pronoun":
            self.lemmas.add(mention.lemma)
        if mention.of:
            self.ofs.add(mention.of)
        # Each mention narrows the sexes down: "the sitter" may be either, until "she"; a pronoun
        # that contradicts the noun wins, since it was resolved by everything but the noun.
        if self.gender and mention.gender and self.gender & mention.gender:
            self.gender &= mention.gender
        elif mention.form == "pronoun" and mention.number == frozenset("s"):
            self.gender = mention.gender
        self.number = self.number & mention.number or self.number


def prominence(mention: Mention) -> float:
    """Weight of one mention in its own sentence."""
    inside = mention.inner or mention.role == "possessor"
    return RECENCY + ROLE[mention.role] + (0.0 if inside else NOT_EMBEDDED)


def new_referent(mention: Mention) -> Referent:
    """The referent that a mention introduces."""
    referent = Referent(
        mentions=[],
        lemmas=set(),
        number=mention.number,
        gender=mention.gender,
        facts=set(),
        ofs=set(),
        count=mention.count,
        sentence=mention.sentence,
    )
    referent.mention(mention)
    return referent


class Discourse:
    """The referents of one text, to be looked up by noun, by token and by recency."""

    def __init__(self) -> None:
        self.referents: list[Referent] = []
        self.active: list[Referent] = []
        self.owner: dict[int, Referent] = {}
        self._by_lemma: dict[str, dict[Referent, None]] = {}

    def introduce(self, mention: Mention) -> Referent:
        """Add a referent for a mention of something new."""
        referent = new_referent(mention)
        self.referents.append(referent)
        self._note(referent, mention)
        return referent

    def resume(self, referent: Referent, mention: Mention) -> None:
        """Add a mention of an earlier referent."""
        referent.mention(mention)
        self._note(referent, mention)

    def of_noun(self, lemma: str) -> list[Referent]:
        """Referents that were called by a noun, latest first."""
        return list(islice(reversed(self._by_lemma.get(lemma, {})), CANDIDATES))

    def call(self, referent: Referent, lemma: str) -> None:
        """Make a referent the latest one of a noun."""
        referents = self._by_lemma.setdefault(lemma, {})
        referents.pop(referent, None)
        referents[referent] = None

    def _note(self, referent: Referent, mention: Mention) -> None:
        # ``active`` runs from the oldest to the latest mention, for ties and for forgetting.
        if referent in self.active:
            self.active.remove(referent)
        self.active.append(referent)
        del self.active[:-ACTIVE]
        # The possessor's own tokens stay his: "his hat" owns "hat", not "his".
        if mention.form != "group":
            own = mention.core if mention.possessor is None else mention.possessor + 1
            self.owner.update(dict.fromkeys(range(own, mention.head + 1), referent))
        for lemma in referent.lemmas:
            self.call(referent, lemma)
