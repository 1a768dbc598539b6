"""Which referent a pronoun resumes: agreement, binding constraints, then prominence."""

from __future__ import annotations

from posh_reward.graph.coref import lexicon
from posh_reward.graph.coref.chunks import SIDES
from posh_reward.graph.coref.lexicon import PLURAL, SPEAKER
from posh_reward.graph.coref.mentions import Mention
from posh_reward.graph.coref.referents import Discourse, Referent
from posh_reward.graph.coref.words import Words

WINDOW = 4
"""Sentences that a pronoun looks back; a pair may be further away after "between"."""
REFLEXIVE = ("self", "selves")

PARALLEL = 40.0
"""For a referent whose latest mention had the role that the pronoun has."""
OWN_SUBJECT = 60.0
"""For the subject of the clause that a possessive such as "his" is in."""
TWO = 200.0
"""For a pair, as the meaning of "between them"."""
VAGUE = -70.0
"""For places and parts: "the middle", "the edge"."""
NEARNESS = 2.0
"""Penalty per token in between, up to ``FAR``, for pronouns that are not subjects."""
FAR = 30
PEOPLE_FIRST = 60.0
"""For people and animals, as the meaning of "they"."""
SINGULAR_THEY = -80.0
"""For one person of unknown sex, as the meaning of "they"."""
UNLISTED = -200.0
"""For a subject that is not in the lexicon, as the meaning of "he" or "she"."""
FLOOR = 12.0
"""Prominence below which a referent is forgotten."""


def antecedent_of_pronoun(words: Words, discourse: Discourse, mention: Mention) -> Referent | None:
    """The most prominent referent that agrees and that syntax does not rule out."""
    if mention.lemma == "it" and expletive(words, mention.head):
        return None
    subject = clause_subject(words, discourse, mention.head)
    if mention.lemma.endswith(REFLEXIVE) and subject and agreement(mention, subject) is not None:
        return subject
    barred = barred_referents(words, discourse, mention, subject)
    best, best_score = None, FLOOR
    between = mention.head > 0 and words.lower[mention.head - 1] == "between"
    for referent in discourse.active:
        cost = agreement(mention, referent)
        if cost is None or referent in barred or contains(referent.last, mention):
            continue
        pair = referent.count == "two" or len(referent.members) == 2
        far = mention.sentence - referent.sentence > WINDOW
        score = referent.salience(mention.sentence)
        if (score < FLOOR or far) and not (pair and (between or not far)):
            continue
        score += cost + preference(mention, referent) + (TWO if pair and between else 0.0)
        if mention.role == "possessor" and referent is subject and cost >= 0:
            score += 0.0 if vague(referent) else OWN_SUBJECT
        if score >= best_score:
            best, best_score = referent, score
    return best


def agreement(mention: Mention, referent: Referent) -> float | None:
    """Bonus or penalty of a referent that agrees in number and sex; None if it does not."""
    if referent.mentions[0].lemma in SPEAKER:
        return None
    if mention.number == PLURAL:
        if "p" in referent.number:
            living = referent.gender is not None and lexicon.animate(referent.gender)
            return PEOPLE_FIRST if living else 0.0
        unsexed = referent.gender in (lexicon.PERSON, lexicon.ANY)
        return SINGULAR_THEY if unsexed else None
    if "s" not in referent.number:
        return None
    if mention.gender == lexicon.THING:
        return 0.0 if referent.gender is None or "n" in referent.gender else None
    if referent.gender is None:
        return UNLISTED if referent.last.role == "subject" else None
    assert mention.gender is not None
    return 0.0 if mention.gender & referent.gender else None


def preference(mention: Mention, referent: Referent) -> float:
    """Bonus for the same role, penalty for distance and for vague referents."""
    score = PARALLEL if mention.role == referent.last.role else 0.0
    if vague(referent):
        score += VAGUE
    if mention.role not in ("subject", "possessor"):
        score -= NEARNESS * min(mention.start - referent.last.head, FAR)
    return score


def vague(referent: Referent) -> bool:
    """Whether it is a place, a part or the picture itself, which pronouns seldom mean."""
    return any(
        lexicon.has("relational", lemma) or lexicon.has("frame", lemma) for lemma in referent.lemmas
    )


def contains(outer: Mention, pronoun: Mention) -> bool:
    """Whether the pronoun is inside the phrase, where it cannot mean the whole phrase."""
    return (
        outer.form != "pronoun"
        and outer.start <= pronoun.head <= outer.end
        and (pronoun.role != "possessor" or pronoun.head < outer.head)
    )


def expletive(words: Words, token: int) -> bool:
    """Whether "it" refers to nothing: "it is raining", "it seems that", "it is unclear if"."""
    if words.dep[token] == "expl":
        return True
    verb = words.head[token]
    if words.dep[token] != "nsubj" or not words.same_sentence(verb, verb + 1):
        return False
    clause = words.lower[verb + 1] in ("that", "as")
    judged = words.lemma[verb] == "be" and lexicon.has("judging", words.lower[verb + 1])
    return (
        judged
        or words.lemma[verb] in ("rain", "snow")
        or (clause and words.lemma[verb] in ("seem", "appear"))
    )


def clause_subject(words: Words, discourse: Discourse, token: int) -> Referent | None:
    """The subject of the clause that a token is in, or that the clause shares."""
    verb = governing_verb(words, token)
    if verb is None:
        return sentence_subject(discourse, words.sentence[token])
    for _ in range(6):
        if verb is None:
            return None
        subject = words.child(verb, "nsubj", "nsubjpass")
        if subject is not None and subject != token:
            if words.dep[verb] == "relcl" and words.tag[subject] in ("WDT", "WP"):
                return discourse.owner.get(words.head[verb])
            return discourse.owner.get(subject)
        if words.dep[verb] in ("relcl", "acl"):
            return discourse.owner.get(words.head[verb])
        parent = words.head[verb]
        if subject is not None or words.dep[verb] not in ("conj", "xcomp", "advcl", "ccomp"):
            return None
        verb = parent if parent != verb else None
    return None


def turns(words: Words, token: int) -> bool:
    """Whether the verb is one of turning or looking: one can turn to one's own right."""
    verb = governing_verb(words, token)
    return verb is None or lexicon.has("turning", words.lemma[verb])


def sentence_subject(discourse: Discourse, sentence: int) -> Referent | None:
    """The latest subject so far of a sentence in which the parser found no verb."""
    for referent in reversed(discourse.active):
        if referent.last.sentence == sentence and referent.last.role == "subject":
            return referent
    return None


def governing_verb(words: Words, token: int) -> int | None:
    """The nearest verb above a token."""
    for _ in range(12):
        parent = words.head[token]
        if parent == token:
            return None
        if words.pos[parent] in ("VERB", "AUX"):
            return parent
        token = parent
    return None


def barred_referents(
    words: Words, discourse: Discourse, mention: Mention, subject: Referent | None
) -> list[Referent]:
    """Referents that the pronoun cannot mean because they share its clause or its phrase.

    A possessive before a side does not mean the subject either, as one does not stand to one's own
    right: "The young man stands in the lake to his right".
    """
    token, parent = mention.head, words.head[mention.head]
    if mention.role == "possessor":
        own_side = words.lower[parent] in SIDES and not turns(words, token)
        return [subject] if subject and own_side else []
    barred: list[Referent] = []
    preposition = words.lower[parent] if words.dep[token] == "pobj" else ""
    direct = words.dep[token] in ("dobj", "dative", "obj", "iobj")
    if preposition == "of" and words.lower[words.head[parent]] == "front":
        preposition = "behind"
    if subject and (direct or (preposition and not lexicon.has("locative", preposition))):
        barred.append(subject)
    verb = words.head[parent] if preposition else parent
    # "making it a focal point" speaks of what the main clause does, not of its subject.
    if words.tag[verb] == "VBG" and words.lemma[verb] in ("make", "give", "let", "leave", "cause"):
        return []
    for sibling in words.children[verb]:
        if (
            sibling != token
            and words.dep[sibling] in ("dobj", "obj")
            and sibling in discourse.owner
        ):
            barred.append(discourse.owner[sibling])
    if preposition and verb in discourse.owner:
        barred.append(discourse.owner[verb])
    return barred
