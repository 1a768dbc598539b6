"""Mentions: the phrases of a text that may refer, with the features that each has by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from posh_reward.graph.coref import lexicon
from posh_reward.graph.coref.lexicon import PLURAL, PRONOUNS, SINGULAR, Gender, Number
from posh_reward.graph.coref.noun_phrases import DETERMINERS, SIDES, Chunk, Words, find_chunks

Form = Literal["pronoun", "definite", "indefinite", "bare", "name", "group"]
Role = Literal["subject", "object", "oblique", "possessor"]

LONGEST_LIST = 20  # maximum conjuncts between a mention and the one whose role it shares
DEFINITE = frozenset("the this that these those both".split())


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a phrase with the prepositional phrases that belong to it."""

    end: int  # last token, inclusive
    noun: int | None = None  # object of the first preposition: "table" in "edge of the table"


def phrase_tails(words: Words, chunks: list[Chunk]) -> list[Tail]:
    """Return the tail of each phrase, which may include the tail of a later phrase."""
    starts = {chunk.start: index for index, chunk in enumerate(chunks)}
    tails = [Tail(chunk.head) for chunk in chunks]
    # From right to left, so that a tail can take over the end of the phrase inside it: "the edge of
    # the table in the room".
    for index in range(len(chunks) - 1, -1, -1):
        chunk = chunks[index]
        preposition, after = chunk.head + 1, chunk.head + 2
        if not words.same_sentence(chunk.head, after) or not attaches(words, chunk, preposition):
            continue
        target, number = starts.get(after, -1), number_after(words, preposition)
        if side_after(words, after):
            tails[index] = Tail(after + 1, after + 1)
        elif target > index:
            tails[index] = Tail(tails[target].end, chunks[target].head)
        elif words.lower[after] in PRONOUNS:
            tails[index] = Tail(after, after)
        elif number is not None:
            tails[index] = Tail(number, number)
    return tails


def attaches(words: Words, chunk: Chunk, preposition: int) -> bool:
    """Test whether a preposition right after a phrase belongs to it, not to the verb.

    Only "of", "in", "with" and sides may. Others ("holds a hat above the boy") mostly belong to the
    verb, which small parsers often miss; so does "with its chin on its paws".
    """
    word = words.lower[preposition]
    if word == "of":
        return True
    inside = chunk.start <= words.head[preposition] <= chunk.head
    if word in ("in", "with") and words.lower[preposition + 1] != "front":
        own = words.tag[preposition + 1] == "PRP$"
        return inside and words.dep[preposition] == "prep" and not own
    opens = chunk.start == 0 or words.sentence[chunk.start - 1] != words.sentence[chunk.start]
    return word in ("to", "on", "at") and side_after(words, preposition + 1) and (opens or inside)


def number_after(words: Words, preposition: int) -> int | None:
    """Return the end of the age in "a man of about fifty"."""
    for token in (preposition + 1, preposition + 2):
        if words.same_sentence(preposition, token) and words.pos[token] == "NUM":
            return token
    return None


def side_after(words: Words, token: int) -> bool:
    """Test whether a side such as "our left" or "the right" begins here."""
    if not words.same_sentence(token, token + 1):
        return False
    return words.lower[token] in ("our", "the") and words.lower[token + 1] in SIDES


def qualities_of(words: Words, chunk: Chunk) -> frozenset[str]:
    """Return the modifiers of a noun, {"small", "black"}, and a quoted word after it."""
    head = chunk.head
    first = chunk.start if chunk.possessor is None else chunk.possessor + 1
    inside = (i for i in range(first, head) if words.pos[i] not in ("PUNCT", "CCONJ", "PART"))
    texts = {words.lower[i] for i in inside}
    comparing = words.tag[head] in ("JJR", "JJS")
    if chunk.elliptical and (comparing or lexicon.has("distinguishing", words.lower[head])):
        texts.add(words.lower[head])
    if words.same_sentence(head, head + 2) and words.tag[head + 1] == "``":
        texts.add(words.lower[head + 2])
    return frozenset(texts) - DETERMINERS - lexicon.classes()["generic"]


def count_of(words: Words, chunk: Chunk) -> str:
    """Return the number word: "two" for "two dogs" and "both dogs"; else empty."""
    if words.lower[chunk.start] == "both":
        return "two"
    numbers = (words.lower[i] for i in range(chunk.start, chunk.head))
    return next((word for word in numbers if lexicon.has("numbers", word)), "")


def gender_of_phrase(words: Words, chunk: Chunk, noun: str) -> Gender | None:
    """Return the gender of the noun; of a name, that of any of its words: "the Virgin Mary"."""
    if chunk.elliptical:
        return None
    gender = lexicon.gender_of(noun)
    if words.pos[chunk.head] != "PROPN":
        return gender
    gender_of_all = lexicon.gender_of_name(words.lower[chunk.start : chunk.head + 1])
    return gender_of_all if gender_of_all != lexicon.ANY else gender or lexicon.ANY


def form_of(words: Words, chunk: Chunk) -> Form:
    """Return the form; only definite phrases and names may resume a referent."""
    first = words.lower[chunk.start]
    singular = words.tag[chunk.head] == "NN" and words.capital[chunk.head]
    if not chunk.elliptical and (words.pos[chunk.head] == "PROPN" or singular):
        return "name"
    if chunk.possessor is not None or first in DEFINITE:
        return "definite"
    return "indefinite" if first in DETERMINERS or chunk.elliptical else "bare"


def number_of(words: Words, chunk: Chunk) -> Number:
    """Return singular, plural, or either (for a pair)."""
    head, first = words.lower[chunk.head], words.lower[chunk.start]
    if lexicon.has("pair", words.lemma[chunk.head]):
        return lexicon.EITHER
    if any(lexicon.has("numbers", words.lower[i]) for i in range(chunk.start, chunk.head + 1)):
        return PLURAL
    if first in ("a", "an", "this", "that", "another", "every", "each", "one") or head == "one":
        return SINGULAR
    if chunk.elliptical:
        return PLURAL if head in ("most", "some", "many", "few", "others", "ones") else SINGULAR
    plural = words.tag[chunk.head] in ("NNS", "NNPS") or first in ("these", "those")
    if not words.tag[chunk.head]:
        plural = head != words.lemma[chunk.head] and head.endswith(("s", "men", "ren", "ople"))
    return PLURAL if plural else SINGULAR


def role_of(words: Words, head: int) -> Role:
    """Return the grammatical role, which decides how prominent a mention is."""
    for _ in range(LONGEST_LIST):
        if words.dep[head] != "conj" or words.head[head] > head:
            break
        head = words.head[head]
    dep, pronouns = words.dep[head], ("its", "their", "our", "my", "your")
    if dep == "poss" or words.tag[head] == "PRP$" or words.lower[head] in pronouns:
        return "possessor"
    if dep in ("nsubj", "nsubjpass", "csubj", "ROOT", "expl"):
        return "subject"
    if dep == "attr":
        existential = words.child(words.head[head], "expl", "nsubj")
        return "subject" if existential is None or words.dep[existential] == "expl" else "object"
    return "object" if dep in ("dobj", "obj", "dative", "oprd") else "oblique"


def role_of_chunk(words: Words, chunk: Chunk) -> Role:
    """Return ``role_of`` its noun; never subject after a preposition, whatever the parse says."""
    role, before = role_of(words, chunk.head), chunk.start - 1
    is_fronted = words.same_sentence(chunk.head, before) and words.pos[before] == "ADP"
    return "oblique" if is_fronted and role == "subject" else role


@dataclass(frozen=True, slots=True)
class Mention:
    """One phrase that refers. Equal mentions are the same phrase of the same text."""

    start: int
    end: int  # inclusive, with the phrases in "of", "in", "with" ... that belong to the noun
    head: int
    sentence: int
    form: Form
    lemma: str
    number: Number
    gender: Gender | None  # None if the noun is not in the lexicon
    role: Role
    modifiers: frozenset[str] = frozenset()  # adjectives; "+smock" for "in a smock"
    of: str = ""  # noun of its "of" phrase: "table" in "the edge of the table"
    count: str = ""
    possessor: int | None = None
    elliptical: bool = False
    inner: bool = False  # it is inside another noun phrase
    parts: tuple[int, ...] = ()  # heads of the members of a group

    @property
    def span(self) -> tuple[int, int]:
        """First and last token, inclusive."""
        return (self.start, self.end)


def find_mentions(words: Words) -> list[Mention]:
    """Find all mentions, in the order of resolution: a possessor before its noun."""
    # A group ("the man and the woman") is a mention as well as its members: "they" may resume it,
    # and its referent is only as prominent as theirs.
    chunks = find_chunks(words)
    tails = phrase_tails(words, chunks)
    nominal = [
        nominal_mention(words, chunk, tail)
        for chunk, tail in zip(chunks, tails, strict=True)
        if refers(words, chunk)
    ]
    pronouns = [pronoun_mention(words, i) for i, word in enumerate(words.lower) if word in PRONOUNS]
    ends = [tail.end for tail in tails]
    groups = [
        group_mention(words, [chunks[i] for i in run], ends[run[-1]])
        for run in coordinations(words, chunks, ends)
    ]
    return sorted(mark_inner(nominal + pronouns) + groups, key=reading_order)


def reading_order(mention: Mention) -> tuple[int, int]:
    """Sort key: by noun, but a group after its members, and "one of them" after "them"."""
    partitive = mention.elliptical and mention.end > mention.head
    return (mention.end if partitive else mention.head, mention.form == "group" or partitive)


def refers(words: Words, chunk: Chunk) -> bool:
    """Test whether a phrase may be mentioned again: not sides, times, "no ..." or "sky blue"."""
    head, after = words.lower[chunk.head], chunk.head + 1
    bare = chunk.start == chunk.head and words.same_sentence(chunk.head, after)
    shade = bare and lexicon.has("colour", words.lower[after])
    if shade or words.lower[chunk.start] in ("no", "any"):
        return False
    return chunk.elliptical or (head not in SIDES and not lexicon.has("temporal", head))


def pronoun_mention(words: Words, token: int) -> Mention:
    """Return the mention of a personal pronoun."""
    number, gender = PRONOUNS[words.lower[token]]
    return Mention(
        start=token,
        end=token,
        head=token,
        sentence=words.sentence[token],
        form="pronoun",
        lemma=words.lower[token],
        number=number,
        gender=gender,
        role=role_of(words, token),
    )


def nominal_mention(words: Words, chunk: Chunk, tail: Tail) -> Mention:
    """Return the mention of a base noun phrase with the phrases that belong to it."""
    head = chunk.head
    noun = words.lemma[head] if words.pos[head] in ("NOUN", "PROPN") else words.lower[head]
    nameless = chunk.elliptical or words.lower[chunk.start] in ("each", "every")
    other = "" if tail.noun is None else words.lemma[tail.noun]
    of = tail.noun is not None and words.lower[head + 1] == "of"
    count = count_of(words, chunk)
    # "A man in a smock" is told from other men by "+smock"; "of" has a field of its own.
    having = frozenset((f"+{other}",)) if other and not of else frozenset()
    return Mention(
        start=chunk.start,
        end=tail.end,
        head=head,
        sentence=words.sentence[head],
        form=form_of(words, chunk),
        lemma="" if nameless else noun,
        number=number_of(words, chunk),
        gender=gender_of_phrase(words, chunk, noun),
        role=role_of_chunk(words, chunk),
        modifiers=(qualities_of(words, chunk) - {count}) | having,
        of=other if of else "",
        count=count,
        possessor=chunk.possessor,
        elliptical=chunk.elliptical,
        inner=chunk.start > 0 and words.lower[chunk.start - 1] == "of",
    )


def group_mention(words: Words, members: list[Chunk], end: int) -> Mention:
    """Return the mention of all members of a coordination together."""
    first, last = members[0], members[-1]
    return Mention(
        start=first.start,
        end=end,
        head=last.head,
        sentence=words.sentence[first.head],
        form="group",
        lemma="",
        number=PLURAL,
        gender=lexicon.gender_of(words.lemma[first.head]) or lexicon.THING,
        role=role_of(words, first.head),
        parts=tuple(member.head for member in members),
    )


def mark_inner(mentions: list[Mention]) -> list[Mention]:
    """Mark phrases that are inside an earlier, longer one."""
    # Outer phrases come before those at their start, so one sweep with the farthest end suffices.
    result, reach = [], -1
    for mention in sorted(mentions, key=lambda m: (m.start, -m.end)):
        inside = mention.end <= reach and mention.start > 0
        result.append(replace(mention, inner=True) if inside else mention)
        reach = max(reach, mention.end)
    return result


def coordinations(words: Words, chunks: list[Chunk], ends: list[int]) -> list[list[int]]:
    """Return the indices of each coordination's phrases; ``ends`` are the phrases' last tokens."""
    groups, run = [], [0] if chunks else []  # a run: phrases with only ", and" between
    for index in range(1, len(chunks) + 1):
        if index < len(chunks) and continues(words, chunks, ends, run, index):
            run.append(index)
            continue
        between = range(ends[run[0]], chunks[run[-1]].start) if len(run) > 1 else ()
        if any(words.lower[i] == "and" for i in between):
            groups.append(run)
        run = [index]
    return groups


def continues(
    words: Words, chunks: list[Chunk], ends: list[int], run: list[int], index: int
) -> bool:
    """Test whether a phrase continues a coordination: only ", and" between, and parsed as such."""
    chunk = chunks[index]
    between = words.lower[ends[run[-1]] + 1 : chunk.start]
    parent, last = words.head[chunk.head], chunks[run[-1]].head
    conjunct = words.dep[chunk.head] == "conj" and any(
        chunks[i].start <= parent <= chunks[i].head for i in (run[0], run[-1])
    )
    twins = words.dep[chunk.head] == words.dep[last] and parent == words.head[last]
    linked = conjunct or twins
    return linked and 0 < len(between) <= 2 and set(between) <= {",", "and"}
