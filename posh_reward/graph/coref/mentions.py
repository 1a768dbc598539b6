"""Mentions: which phrases of a text may refer, and what each says by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from posh_reward.graph.coref import lexicon, phrases
from posh_reward.graph.coref.chunks import SIDES, Chunk, find_chunks
from posh_reward.graph.coref.groups import coordinated
from posh_reward.graph.coref.lexicon import PLURAL, PRONOUNS, THING, Gender, Number
from posh_reward.graph.coref.phrases import Form, Role, Tail
from posh_reward.graph.coref.words import Words


@dataclass(frozen=True, slots=True)
class Mention:
    """One phrase that refers. Equal mentions are the same phrase of the same text."""

    start: int
    end: int
    """Inclusive; phrases with "of", "in", "with" ... that belong to the noun are inside."""
    head: int
    core: int
    """First token of the phrase proper: its determiner, or its first modifier."""
    sentence: int
    form: Form
    lemma: str
    number: Number
    gender: Gender | None
    """None if the noun is not in the lexicon."""
    role: Role
    modifiers: frozenset[str] = frozenset()
    """What distinguishes it from others of its kind: adjectives, "+smock" for "in a smock"."""
    of: str = ""
    """Noun of its "of" phrase: "table" in "the edge of the table"."""
    count: str = ""
    possessor: int | None = None
    elliptical: bool = False
    embedded: bool = False
    """It is inside another noun phrase."""
    parts: tuple[int, ...] = ()
    """Heads of the members of a coordination."""

    @property
    def span(self) -> tuple[int, int]:
        """First and last token, inclusive."""
        return (self.start, self.end)


def find_mentions(words: Words) -> list[Mention]:
    """All mentions, in the order in which they can be resolved (a possessor before its NP)."""
    chunks = find_chunks(words)
    tails = phrases.phrase_tails(words, chunks)
    nominal = [
        nominal_mention(words, chunk, tail)
        for chunk, tail in zip(chunks, tails, strict=True)
        if refers(words, chunk)
    ]
    pronouns = [pronoun_mention(words, i) for i, word in enumerate(words.lower) if word in PRONOUNS]
    ends = [tail.end for tail in tails]
    groups = [
        group_mention(words, [chunks[i] for i in run], ends[run[-1]])
        for run in coordinated(words, chunks, ends)
    ]
    return sorted(mark_embedded(nominal + pronouns) + groups, key=reading_order)


def reading_order(mention: Mention) -> tuple[int, int]:
    """By noun, but a group comes after its members, and "one of them" after "them"."""
    partitive = mention.elliptical and mention.end > mention.head
    return (mention.end if partitive else mention.head, mention.form == "group" or partitive)


def refers(words: Words, chunk: Chunk) -> bool:
    """Whether a phrase may be mentioned again: not sides, times, "no ..." or "sky blue"."""
    if words.lower[chunk.start] in ("no", "any"):
        return False
    head, after = words.lower[chunk.head], chunk.head + 1
    if (
        words.same_sentence(chunk.head, after)
        and chunk.start == chunk.head
        and (lexicon.has("colour", words.lower[after]))
    ):
        return False
    return chunk.elliptical or (head not in SIDES and not lexicon.has("temporal", head))


def pronoun_mention(words: Words, token: int) -> Mention:
    """The mention of one personal pronoun."""
    number, gender = PRONOUNS[words.lower[token]]
    return Mention(
        start=token,
        end=token,
        head=token,
        core=token,
        sentence=words.sentence[token],
        form="pronoun",
        lemma=words.lower[token],
        number=number,
        gender=gender,
        role=phrases.role_of(words, token),
    )


def nominal_mention(words: Words, chunk: Chunk, tail: Tail) -> Mention:
    """The mention of a base noun phrase with the phrases that belong to it."""
    head = chunk.head
    noun = words.lemma[head] if words.pos[head] in ("NOUN", "PROPN") else words.lower[head]
    nameless = chunk.elliptical or words.lower[chunk.start] in ("each", "every")
    other = "" if tail.noun is None else words.lemma[tail.noun]
    of = tail.noun is not None and words.lower[head + 1] == "of"
    count = phrases.count_of(words, chunk)
    having = frozenset((f"+{other}",)) if other and not of else frozenset()
    return Mention(
        start=chunk.start,
        end=tail.end,
        head=head,
        core=chunk.start,
        sentence=words.sentence[head],
        form=phrases.form_of(words, chunk),
        lemma="" if nameless else noun,
        number=phrases.number_of(words, chunk),
        gender=phrases.gender_of_phrase(words, chunk, noun),
        role=phrases.role_of_chunk(words, chunk),
        modifiers=(phrases.qualities_of(words, chunk) - {count}) | having,
        of=other if of else "",
        count=count,
        possessor=chunk.possessor,
        elliptical=chunk.elliptical,
        embedded=chunk.start > 0 and words.lower[chunk.start - 1] == "of",
    )


def group_mention(words: Words, members: list[Chunk], end: int) -> Mention:
    """The mention of all members of a coordination together."""
    first, last = members[0], members[-1]
    return Mention(
        start=first.start,
        end=end,
        head=last.head,
        core=first.start,
        sentence=words.sentence[first.head],
        form="group",
        lemma="",
        number=PLURAL,
        gender=lexicon.gender_of(words.lemma[first.head]) or THING,
        role=phrases.role_of(words, first.head),
        parts=tuple(member.head for member in members),
    )


def mark_embedded(mentions: list[Mention]) -> list[Mention]:
    """Marks phrases that are inside an earlier, longer one."""
    marked, reach = [], -1
    for mention in sorted(mentions, key=lambda m: (m.start, -m.end)):
        inside = mention.end <= reach and mention.start > 0
        marked.append(replace(mention, embedded=True) if inside else mention)
        reach = max(reach, mention.end)
    return marked
