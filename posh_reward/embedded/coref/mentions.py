"""Mentions: the phrases of a text that may refer, with the features that each has by itself."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from posh_reward.embedded.coref.words import (
    ANY_GENDER,
    EITHER_NUMBER,
    PLURAL,
    PRONOUNS,
    SINGULAR,
    THING_GENDER,
    Gender,
    Number,
    find_gender,
    find_name_gender,
    in_class,
    load_classes,
)
from posh_reward.graph.components import NOUN_TAGS, Syntax, read_syntax

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True, slots=True)
class Words(Syntax):
    """The tokens of one text; ``lemma`` is lower-cased, or the word where a parse has no lemma."""

    lower: tuple[str, ...]

    def same_sentence(self, first: int, second: int) -> bool:
        """Test whether both tokens are in one sentence; False for an index outside the text."""
        inside = 0 <= first < len(self) and 0 <= second < len(self)
        return inside and self.sentence[first] == self.sentence[second]

    def find_child(self, token: int, *deps: str) -> int | None:
        """Return the first child of a token with one of some dependency labels, if any."""
        return next((c for c in self.children[token] if self.dep[c] in deps), None)


def read_words(doc: Doc) -> Words:
    """Copy what the rules need from a Doc; missing annotations are empty strings."""
    syntax = read_syntax(doc)
    columns = {field.name: getattr(syntax, field.name) for field in fields(syntax)}
    lower = tuple(text.lower() for text in syntax.text)
    # Lemmatizers keep "people", the plural of "person".
    lemmas = []
    for word, lemma, pos in zip(lower, syntax.lemma, syntax.pos, strict=True):
        is_people = word == "people" and pos in NOUN_TAGS
        lemmas.append("person" if is_people else lemma.lower() or word)
    columns["lemma"] = tuple(lemmas)
    if lower and not any(syntax.sentence):  # no boundaries: full stops end sentences
        stops = (word in (".", "!", "?") for word in lower[:-1])
        columns["sentence"] = tuple(accumulate(stops, initial=0))
    return Words(**columns, lower=lower)


DETERMINERS = frozenset("the a an this that these those some any no every each another".split())
SIDE_WORDS = frozenset(("left", "right"))
HYPHEN_MARKS = frozenset(("-", "\u2010", "\u2011", "\u2013"))
PARTICIPLE_TAGS = frozenset(("VBN", "VBG", "VBD"))
MAX_TOKENS_BEFORE_NOUN = 14  # in its phrase; longer phrases are parse errors
MAX_TOKENS_TO_DETERMINER = 5  # before an odd token, which are searched for a determiner


@dataclass(frozen=True, slots=True)
class Chunk:
    """One base noun phrase: determiner, modifiers and noun, without what follows."""

    start: int
    head: int  # its last token: the noun, or the word in its place: "the third", "one"
    possessor: int | None  # "his", or the noun before "'s"
    elliptical: bool = False  # without a noun of its own


def find_chunks(words: Words) -> list[Chunk]:
    """Find all base noun phrases in text order; they overlap only in possessors."""
    chunks: list[Chunk] = []
    for token in range(len(words)):
        # This "noun" is really the verb of the noun before: "a ewe *sniffs*".
        nouns = token and is_noun(words, token) and is_noun(words, token - 1)
        if nouns and is_verb_after(words, token - 1, token):
            continue
        if ends_noun_run(words, token):
            chunks.append(build_chunk(words, token, chunks[-1] if chunks else None))
        elif stands_for_noun(words, token):
            chunks.append(Chunk(find_elliptical_start(words, token), token, None, True))
    return chunks


def is_noun(words: Words, token: int) -> bool:
    """Test whether a token is a noun, or should have been tagged as one."""
    if not 0 <= token < len(words):
        return False
    word = words.lower[token]
    if word in ("one", "ones") or word in PRONOUNS or in_class("distinguishing", word):
        return False
    if words.pos[token] not in NOUN_TAGS:
        return is_mistagged_noun(words, token)
    is_modifying_side = word in SIDE_WORDS and words.dep[token] in ("amod", "compound")
    return not words.tag[token].startswith("VB") and not is_modifying_side


def is_mistagged_noun(words: Words, token: int) -> bool:
    """Test for a mistagged noun: "a brown donkey/ADJ", "a lantern/ADJ burns", "that book/VERB"."""
    after_determiner = token > 0 and is_determiner(words, token - 1)
    if words.tag[token] in ("VB", "VBP"):
        return after_determiner
    if words.pos[token] != "ADJ":
        return False
    if words.dep[token] != "amod":
        return find_gender(words.lower[token]) not in (None, THING_GENDER)
    followed = words.same_sentence(token, token + 1)
    return after_determiner and followed and in_class("stance", words.lower[token + 1])


def ends_noun_run(words: Words, token: int) -> bool:
    """Test whether a token is the last noun of a phrase: "square" in "a market square"."""
    if not is_noun(words, token):
        return False
    after = token + 1
    if not words.same_sentence(token, after):
        return True
    if words.lower[after] in HYPHEN_MARKS and words.same_sentence(after, after + 1):
        return False
    if not is_noun(words, after):
        return words.dep[token] != "amod"
    return is_verb_after(words, token, after)


def is_verb_after(words: Words, noun: int, after: int) -> bool:
    """Test whether a "plural" right after a noun is really its verb.

    It is after "a" ("a ewe sniffs"), after a plural, and if descriptions often use that verb ("the
    angel kneels").
    """
    if words.tag[noun] == "NNS" or in_class("stance", words.lower[after]):
        return words.same_sentence(noun, after)
    if words.tag[after] not in ("NNS", "NNPS"):
        return False
    for token in range(noun - 1, max(noun - MAX_TOKENS_BEFORE_NOUN, -1), -1):
        if words.lower[token] in ("a", "an"):
            return words.sentence[token] == words.sentence[noun]
        if is_determiner(words, token) or words.pos[token] in ("ADP", "VERB", "PRON", "PUNCT"):
            return False
    return False


def is_determiner(words: Words, token: int) -> bool:
    """Test whether a token is a determiner; the "that" of a relative clause is not."""
    return words.lower[token] in DETERMINERS and words.tag[token] in ("DT", "PDT", "CD", "")


def is_possessive(words: Words, token: int) -> bool:
    """Test for a possessive such as "his" or "whose", even in a text without tags."""
    if words.tag[token] in ("PRP$", "WP$"):
        return True
    return words.dep[token] == "poss" and words.lower[token] in PRONOUNS


def build_chunk(words: Words, head: int, previous: Chunk | None) -> Chunk:
    """Return the phrase that ends in the noun ``head`` and starts after the previous one."""
    floor = 0 if previous is None else previous.head + 1
    # Leftwards from the noun to a determiner or a possessive, which always begins the phrase. A
    # token that cannot be inside a phrase ends it, unless a determiner a few tokens further left
    # shows that the tagger erred.
    start = head
    for token in range(head - 1, max(floor, head - MAX_TOKENS_BEFORE_NOUN) - 1, -1):
        # The "left" of "our left" does not modify a later noun.
        is_side = words.lower[token] in SIDE_WORDS
        if is_side and token > 0 and words.lower[token - 1] == "our":
            break
        if not words.same_sentence(token, head):
            break
        if is_possessive(words, token):
            return Chunk(token, head, token)
        if is_determiner(words, token):
            return Chunk(token, head, None)
        if words.tag[token] == "POS" and previous is not None and previous.head == token - 1:
            return Chunk(previous.start, head, previous.head)
        if not is_modifier(words, token):
            earliest = max(floor, token - MAX_TOKENS_TO_DETERMINER)
            determiner = find_determiner_before(words, token, earliest)
            if determiner is not None:
                return Chunk(determiner, head, None)
            break
        start = token
    return Chunk(find_bare_start(words, start, head), head, None)


def find_determiner_before(words: Words, token: int, floor: int) -> int | None:
    """Return the determiner before mistagged modifiers: "a" of "a frozen, greenish pond"."""
    for i in range(token, floor - 1, -1):
        if is_determiner(words, i):
            return i if words.same_sentence(i, token) else None
        in_list = words.lower[i] in (",", "and", *HYPHEN_MARKS) and words.pos[i - 1] != "NOUN"
        if (
            not in_list
            and words.pos[i] not in ("ADJ", "ADV")
            and words.tag[i] not in PARTICIPLE_TAGS
        ):
            return None
    return None


def is_modifier(words: Words, token: int) -> bool:
    """Test whether a token can be between a determiner and its noun."""
    pos, word, after = words.pos[token], words.lower[token], token + 1
    if pos in ("NOUN", "PROPN") or word in HYPHEN_MARKS or is_adjectival(words, token):
        return True
    if words.tag[token] in PARTICIPLE_TAGS:
        return words.dep[token] == "compound" or words.lower[token - 1] in DETERMINERS
    if pos == "ADV" and words.pos[after] in ("ADJ", "VERB", "NUM", "ADV"):
        return True
    if word in (",", "and", "or", "but"):
        before = token > 0 and is_adjectival(words, token - 1)
        return before and (is_adjectival(words, after) or words.pos[after] in ("VERB", "ADV"))
    return words.lower[token - 1] in HYPHEN_MARKS or words.lower[after] in HYPHEN_MARKS


def is_adjectival(words: Words, token: int) -> bool:
    """Test for an adjective, a number or a participle, by any of the annotations."""
    return (
        words.pos[token] in ("ADJ", "NUM")
        or words.tag[token].startswith("JJ")
        or in_class("numbers", words.lower[token])
        or (words.tag[token] in PARTICIPLE_TAGS and words.dep[token] == "amod")
    )


def find_bare_start(words: Words, start: int, head: int) -> int:
    """Return the start of a phrase without a determiner, past commas and what they separate."""
    for token in range(start, head):
        in_list = words.lower[token] in (",", "and", "or", "but")
        if in_list and words.dep[token - 1] not in ("amod", "conj"):
            return find_bare_start(words, token + 1, head)
    while start < head and words.lower[start] in (",", "and", "or", "but", *HYPHEN_MARKS):
        start += 1
    return start


def stands_for_noun(words: Words, token: int) -> bool:
    """Test whether a token heads a phrase without a noun: "the third", "one of them", "both"."""
    word, after = words.lower[token], token + 1
    if word in PRONOUNS or goes_on_after(words, token):
        return False
    before = words.lower[token - 1] if words.same_sentence(token, token - 1) else ""
    if word in ("one", "ones") and words.dep[token] != "nummod":
        return True
    if in_class("container", word) and words.same_sentence(token, after):
        return words.lower[after] == "of" or (word == "both" and words.tag[token] != "CC")
    if in_class("distinguishing", word) or words.tag[token] in ("JJR", "JJS"):
        return before in ("the", "this", "that") and words.pos[token] != "ADV"
    return word in ("another", "others") and words.dep[token] != "det"


def goes_on_after(words: Words, token: int) -> bool:
    """Test whether a noun or an adjective follows, so that a token is only a modifier."""
    after = token + 1
    if not words.same_sentence(token, after) or in_class("stance", words.lower[after]):
        return False
    is_adjective = words.pos[after] in ("ADJ", "NUM") or words.lower[after] in HYPHEN_MARKS
    return is_adjective or is_noun(words, after)


def find_elliptical_start(words: Words, head: int) -> int:
    """Return the start of "the smaller one" or "the third"."""
    start = head
    while words.same_sentence(start - 1, head) and head - start < 4:
        if words.pos[start - 1] != "ADJ" and not is_determiner(words, start - 1):
            break
        start -= 1
        if words.lower[start] in DETERMINERS:
            break
    return start


Form = Literal["pronoun", "definite", "indefinite", "bare", "name", "group"]
Role = Literal["subject", "object", "oblique", "possessor"]

MAX_LISTED_CONJUNCTS = 20  # between a mention and the one whose role it shares
DEFINITE_WORDS = frozenset("the this that these those both".split())


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a phrase with the prepositional phrases that belong to it."""

    end: int  # last token, inclusive
    noun: int | None = None  # object of the first preposition: "table" in "edge of the table"


def find_phrase_tails(words: Words, chunks: list[Chunk]) -> list[Tail]:
    """Return the tail of each phrase, which may include the tail of a later phrase."""
    starts = {chunk.start: index for index, chunk in enumerate(chunks)}
    tails = [Tail(chunk.head) for chunk in chunks]
    # From right to left, so that a tail can take over the end of the phrase inside it: "the edge of
    # the table in the room".
    for index in range(len(chunks) - 1, -1, -1):
        chunk = chunks[index]
        preposition, after = chunk.head + 1, chunk.head + 2
        if not words.same_sentence(chunk.head, after):
            continue
        if not belongs_to_phrase(words, chunk, preposition):
            continue
        target, number = starts.get(after, -1), find_age_end(words, preposition)
        if has_side_at(words, after):
            tails[index] = Tail(after + 1, after + 1)
        elif target > index:
            tails[index] = Tail(tails[target].end, chunks[target].head)
        elif words.lower[after] in PRONOUNS:
            tails[index] = Tail(after, after)
        elif number is not None:
            tails[index] = Tail(number, number)
    return tails


def belongs_to_phrase(words: Words, chunk: Chunk, preposition: int) -> bool:
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
    return word in ("to", "on", "at") and has_side_at(words, preposition + 1) and (opens or inside)


def find_age_end(words: Words, preposition: int) -> int | None:
    """Return the end of the age in "a man of about fifty"."""
    for token in (preposition + 1, preposition + 2):
        if words.same_sentence(preposition, token) and words.pos[token] == "NUM":
            return token
    return None


def has_side_at(words: Words, token: int) -> bool:
    """Test whether a side such as "our left" or "the right" begins here."""
    if not words.same_sentence(token, token + 1):
        return False
    return words.lower[token] in ("our", "the") and words.lower[token + 1] in SIDE_WORDS


def find_modifiers(words: Words, chunk: Chunk) -> frozenset[str]:
    """Return the modifiers of a noun, {"small", "black"}, and a quoted word after it."""
    head = chunk.head
    first = chunk.start if chunk.possessor is None else chunk.possessor + 1
    inside = (i for i in range(first, head) if words.pos[i] not in ("PUNCT", "CCONJ", "PART"))
    texts = {words.lower[i] for i in inside}
    comparing = words.tag[head] in ("JJR", "JJS")
    if chunk.elliptical and (comparing or in_class("distinguishing", words.lower[head])):
        texts.add(words.lower[head])
    if words.same_sentence(head, head + 2) and words.tag[head + 1] == "``":
        texts.add(words.lower[head + 2])
    return frozenset(texts) - DETERMINERS - load_classes()["generic"]


def find_count_word(words: Words, chunk: Chunk) -> str:
    """Return the number word: "two" for "two dogs" and "both dogs"; else empty."""
    if words.lower[chunk.start] == "both":
        return "two"
    for word in words.lower[chunk.start : chunk.head]:
        if in_class("numbers", word):
            return word
    return ""


def find_phrase_gender(words: Words, chunk: Chunk, noun: str) -> Gender | None:
    """Return the gender of the noun; of a name, that of any of its words: "the Virgin Mary"."""
    if chunk.elliptical:
        return None
    gender = find_gender(noun)
    if words.pos[chunk.head] != "PROPN":
        return gender
    name_gender = find_name_gender(words.lower[chunk.start : chunk.head + 1])
    if name_gender == ANY_GENDER and gender:
        return gender
    return name_gender


def classify_form(words: Words, chunk: Chunk) -> Form:
    """Return the form; only definite phrases and names may resume a referent."""
    first = words.lower[chunk.start]
    singular = words.tag[chunk.head] == "NN" and words.text[chunk.head][:1].isupper()
    if not chunk.elliptical and (words.pos[chunk.head] == "PROPN" or singular):
        return "name"
    if chunk.possessor is not None or first in DEFINITE_WORDS:
        return "definite"
    if first in DETERMINERS or chunk.elliptical:
        return "indefinite"
    return "bare"


def classify_number(words: Words, chunk: Chunk) -> Number:
    """Return singular, plural, or either (for a pair)."""
    head, first = words.lower[chunk.head], words.lower[chunk.start]
    if in_class("pair", words.lemma[chunk.head]):
        return EITHER_NUMBER
    if any(in_class("numbers", words.lower[i]) for i in range(chunk.start, chunk.head + 1)):
        return PLURAL
    if first in ("a", "an", "this", "that", "another", "every", "each", "one") or head == "one":
        return SINGULAR
    if chunk.elliptical:
        return PLURAL if head in ("most", "some", "many", "few", "others", "ones") else SINGULAR
    plural = words.tag[chunk.head] in ("NNS", "NNPS") or first in ("these", "those")
    if not words.tag[chunk.head]:
        plural = head != words.lemma[chunk.head] and head.endswith(("s", "men", "ren", "ople"))
    return PLURAL if plural else SINGULAR


def classify_role(words: Words, head: int) -> Role:
    """Return the grammatical role, which decides how prominent a mention is."""
    for _ in range(MAX_LISTED_CONJUNCTS):
        if words.dep[head] != "conj" or words.head[head] > head:
            break
        head = words.head[head]
    dep, pronouns = words.dep[head], ("its", "their", "our", "my", "your")
    if dep == "poss" or words.tag[head] == "PRP$" or words.lower[head] in pronouns:
        return "possessor"
    if dep in ("nsubj", "nsubjpass", "csubj", "ROOT", "expl"):
        return "subject"
    if dep == "attr":
        other = words.find_child(words.head[head], "expl", "nsubj")
        return "subject" if other is None or words.dep[other] == "expl" else "object"
    if dep in ("dobj", "obj", "dative", "oprd"):
        return "object"
    return "oblique"


def classify_chunk_role(words: Words, chunk: Chunk) -> Role:
    """Return the role of its noun; never subject after a preposition, whatever the parse says."""
    role, before = classify_role(words, chunk.head), chunk.start - 1
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
    tails = find_phrase_tails(words, chunks)
    mentions = []
    for chunk, tail in zip(chunks, tails, strict=True):
        if may_refer(words, chunk):
            mentions.append(build_nominal_mention(words, chunk, tail))
    for token, word in enumerate(words.lower):
        if word in PRONOUNS:
            mentions.append(build_pronoun_mention(words, token))
    mentions = mark_inner(mentions)
    ends = [tail.end for tail in tails]
    for run in find_coordinations(words, chunks, ends):
        members = [chunks[i] for i in run]
        mentions.append(build_group_mention(words, members, ends[run[-1]]))
    return sorted(mentions, key=reading_order)


def reading_order(mention: Mention) -> tuple[int, int]:
    """Sort key: by noun, but a group after its members, and "one of them" after "them"."""
    partitive = mention.elliptical and mention.end > mention.head
    return (mention.end if partitive else mention.head, mention.form == "group" or partitive)


def may_refer(words: Words, chunk: Chunk) -> bool:
    """Test whether a phrase may be mentioned again: not sides, times, "no ..." or "sky blue"."""
    head, after = words.lower[chunk.head], chunk.head + 1
    bare = chunk.start == chunk.head and words.same_sentence(chunk.head, after)
    shade = bare and in_class("colour", words.lower[after])
    if shade or words.lower[chunk.start] in ("no", "any"):
        return False
    return chunk.elliptical or (head not in SIDE_WORDS and not in_class("temporal", head))


def build_pronoun_mention(words: Words, token: int) -> Mention:
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
        role=classify_role(words, token),
    )


def build_nominal_mention(words: Words, chunk: Chunk, tail: Tail) -> Mention:
    """Return the mention of a base noun phrase with the phrases that belong to it."""
    head = chunk.head
    noun = words.lemma[head] if words.pos[head] in ("NOUN", "PROPN") else words.lower[head]
    nameless = chunk.elliptical or words.lower[chunk.start] in ("each", "every")
    other = "" if tail.noun is None else words.lemma[tail.noun]
    of = tail.noun is not None and words.lower[head + 1] == "of"
    count = find_count_word(words, chunk)
    # "A man in a smock" is told from other men by "+smock"; "of" has a field of its own.
    having = frozenset((f"+{other}",)) if other and not of else frozenset()
    return Mention(
        start=chunk.start,
        end=tail.end,
        head=head,
        sentence=words.sentence[head],
        form=classify_form(words, chunk),
        lemma="" if nameless else noun,
        number=classify_number(words, chunk),
        gender=find_phrase_gender(words, chunk, noun),
        role=classify_chunk_role(words, chunk),
        modifiers=(find_modifiers(words, chunk) - {count}) | having,
        of=other if of else "",
        count=count,
        possessor=chunk.possessor,
        elliptical=chunk.elliptical,
        inner=chunk.start > 0 and words.lower[chunk.start - 1] == "of",
    )


def build_group_mention(words: Words, members: list[Chunk], end: int) -> Mention:
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
        gender=find_gender(words.lemma[first.head]) or THING_GENDER,
        role=classify_role(words, first.head),
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


def find_coordinations(words: Words, chunks: list[Chunk], ends: list[int]) -> list[list[int]]:
    """Return the indices of each coordination's phrases; ``ends`` are the phrases' last tokens."""
    groups, run = [], [0] if chunks else []  # a run: phrases with only ", and" between
    for index in range(1, len(chunks) + 1):
        if index < len(chunks) and continues_coordination(words, chunks, ends, run, index):
            run.append(index)
            continue
        if len(run) > 1 and "and" in words.lower[ends[run[0]] : chunks[run[-1]].start]:
            groups.append(run)
        run = [index]
    return groups


def continues_coordination(
    words: Words, chunks: list[Chunk], ends: list[int], run: list[int], index: int
) -> bool:
    """Test whether a phrase continues a coordination: only ", and" between, and parsed as such."""
    chunk = chunks[index]
    between = words.lower[ends[run[-1]] + 1 : chunk.start]
    parent, last = words.head[chunk.head], chunks[run[-1]].head
    inside = any(chunks[i].start <= parent <= chunks[i].head for i in (run[0], run[-1]))
    conjunct = words.dep[chunk.head] == "conj" and inside
    twins = words.dep[chunk.head] == words.dep[last] and parent == words.head[last]
    linked = conjunct or twins
    return linked and 0 < len(between) <= 2 and set(between) <= {",", "and"}
