"""Where one description contradicts another for certain: verdicts on whole sentences.

A sentence is contradicted if one of its words excludes what the other text says of surely the same
thing: another colour, count, side or material, or an opposite ("an open book", "a closed book"); or
if one text denies what the other states. Nothing else is: what a text does not mention, it does not
contradict. None is supported: each element has its own grade.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product

from posh_reward.embedded.english.likeness import (
    SIDES,
    UNITS,
    TermIndex,
    are_neighbours,
    conflict,
    is_settled,
    likeness,
    load_colours,
    parse_number,
)
from posh_reward.embedded.english.meaning import (
    Term,
    dictionary_forms,
    find_opposites,
    is_concrete,
    is_material,
)
from posh_reward.embedded.english.word_classes import PREPOSITIONS, find_term, stands_in
from posh_reward.embedded.judge.alignment import MIN_COMPATIBLE_SUPPORT, Alignment
from posh_reward.embedded.judge.features import (
    MIN_CLEAR_SIMILARITY,
    MIN_SUPPORT,
    MIN_SURE_CERTAINTY,
    is_made_otherwise,
)
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.embedded.judge.negation import NEGATORS, find_contrast
from posh_reward.types import Verdict
from posh_reward.words import DEPICTION, PLACES

CONTRADICTED = Verdict((1.0, 0.0, 0.0))
UNMENTIONED = Verdict((0.0, 1.0, 0.0))
SELECTING_WORDS = frozenset(
    "first second third fourth fifth last next other only same sole lone single front back".split()
)
"""Adjectives with opposites that tell which of several things is meant, not what it is like."""
DIRECTIONS = frozenset(("toward", "towards"))
VERBS_OF_PLACE = frozenset("appear be hang kneel lie rest rise sit stand".split())
"""Verbs after which "to the left" is a place."""


def find_contradictions(alignment: Alignment) -> Iterator[int]:
    """Yield the places of the source's words that the target contradicts, in characters.

    A sentence that the target has word for word is not contradicted, whatever else it says.
    """
    said = set(alignment.target.statements.sentences.values())
    ours = alignment.source.statements.sentences
    for token in chain(
        find_excluded_words(alignment), find_denials(alignment), find_other_materials(alignment)
    ):
        place = alignment.source.tokens[token]
        if ours.get(place.sentence) not in said:
            yield place.span[0]


def find_dimension(index: DescriptionIndex, token: int) -> str:
    """Find what a word settles of a thing: one colour, count, side or pole excludes the others.

    Empty for any other word, and where a word may mean something else: "straw", "half a dozen",
    "he left", "a red-haired man", "the second arch", "a larger globe", "half full".
    """
    term = find_term(index.tokens[token])
    if term is None or token in index.denied_tokens:
        return ""
    word, pos = term
    if token in index.inexact_tokens or is_material(term):
        return ""
    if word in load_colours():
        return "" if pos != "a" and is_concrete((word, "n")) else "colour"
    if word in SIDES:
        return find_side_frame(index, token) if pos != "v" else ""
    if index.terms[token] is None:  # "two of them" counts a part
        return ""
    if word in UNITS or word.isdecimal():
        return "" if word in ("zero", "one", "0", "1") else "count"
    if index.tokens[token].pos != "ADJ" or word in SELECTING_WORDS:
        return ""
    if any(index.tokens[i].dep == "advmod" for i in index.children[token]):
        return ""
    is_plain = dictionary_forms(word)[0] == word
    return "opposite" if is_plain and find_opposites(term) else ""


def find_side_frame(index: DescriptionIndex, side: int) -> str:
    """Find what a side is of: a place, the end or the start of a direction; empty for others.

    "She looks to the left" and "she comes from the left" do not say where she is; "on the left of
    the girls" is a side of theirs, not of the image.
    """
    tokens = index.tokens
    preposition = tokens[tokens[side].head]
    for i in index.children[side]:
        wholes = [tokens[j] for j in index.children[i] if tokens[j].dep == "pobj"]
        if tokens[i].text.lower() == "of" and any(each.lemma not in DEPICTION for each in wholes):
            return ""
    word = preposition.text.lower() if tokens[side].dep == "pobj" else ""
    if word == "from":
        return "side from"
    governor = tokens[preposition.head]
    is_moving = governor.pos == "VERB" and governor.lemma not in VERBS_OF_PLACE
    if word in DIRECTIONS or (word == "to" and is_moving and governor.span < preposition.span):
        return "side towards"
    return "side"


def find_excluded_words(alignment: Alignment) -> Iterator[int]:
    """Yield the source's words that exclude what the target says of surely the same thing."""
    for token in range(len(alignment.source.tokens)):
        if is_contradicted(alignment, token):
            yield token


def is_contradicted(alignment: Alignment, token: int) -> bool:
    """Return True if the target says another such word of surely the same thing, and not this one.

    It must be said of the thing in both texts: by a word of its own, or by the next one in the
    dependency tree ("the boat on the left", "the door is red").
    """
    source, target = alignment.source, alignment.target
    dimension = find_dimension(source, token)
    if not dimension:
        return False
    for entity in find_owners(source, token):
        counterpart = find_sure_counterpart(alignment, entity)
        if counterpart is None or not is_told_of_it(alignment, token, entity, counterpart):
            continue
        if dimension == "count" and counts_a_part(alignment, token, entity, counterpart):
            continue
        said = find_said(source, entity, dimension)
        like = [counterpart, *find_namesakes(alignment, entity, dimension)]
        if all(excludes(target, other, said, dimension) for other in like):
            return True
    return False


def is_told_of_it(alignment: Alignment, token: int, entity: int, counterpart: int) -> bool:
    """Return True if a word is said of a thing, and does not tell it from others of its name.

    "The plate is red" is about the plate. "A red plate" may be another one than the target's blue
    one, unless both texts say something else of it: that it has a crack, or hangs on the wall.
    """
    if alignment.source.tokens[token].dep == "acomp":
        return True
    for term in alignment.source.term_profiles[entity]:
        if term[1] == "x" or names_no_thing(term) or is_settled(term):
            continue
        if alignment.term_support(term, counterpart) >= MIN_SUPPORT:
            return True
    return False


def counts_a_part(alignment: Alignment, token: int, entity: int, counterpart: int) -> bool:
    """Return True if a number and the target's may count a whole and a part of it.

    Four boys may be among six children, three young girls among four, and "two gulls ..., and three
    more" are five.
    """
    source, target = alignment.source, alignment.target
    number = parse_number(source.tokens[token].text.lower()) or 0
    our_counts, their_counts = list_counts(source, entity), list_counts(target, counterpart)
    sentence = source.tokens[token].sentence
    said = {parse_number(each.text.lower()) for each in source.tokens if each.sentence == sentence}
    for word, _ in find_said(target, counterpart, "count"):
        theirs = parse_number(word) or 0
        if theirs in said:  # "four girls, three of them teenagers"
            return True
        if number < theirs:
            in_parts = len(our_counts) > 1 or len(their_counts) > 1
            may_be_part = in_parts or is_narrower(source, entity, target, counterpart)
        else:
            is_within = number <= sum(their_counts)
            may_be_part = is_within or is_narrower(target, counterpart, source, entity)
        if may_be_part:
            return True
    return False


def list_counts(index: DescriptionIndex, entity: int) -> list[float]:
    """List the numbers that a text gives of things of a name, as ``DescriptionIndex.counts``."""
    heads = index.heads[entity]
    return [
        number
        for name, numbers in index.counts.items()
        if any(likeness(name, head) >= MIN_CLEAR_SIMILARITY for head in heads)
        for number in numbers
    ]


def is_narrower(
    index: DescriptionIndex, entity: int, other_index: DescriptionIndex, other: int
) -> bool:
    """Return True if one thing's name, or an adjective of it, says more than is said of another."""
    for name, wider in product(index.heads[entity], other_index.heads[other]):
        if TermIndex((wider,)).find_similar(name).get(wider, 0.0) < likeness(name, wider):
            return True
    said = [*other_index.term_profiles[other], *other_index.heads[other]]
    below = chain.from_iterable(index.children[mention] for mention in index.mentions[entity])
    for i in below:
        term = find_term(index.tokens[i]) if index.tokens[i].pos == "ADJ" else None
        if term and not any(likeness(term, word) >= MIN_SUPPORT for word in said):
            return True
    return False


def find_owners(index: DescriptionIndex, token: int) -> list[int]:
    """Find the entities that a word is most firmly attached to, if it is firmly at all.

    None that depend on it: what stands to the left of the lighthouse is not the lighthouse.
    """
    attached = index.attachments_by_token.get(token, {})
    owners = {
        entity: weight
        for entity, weight in attached.items()
        if weight >= MIN_SURE_CERTAINTY and not depends_on(index, index.mentions[entity], token)
    }
    firmest = max(owners.values(), default=0.0)
    return [entity for entity, weight in owners.items() if weight == firmest]


def depends_on(index: DescriptionIndex, mentions: Sequence[int], token: int) -> bool:
    """Return True if one of some words is another one, or stands below it in its tree."""
    for mention in mentions:
        for _ in index.tokens:
            if mention == token:
                return True
            head = index.tokens[mention].head
            if head == mention:
                break
            mention = head
    return False


def find_said(index: DescriptionIndex, entity: int, dimension: str) -> set[Term]:
    """Find the words of a dimension that a text says of its entity."""
    said = set()
    for token, attachment in index.attachments_to(entity).items():
        if attachment < MIN_SURE_CERTAINTY or token in index.mentions[entity]:
            continue
        term = find_term(index.tokens[token])
        if term is not None and find_dimension(index, token) == dimension:
            said.add(term)
    return said


def excludes(index: DescriptionIndex, entity: int, words: set[Term], dimension: str) -> bool:
    """Return True if a text says other words of the dimension of its entity, which exclude ours."""
    said = find_said(index, entity, dimension)
    for token, attachment in index.attachments_to(entity).items():
        other = find_term(index.tokens[token])
        if other is None or attachment < MIN_COMPATIBLE_SUPPORT:
            continue
        for word in words:
            is_comparable = is_settled(other) or not is_settled(word)
            if is_comparable and likeness(word, other) >= MIN_COMPATIBLE_SUPPORT:
                return False
    return bool(said) and all(
        conflict(a, b) and not are_neighbours(a[0], b[0]) for a, b in product(words, said)
    )


def find_namesakes(alignment: Alignment, entity: int, dimension: str) -> list[int]:
    """Find the entities of the target that have the name, too: the other boat may be red.

    As many of them as ours, if it is a count: one boat may be red, but not three.
    """
    named = alignment.by_name(tuple(alignment.source.heads[entity]))
    like = [other for other, alike in named.items() if alike >= MIN_CLEAR_SIMILARITY]
    if dimension == "count":
        several = alignment.source.plural[entity]
        like = [other for other in like if alignment.target.plural[other] == several]
    return like


def find_sure_counterpart(alignment: Alignment, entity: int) -> int | None:
    """Find the entity of the target that surely is this one; None for places and stand-ins."""
    source, target = alignment.source, alignment.target
    if entity >= len(source.graph.entities) or alignment.uncertainty(entity):
        return None
    if not alignment.candidates(entity):
        return None
    counterpart = alignment.candidates(entity)[0][0]
    if stands_in(source.heads[entity]) or stands_in(target.heads[counterpart]):
        return None
    if any(names_no_thing(term) for term in source.heads[entity]):
        return None
    return counterpart


def names_no_thing(term: Term) -> bool:
    """Return True for a word that is itself said of other things: the left, in white, a hue."""
    return term[0] in PLACES or term[0] in DEPICTION or term[0] in load_colours()


def find_other_materials(alignment: Alignment) -> Iterator[int]:
    """Yield the source's materials, "a cup of tin", where the target has others."""
    for owner, material in alignment.source.material_pairs:
        counterpart = find_sure_counterpart(alignment, owner)
        if counterpart is None or not is_made_otherwise(alignment, owner, material):
            continue
        if not all(map(is_material, alignment.source.heads[material])):
            continue  # a coat of grey may be lined with yellow
        for token in alignment.source.mentions[material]:
            if is_told_of_it(alignment, token, owner, counterpart):
                yield token


def find_denials(alignment: Alignment) -> Iterator[int]:
    """Yield a word of each sentence that denies what the target states, or states what it denies.

    The target must say all its words in one sentence, some of them under a negation, or else the
    source. Whose hat is missing, or which goose looks away, is not told by a name: "no hat"
    contradicts no text with a hat in it.
    """
    source, target = alignment.source, alignment.target
    if not (source.denied_tokens or target.denied_tokens):
        return
    their_words = list_content_words(target)
    for words in list_content_words(source).values():
        denied = source.denied_tokens.intersection(words.values())
        if any(find_contrast(source.tokens, i) < len(source.tokens) for i in denied):
            continue  # "not at us but at the sea" says where, too
        denies = bool(denied)
        for others in their_words.values():
            said = [find_like(alignment, term, others) for term in words]
            stated = set(chain(*said))
            if not all(said) or len(stated) < len(words):  # "hardly a wave on the water"
                continue
            if denies == target.denied_tokens.isdisjoint(stated):
                yield min(words.values())
                break


def list_content_words(index: DescriptionIndex) -> dict[int, dict[Term, int]]:
    """List the content words of each sentence, without prepositions, each with a token."""
    by_sentence: dict[int, dict[Term, int]] = defaultdict(dict)
    for i, token in enumerate(index.tokens):
        term = find_term(token)
        if term is None or term[1] == "x" or term[0] in PREPOSITIONS or term[0] in NEGATORS:
            continue
        by_sentence[token.sentence].setdefault(term, i)
    return by_sentence


def find_like(alignment: Alignment, term: Term, words: Mapping[Term, int]) -> list[int]:
    """Find the tokens of the target's words that clearly say a term."""
    alike = alignment.words(term)
    return [token for word, token in words.items() if alike.get(word, 0.0) >= MIN_CLEAR_SIMILARITY]
