"""The embedded coreference resolver: a pass over the text, mention by mention.

``Discourse`` holds the referents mentioned so far and all that was said of them. For each mention,
``Resolution`` chooses the one that it resumes, or introduces a new one.

One rule is behind all others for nouns (``find_nominal_antecedent``): a phrase may resume a
referent only if everything it says was said of that referent before. "The man on the left" can only
be the one on the left, "the old woman" only one already called old, and "the women" cannot be a
single woman. A pronoun (``find_pronoun_antecedent``) resumes the most prominent referent that
agrees and that syntax does not rule out.

Prominence follows Lappin and Leass (1994), "An algorithm for pronominal anaphora resolution": each
mention adds weight for its grammatical role, and weights halve with every sentence. A pronoun adds
to each referent's prominence what speaks for it and against it (``preference_bonus``,
``agreement_bonus``); the largest sum wins, unless all are below ``MIN_PROMINENCE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from posh_reward.embedded.coref.mentions import (
    SIDE_WORDS,
    Mention,
    Words,
    find_mentions,
    read_words,
)
from posh_reward.embedded.coref.words import (
    ANY_GENDER,
    PERSON_GENDER,
    PLURAL,
    SINGULAR,
    SPEAKER_PRONOUNS,
    THING_GENDER,
    Gender,
    Number,
    find_gender,
    in_class,
    is_animal,
    is_animate,
    load_classes,
    may_resume,
)
from posh_reward.types import Clusters

if TYPE_CHECKING:
    from spacy.tokens import Doc


class RuleCoreferencer:
    """Coreference by agreement, modifiers, binding and prominence. No model, no download."""

    name = "rules-2"  # for signatures; the version changes with any rule or word

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Clusters of each text, ordered by first mention."""
        return [Resolution(read_words(doc)).find_clusters() for doc in docs]


MAX_ACTIVE_REFERENTS = 40  # most recently mentioned, among which a pronoun may choose
MAX_CANDIDATES_PER_NOUN = 12  # latest referents, with which a definite phrase is compared
MAX_MEMBERS_OF_PROMINENT_GROUP = 8  # a larger group is not as prominent as they are

RECENCY_WEIGHT = 100.0
PROMINENCE_KEPT_PER_SENTENCE = 0.5  # share that is left one sentence later
ROLE_WEIGHTS = {"subject": 80.0, "object": 50.0, "oblique": 30.0, "possessor": 40.0}
NOT_EMBEDDED_WEIGHT = 60.0


@dataclass(eq=False, slots=True)
class Referent:
    """One entity, and everything that its mentions have said about it so far."""

    number: Number
    gender: Gender | None
    count: str
    sentence: int  # of the latest mention
    mentions: list[Mention] = field(default_factory=list)
    lemmas: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)  # see ``find_stated_attributes``
    ofs: set[str] = field(default_factory=set)  # nouns of its "of" phrases
    possessor: Referent | None = None
    members: list[Referent] = field(default_factory=list)
    weight: float = 0.0  # prominence from earlier sentences, as of ``sentence``
    boost: float = 0.0  # that of the most prominent mention in ``sentence``

    @property
    def last_mention(self) -> Mention:
        return self.mentions[-1]

    @property
    def is_pair(self) -> bool:
        return self.count == "two" or len(self.members) == 2

    def prominence_in(self, sentence: int) -> float:
        """Prominence in a sentence; a group's is at least 0.9 of its least prominent member's."""
        later = sentence - self.sentence
        own = (self.weight + self.boost) * PROMINENCE_KEPT_PER_SENTENCE**later
        if not 2 <= len(self.members) <= MAX_MEMBERS_OF_PROMINENT_GROUP:
            return own
        return max(own, 0.9 * min(member.prominence_in(sentence) for member in self.members))

    def add_mention(self, mention: Mention) -> None:
        """Add a mention, with its prominence and the attributes that it states."""
        # Within a sentence the most prominent mention counts, not the sum of all.
        if mention.sentence != self.sentence:
            later = mention.sentence - self.sentence
            self.weight = (self.weight + self.boost) * PROMINENCE_KEPT_PER_SENTENCE**later
            self.boost, self.sentence = 0.0, mention.sentence
        prominence = RECENCY_WEIGHT + ROLE_WEIGHTS[mention.role]
        if not mention.inner and mention.role != "possessor":
            prominence += NOT_EMBEDDED_WEIGHT
        self.boost = max(self.boost, prominence)
        self.mentions.append(mention)
        self.attributes |= mention.modifiers
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

    def add_referent(self, mention: Mention) -> Referent:
        """Add a referent for a mention of something new."""
        referent = Referent(mention.number, mention.gender, mention.count, mention.sentence)
        self.referents.append(referent)
        self.extend_referent(referent, mention)
        return referent

    def extend_referent(self, referent: Referent, mention: Mention) -> None:
        """Add a mention to its referent, which becomes the latest one."""
        referent.add_mention(mention)
        # ``active`` is ordered, for ties and for forgetting.
        if referent in self.active:
            self.active.remove(referent)
        self.active.append(referent)
        del self.active[:-MAX_ACTIVE_REFERENTS]
        # The possessor keeps its own tokens: "his hat" owns "hat", not "his".
        if mention.form != "group":
            own = mention.start if mention.possessor is None else mention.possessor + 1
            self.owner.update(dict.fromkeys(range(own, mention.head + 1), referent))
        for lemma in referent.lemmas:
            self.make_latest(referent, lemma)

    def latest_of_noun(self, lemma: str) -> list[Referent]:
        """Latest referents of a noun, latest first."""
        return list(islice(reversed(self._by_lemma.get(lemma, {})), MAX_CANDIDATES_PER_NOUN))

    def make_latest(self, referent: Referent, lemma: str) -> None:
        """Make a referent the latest one of a noun."""
        referents = self._by_lemma.setdefault(lemma, {})
        referents.pop(referent, None)
        referents[referent] = None


MAX_REFERENTS_FOR_SYNONYM = 80  # latest ones, among which "the tree" may resume "an oak"


def find_nominal_antecedent(
    discourse: Discourse, mention: Mention, possessor: Referent | None
) -> Referent | None:
    """Return the referent that a noun phrase resumes; None if it introduces a new one.

    "The man on the left is old. The man on the right sleeps. The old man smiles. The tall man
    sings." The second phrase cannot resume the first, of whom "on the right" was not said. "The old
    man" resumes the first, of whom the sentence said so (``find_stated_attributes``). Nobody was
    called tall, so "the tall man" is a third man.
    """
    if mention.form not in ("definite", "name") or not mention.lemma:
        return None
    if mention.elliptical and not mention.modifiers:
        return None
    # Candidates come latest first, so the first that fits is the nearest one.
    candidates = discourse.latest_of_noun(mention.lemma)
    if mention.form == "name":
        return next((r for r in candidates if has_same_name(mention, r)), None)
    if mention.possessor is not None and possessor is None:
        return None
    for referent in candidates:
        if is_compatible(mention, referent) and has_same_owner(possessor, referent):
            return referent
    # No candidate fits everything that the phrase says; the only one may still be meant.
    if len(candidates) == 1:
        [only] = candidates
        if has_same_owner(possessor, only) and may_extend_only_one(mention, only):
            return only
    if possessor is not None or in_class("relational", mention.lemma):
        return None
    return find_synonym(discourse, mention)


def is_compatible(mention: Mention, referent: Referent) -> bool:
    """Test whether number, gender, count and modifiers agree, and neither contains the other."""
    if not may_corefer(mention, referent):
        return False
    # "The others" are not the men that a plain "the men" means: only "others" resumes them.
    if "others" in referent.attributes - mention.modifiers:
        return False
    if mention.count and mention.count != referent.count:
        return False
    if in_class("relational", mention.lemma):
        # Every whole has its own parts and places ("the edge", "the middle"): two are the same only
        # if they are described alike and belong to the same noun.
        first = referent.mentions[0]
        return first.modifiers == mention.modifiers and first.of == mention.of
    if mention.of and mention.of not in referent.ofs:
        return False
    return mention.modifiers <= referent.attributes


def may_corefer(mention: Mention, referent: Referent) -> bool:
    """Test whether number and gender agree, and no token is shared with the latest mention."""
    # Nothing is mentioned inside its own description.
    last = referent.last_mention
    if mention.start <= last.end and last.start <= mention.end:
        return False
    if mention.gender and referent.gender and not mention.gender & referent.gender:
        return False
    return bool(mention.number & referent.number)


def may_extend_only_one(mention: Mention, referent: Referent) -> bool:
    """Test whether a phrase may add something new to the only referent with its noun.

    Objects may get a side: "the floor to our left" after the only floor. Living beings may get
    anything that does not contrast: "the bulky cow" after the only cow.
    """
    if in_class("relational", mention.lemma) or mention.gender is None:
        return False
    if is_animate(mention.gender, (mention.lemma,)):
        unmodified = replace(mention, modifiers=frozenset())
        return not has_contrast(mention, referent) and is_compatible(unmodified, referent)
    if "s" not in referent.number or not referent.attributes.isdisjoint(("+left", "+right")):
        return False
    qualities = [quality for quality in mention.modifiers if not quality.startswith("+")]
    return is_compatible(replace(mention, modifiers=frozenset(qualities)), referent)


def has_contrast(mention: Mention, referent: Referent) -> bool:
    """Test for a modifier that chooses among several: "other", "younger", "on the left"."""
    for quality in mention.modifiers - referent.attributes:
        if quality.startswith("+") or quality.endswith(("er", "est")):
            return True
        if in_class("distinguishing", quality) or quality in SIDE_WORDS:
            return True
        for name in ("contrast.age", "contrast.size", "contrast.colour"):
            alternatives = load_classes()[name]
            if quality in alternatives and not alternatives.isdisjoint(referent.attributes):
                return True
    return False


def has_same_owner(possessor: Referent | None, referent: Referent) -> bool:
    """Test whether "his head" has the same owner; "the skirt" may be anyone's."""
    return possessor is None or possessor is referent.possessor


def has_same_name(mention: Mention, referent: Referent) -> bool:
    """Test whether one name is a shorter form of the other: "Mary", "the Virgin Mary"."""
    nested = mention.modifiers <= referent.attributes or referent.attributes <= mention.modifiers
    return nested and may_corefer(mention, referent)


def find_synonym(discourse: Discourse, mention: Mention) -> Referent | None:
    """Return the latest referent that the phrase names by another word, as in "the dog"."""
    recent = discourse.referents[-MAX_REFERENTS_FOR_SYNONYM:]
    for referent in sorted(recent, key=lambda r: r.last_mention.head, reverse=True):
        # Hypernyms and synonyms only; equal nouns have rules of their own.
        others = referent.lemmas - {mention.lemma}
        related = any(may_resume(mention.lemma, lemma) for lemma in others)
        if not related and not is_agent(mention.lemma, referent.attributes):
            continue
        if is_compatible(mention, referent):
            return referent
    return None


def is_agent(noun: str, attributes: set[str]) -> bool:
    """Test whether "the sleeper" is known to sleep, by the attribute "=sleep"."""
    if not noun.endswith(("er", "or")) or len(noun) < 5:
        return False
    stem = noun[:-2]
    doubled = stem[:-1] if stem[-1] == stem[-2] else stem
    return not attributes.isdisjoint((f"={stem}", f"={stem}e", f"={doubled}"))


MAX_SENTENCES_BACK = 4  # to a pronoun's referent; a pair may be further away after "between"
REFLEXIVE_ENDINGS = ("self", "selves")

# Bonuses and penalties, in units of prominence.
PARALLEL_ROLE_BONUS = 40.0  # the referent's latest mention has the pronoun's grammatical role
OWN_SUBJECT_BONUS = 60.0  # "his" refers to the subject of its own clause
PAIR_BONUS = 200.0  # "between them" refers to a pair
VAGUE_REFERENT_PENALTY = -70.0  # places and parts: "the middle", "the edge"
PENALTY_PER_TOKEN = 2.0  # in between, for pronouns that are neither subjects nor possessors
MAX_PENALISED_TOKENS = 30  # in between; further ones cost nothing
PEOPLE_FIRST_BONUS = 60.0  # "they" refers to people or animals
SINGULAR_THEY_PENALTY = -80.0  # "they" refers to one person of unknown gender
NOT_LISTED_PENALTY = -200.0  # "he" or "she" refers to a subject that is not in the lexicon
MIN_PROMINENCE = 12.0  # prominence, and sum, below which a referent is forgotten


def find_pronoun_antecedent(
    words: Words, discourse: Discourse, mention: Mention
) -> Referent | None:
    """Return the most prominent referent that agrees and that syntax does not rule out."""
    if mention.lemma == "it" and is_expletive(words, mention.head):
        return None
    subject = find_clause_subject(words, discourse, mention.head)
    is_reflexive = mention.lemma.endswith(REFLEXIVE_ENDINGS)
    if is_reflexive and subject and agreement_bonus(mention, subject) is not None:
        return subject
    impossible = find_impossible_referents(words, discourse, mention, subject)
    # "A woman holds a dog near a girl. She smiles at it." Prominence of the woman is 100 for being
    # recent + 80 as a subject + 60 as no part of a phrase = 240, of the dog 210, of the girl 190; a
    # sentence later half: 120, 105, 95. For "she", a subject like the woman, the woman gets 40 more
    # (``PARALLEL_ROLE_BONUS``) and wins with 160. For "it", the two people do not agree; the dog, 8
    # tokens back, is left with 105 - 2 * 8 = 89.
    best, best_score = None, MIN_PROMINENCE
    between = mention.head > 0 and words.lower[mention.head - 1] == "between"
    # Ties go to the latest mention: ``active`` runs from the oldest to the latest.
    for referent in discourse.active:
        bonus = agreement_bonus(mention, referent)
        if bonus is None or referent in impossible:
            continue
        if contains_pronoun(referent.last_mention, mention):
            continue
        far = mention.sentence - referent.sentence > MAX_SENTENCES_BACK
        # Lappin and Leass: prominence halves with each sentence, and a referent below the floor is
        # forgotten. Pairs are kept within the window, and beyond it after "between".
        score = referent.prominence_in(mention.sentence)
        if (score < MIN_PROMINENCE or far) and not (referent.is_pair and (between or not far)):
            continue
        score += bonus + preference_bonus(mention, referent)
        if referent.is_pair and between:
            score += PAIR_BONUS
        is_own_subject = mention.role == "possessor" and referent is subject
        if is_own_subject and bonus >= 0 and not is_vague(referent):
            score += OWN_SUBJECT_BONUS
        if score >= best_score:
            best, best_score = referent, score
    return best


def agreement_bonus(mention: Mention, referent: Referent) -> float | None:
    """Return the bonus or penalty of a referent that agrees in number and gender, else None."""
    if referent.mentions[0].lemma in SPEAKER_PRONOUNS:
        return None
    if mention.number == PLURAL:
        if "p" in referent.number:
            if referent.gender and is_animate(referent.gender, referent.lemmas):
                return PEOPLE_FIRST_BONUS
            return 0.0
        of_either_sex = referent.gender in (PERSON_GENDER, ANY_GENDER)
        if of_either_sex and not any(map(is_animal, referent.lemmas)):
            return SINGULAR_THEY_PENALTY
        return None
    if "s" not in referent.number:
        return None
    if mention.gender == THING_GENDER:
        return 0.0 if referent.gender is None or "n" in referent.gender else None
    # A noun without a listed gender is probably a thing: "he" may mean it only as a subject.
    if referent.gender is None:
        return NOT_LISTED_PENALTY if referent.last_mention.role == "subject" else None
    assert mention.gender is not None
    return 0.0 if mention.gender & referent.gender else None


def preference_bonus(mention: Mention, referent: Referent) -> float:
    """Score the same role up, distance and vague referents down."""
    score = PARALLEL_ROLE_BONUS if mention.role == referent.last_mention.role else 0.0
    if is_vague(referent):
        score += VAGUE_REFERENT_PENALTY
    if mention.role not in ("subject", "possessor"):
        between = mention.start - referent.last_mention.head
        score -= PENALTY_PER_TOKEN * min(between, MAX_PENALISED_TOKENS)
    return score


def is_vague(referent: Referent) -> bool:
    """Test for a place, a part or the picture itself, which pronouns seldom mean."""
    kinds = load_classes()
    return any(not referent.lemmas.isdisjoint(kinds[name]) for name in ("relational", "frame"))


def contains_pronoun(outer: Mention, pronoun: Mention) -> bool:
    """Test whether a pronoun is inside a phrase, where it cannot mean the whole phrase."""
    return (
        outer.form != "pronoun"
        and outer.start <= pronoun.head <= outer.end
        and (pronoun.role != "possessor" or pronoun.head < outer.head)
    )


def is_expletive(words: Words, token: int) -> bool:
    """Test whether "it" refers to nothing: "it is raining", "it seems that", "it is unclear if"."""
    if words.dep[token] == "expl":
        return True
    verb = words.head[token]
    if words.dep[token] != "nsubj" or not words.same_sentence(verb, verb + 1):
        return False
    lemma, after = words.lemma[verb], words.lower[verb + 1]
    if lemma in ("seem", "appear"):
        return after in ("that", "as")
    return lemma in ("rain", "snow") or (lemma == "be" and in_class("judging", after))


def find_clause_subject(words: Words, discourse: Discourse, token: int) -> Referent | None:
    """Return the subject of the clause around a token, its own or one shared with another."""
    verb = find_governing_verb(words, token)
    if verb is None:  # the parser found none: the latest subject so far
        for referent in reversed(discourse.active):
            last = referent.last_mention
            if last.role == "subject" and last.sentence == words.sentence[token]:
                return referent
        return None
    # Upwards: "She sits and reads, holding her hat", where "holding" and "reads" share "She".
    for _ in range(6):
        if verb is None:
            return None
        subject = words.find_child(verb, "nsubj", "nsubjpass")
        if subject is not None and subject != token:
            # In "the man who holds his hat", the subject is the man.
            if words.dep[verb] == "relcl" and words.tag[subject] in ("WDT", "WP"):
                return discourse.owner.get(words.head[verb])
            return discourse.owner.get(subject)
        if words.dep[verb] in ("relcl", "acl"):
            return discourse.owner.get(words.head[verb])
        if subject is not None or words.dep[verb] not in ("conj", "xcomp", "advcl", "ccomp"):
            return None
        verb = words.head[verb] if words.head[verb] != verb else None
    return None


def find_governing_verb(words: Words, token: int) -> int | None:
    """Return the nearest verb above a token."""
    for _ in range(12):
        parent = words.head[token]
        if parent == token:
            return None
        if words.pos[parent] in ("VERB", "AUX"):
            return parent
        token = parent
    return None


def find_impossible_referents(
    words: Words, discourse: Discourse, mention: Mention, subject: Referent | None
) -> list[Referent]:
    """Return the referents that a pronoun cannot mean because they share its clause or phrase.

    A possessive before a side excludes the subject, since nobody stands to his own right: "The
    young man stands in the lake to his right".
    """
    token, parent = mention.head, words.head[mention.head]
    if mention.role == "possessor":
        # One can turn or look to one's own right.
        above = find_governing_verb(words, token)
        turns = above is None or in_class("turning", words.lemma[above])
        if subject is None or turns or words.lower[parent] not in SIDE_WORDS:
            return []
        return [subject]
    preposition = words.lower[parent] if words.dep[token] == "pobj" else ""
    direct = words.dep[token] in ("dobj", "dative", "obj", "iobj")
    if preposition == "of" and words.lower[words.head[parent]] == "front":
        preposition = "behind"
    # Binding (principle B): a plain pronoun does not mean another argument of its own verb, "the
    # man washes him"; a possessive or a place may, "the man puts his hat beside him".
    bound = direct or (preposition and not in_class("locative", preposition))
    impossible = [subject] if subject and bound else []
    verb = words.head[parent] if preposition else parent
    # In "making it a focal point", "it" may be anything in the main clause.
    if words.tag[verb] == "VBG" and words.lemma[verb] in ("make", "give", "let", "leave", "cause"):
        return []
    excluded = [i for i in words.children[verb] if words.dep[i] in ("dobj", "obj")]
    if preposition:
        excluded.append(verb)
    for other in excluded:
        if other != token and other in discourse.owner:
            impossible.append(discourse.owner[other])
    return impossible


class Resolution:
    """One pass over one text, from left to right."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.discourse = Discourse()
        self.speakers: dict[str, Referent] = {}

    def find_clusters(self) -> Clusters:
        """Resolve all mentions, and return the clusters ordered by first mention."""
        for mention in find_mentions(self.words):
            self.resolve_mention(mention)
        clusters = []
        for referent in self.discourse.referents:
            spans = {mention.span for mention in referent.mentions}
            if len(spans) > 1:
                clusters.append(tuple(sorted(spans)))
        return tuple(sorted(clusters))

    def resolve_mention(self, mention: Mention) -> None:
        """Link one mention to the referent that it resumes, or introduce a new one."""
        if mention.elliptical:
            mention = self.complete_ellipsis(mention)
        # Left to right and greedy: a wrong link is never undone, but each decision knows the whole
        # text so far, and the time is linear.
        referent = self.find_antecedent(mention)
        if referent is None:
            if self.describes_subject(mention):
                return
            referent = self.discourse.add_referent(mention)
            self.link_to_owner(referent, mention)
        else:
            # "The man with a hat", said of a man without one so far: the mention ends at "man".
            added = mention.modifiers - referent.attributes
            if mention.form == "definite" and any(quality[0] == "+" for quality in added):
                mention = replace(mention, end=mention.head)
            self.discourse.extend_referent(referent, mention)
        if mention.form not in ("pronoun", "group"):
            referent.attributes |= find_stated_attributes(self.words, mention)

    def find_antecedent(self, mention: Mention) -> Referent | None:
        """Return the referent that a mention resumes, by the rules for its form."""
        speaker = find_speaker(mention)
        if speaker:
            return self.speakers.get(speaker)
        if mention.form == "pronoun":
            return find_pronoun_antecedent(self.words, self.discourse, mention)
        if mention.count == "two" and self.words.lower[mention.start] == "both":
            return self.find_pair(mention)
        antecedent = find_nominal_antecedent(self.discourse, mention, self._find_possessor(mention))
        return antecedent or self.find_cataphor(mention)

    def _find_possessor(self, mention: Mention) -> Referent | None:
        """Return the referent of "his" in "his head"."""
        owner = self.discourse.owner
        return None if mention.possessor is None else owner.get(mention.possessor)

    def link_to_owner(self, referent: Referent, mention: Mention) -> None:
        """Link a new referent to its owner, its group and its members."""
        speaker = find_speaker(mention)
        if speaker:
            self.speakers[speaker] = referent
        referent.possessor = self._find_possessor(mention)
        owner = self.discourse.owner
        referent.members = [owner[part] for part in mention.parts if part in owner]
        # "Two men ... the man on the left": one of a group, which "they" and "both" can then mean.
        if mention.form == "definite" and "p" not in mention.number and mention.modifiers:
            groups = (r for r in self.discourse.latest_of_noun(mention.lemma) if "p" in r.number)
            if (group := next(groups, None)) is not None:
                group.members.append(referent)

    def complete_ellipsis(self, mention: Mention) -> Mention:
        """Add the noun that an elliptical phrase omits: "ship" to "the third" of three ships."""
        source = self.find_omitted_noun(mention)
        if source is None:
            return mention
        noun = next((m for m in source.mentions if m.lemma and m.form != "pronoun"), None)
        return replace(mention, lemma=noun.lemma if noun else "", gender=source.gender)

    def find_omitted_noun(self, mention: Mention) -> Referent | None:
        """Return the referent whose noun an elliptical phrase omits."""
        if mention.end > mention.head and self.words.lower[mention.head + 1] == "of":
            # The awnings of "one of the awnings in front": the last token's, else the first found.
            owner = self.discourse.owner
            tokens = (mention.end, *range(mention.head + 2, mention.end))
            return next((owner[i] for i in tokens if i in owner), None)
        recent = [r for r in reversed(self.discourse.active) if r.last_mention.form != "group"]
        if mention.form == "indefinite":
            return recent[0] if recent else None
        # "The third" is one of several that were counted or listed; failing that, of any plural.
        counted = [r for r in recent if r.count or r.members]
        plural = [r for r in recent if "p" in r.number]
        return next(iter(counted + plural), None)

    def find_pair(self, mention: Mention) -> Referent | None:
        """Return the referent that "both" resumes: the latest pair."""
        for referent in reversed(self.discourse.active):
            if referent.is_pair and (not mention.lemma or mention.lemma in referent.lemmas):
                return referent
        return None

    def find_cataphor(self, mention: Mention) -> Referent | None:
        """Return the referent of an earlier pronoun: "In her hands, a woman holds a bowl"."""
        if mention.role != "subject" or mention.form == "group":
            return None
        for referent in reversed(self.discourse.active[-6:]):
            first = referent.mentions[0]
            orphan = all(m.form == "pronoun" for m in referent.mentions) and not find_speaker(first)
            if orphan and first.sentence == mention.sentence and agrees_with_noun(first, mention):
                return referent
        return None

    def describes_subject(self, mention: Mention) -> bool:
        """Test for a predicate noun that describes the subject, to which it may refer later."""
        subject = find_described_subject(self.words, mention)
        if subject is None or subject not in self.discourse.owner:
            return False
        referent = self.discourse.owner[subject]
        if referent.last_mention.form == "pronoun" and referent.gender == THING_GENDER:
            return False
        if mention.lemma and find_gender(mention.lemma) not in (None, THING_GENDER):
            referent.lemmas.add(mention.lemma)
            self.discourse.make_latest(referent, mention.lemma)
            referent.attributes |= mention.modifiers
            return True
        return False


def find_speaker(mention: Mention) -> str:
    """Return "we", "i" or "you" for a mention of the viewer, writer or reader; else empty."""
    if mention.form == "pronoun":
        return SPEAKER_PRONOUNS.get(mention.lemma, "")
    return "we" if mention.form == "definite" and mention.lemma == "viewer" else ""


def agrees_with_noun(pronoun: Mention, noun: Mention) -> bool:
    """Test whether a pronoun and a later noun agree in number and gender."""
    genders = pronoun.gender and noun.gender and pronoun.gender & noun.gender
    return bool(pronoun.number & noun.number and genders)


HAVING_VERBS = frozenset("wear have hold carry".split())


def find_stated_attributes(words: Words, mention: Mention) -> set[str]:
    """Return the attributes stated outside of the phrase: {"old"} in "The man is old".

    "=sleep": the referent is the subject of this verb. "+hat": it wears, has, holds or carries one,
    which a later phrase may express as "with a hat".
    """
    attributes = find_loose_adjectives(words, mention.end + 1) | find_fronted_side(words, mention)
    verb = words.head[mention.head]
    if words.dep[mention.head] not in ("nsubj", "nsubjpass") or verb == mention.head:
        return attributes
    attributes.add(f"={words.lemma[verb]}")
    for child in words.children[verb]:
        dep = words.dep[child]
        if dep in ("acomp", "oprd") or (dep == "attr" and words.pos[child] == "ADJ"):
            attributes.add(words.lower[child])
        elif dep in ("dobj", "obj") and words.lemma[verb] in HAVING_VERBS:
            attributes.add(f"+{words.lemma[child]}")
        elif dep == "prep" and words.lower[child] in ("in", "with"):
            objects = [i for i in words.children[child] if words.dep[i] == "pobj"]
            attributes.update(f"+{words.lemma[i]}" for i in objects)
    return attributes


def find_loose_adjectives(words: Words, token: int) -> set[str]:
    """Return {"taller", "thinner"} in "the woman, taller and thinner, has"."""
    attributes: set[str] = set()
    if token >= len(words) or words.lower[token] != ",":
        return attributes
    sentence, token = words.sentence[token], token + 1
    while token < len(words) and words.sentence[token] == sentence:
        if words.pos[token] == "ADJ":
            attributes.add(words.lower[token])
        elif words.pos[token] not in ("ADV", "CCONJ", "PUNCT") or words.lower[token] == ";":
            break
        token += 1
    ends_phrase = token < len(words) and words.pos[token] in ("VERB", "AUX", "ADP", "PUNCT", "NOUN")
    return attributes if ends_phrase and words.pos[token] != "NOUN" else set()


def find_fronted_side(words: Words, mention: Mention) -> set[str]:
    """Return {"+left"} for the book in "To our left, a small book ..."."""
    start = mention.start
    if start < 4:
        return set()
    determiner, side, comma = words.lower[start - 3 : start]
    if determiner not in ("our", "the") or side not in SIDE_WORDS or comma != ",":
        return set()
    return {f"+{side}"}


def find_described_subject(words: Words, mention: Mention) -> int | None:
    """Return the subject of a predicate noun: "man" in "The man is a shepherd".

    None for inversions ("Behind the women are three stalls"), which introduce something new.
    """
    if words.dep[mention.head] != "attr" or mention.form not in ("indefinite", "bare"):
        return None
    verb = words.head[mention.head]
    subject = words.find_child(verb, "nsubj")
    if subject is None or not subject < verb < mention.head or words.lemma[verb] != "be":
        return None
    first = next((i for i in range(subject, -1, -1) if words.pos[i] in ("ADP", "DET")), subject)
    is_inverted = words.pos[first] == "ADP" or (first > 0 and words.pos[first - 1] == "ADP")
    same_number = (words.tag[subject] in ("NNS", "NNPS")) == ("p" in mention.number)
    if is_inverted or not (same_number or in_class("pair", mention.lemma)):
        return None
    return subject
