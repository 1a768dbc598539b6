"""Base noun phrases of a text, by tags and word lists more than by syntax.

Small parsers mistake verbs for plural nouns ("a ewe sniffs at") far more often than they miss
a determiner or an adjective, so phrases are read leftwards from the noun, by tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from posh_reward.graph.coref import lexicon
from posh_reward.graph.rules.components import NOMINAL, read_syntax

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True, slots=True)
class Words:
    """The tokens of one text; every tuple has one item per token."""

    lower: tuple[str, ...]
    lemma: tuple[str, ...]  # lower-cased; the word itself where a parse has no lemma
    pos: tuple[str, ...]
    tag: tuple[str, ...]
    dep: tuple[str, ...]
    head: tuple[int, ...]
    sentence: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    capital: tuple[bool, ...]  # starts with a capital letter

    def __len__(self) -> int:
        return len(self.lower)

    def same_sentence(self, first: int, second: int) -> bool:
        """Test whether both tokens are in one sentence; False for an index outside the text."""
        inside = 0 <= first < len(self) and 0 <= second < len(self)
        return inside and self.sentence[first] == self.sentence[second]

    def child(self, token: int, *deps: str) -> int | None:
        """Return the first child of a token with one of some dependency labels, if any."""
        return next((c for c in self.children[token] if self.dep[c] in deps), None)


def read_words(doc: Doc) -> Words:
    """Copy what the rules need from a Doc; missing annotations are empty strings."""
    syntax = read_syntax(doc)
    lower = tuple(text.lower() for text in syntax.text)
    return Words(
        lower=lower,
        lemma=tuple(map(comparable_lemma, lower, syntax.lemma, syntax.pos)),
        pos=syntax.pos,
        tag=syntax.tag,
        dep=syntax.dep,
        head=syntax.head,
        sentence=syntax.sentence if any(syntax.sentence) else sentences_by_stops(lower),
        children=syntax.children,
        capital=tuple(text[:1].isupper() for text in syntax.text),
    )


def comparable_lemma(word: str, lemma: str, pos: str) -> str:
    """Return the lemma in lower case. Lemmatizers keep "people", the plural of "person"."""
    return "person" if word == "people" and pos in NOMINAL else lemma.lower() or word


def sentences_by_stops(lower: tuple[str, ...]) -> tuple[int, ...]:
    """Number the sentence of each token of a parse without boundaries, by full stops."""
    stops = [word in (".", "!", "?") for word in lower]
    return tuple(accumulate(stops[:-1], initial=0)) if stops else ()


DETERMINERS = frozenset("the a an this that these those some any no every each another".split())
SIDES = frozenset(("left", "right"))
HYPHENS = frozenset(("-", "\u2010", "\u2011", "\u2013"))
PARTICIPLES = frozenset(("VBN", "VBG", "VBD"))
LONGEST = 14  # most tokens before the noun of a phrase; longer phrases are parse errors
REPAIRED = 5  # tokens before an odd one that are searched for a determiner


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
        if nouns and verb_after(words, token - 1, token):
            continue
        if ends_noun_run(words, token):
            floor = chunks[-1].head + 1 if chunks else 0
            chunks.append(chunk_at(words, token, floor, chunks[-1] if chunks else None))
        elif stands_for_noun(words, token):
            chunks.append(Chunk(elliptical_start(words, token), token, None, True))
    return chunks


def is_noun(words: Words, token: int) -> bool:
    """Test whether a token is a noun, or should have been tagged as one."""
    if not 0 <= token < len(words):
        return False
    word = words.lower[token]
    if word in ("one", "ones") or word in lexicon.PRONOUNS or lexicon.has("distinguishing", word):
        return False
    if words.pos[token] not in NOMINAL:
        return noun_by_context(words, token)
    is_modifying_side = word in SIDES and words.dep[token] in ("amod", "compound")
    return not words.tag[token].startswith("VB") and not is_modifying_side


def noun_by_context(words: Words, token: int) -> bool:
    """Test for a mistagged noun: "a brown donkey/ADJ", "a lantern/ADJ burns", "that book/VERB"."""
    after_determiner = token > 0 and is_determiner(words, token - 1)
    if words.tag[token] in ("VB", "VBP"):
        return after_determiner
    if words.pos[token] != "ADJ":
        return False
    if words.dep[token] != "amod":
        return lexicon.gender_of(words.lower[token]) not in (None, lexicon.THING)
    followed = words.same_sentence(token, token + 1)
    return after_determiner and followed and lexicon.has("stance", words.lower[token + 1])


def ends_noun_run(words: Words, token: int) -> bool:
    """Test whether a token is the last noun of a phrase: "square" in "a market square"."""
    if not is_noun(words, token):
        return False
    after = token + 1
    if not words.same_sentence(token, after):
        return True
    if words.lower[after] in HYPHENS and words.same_sentence(after, after + 1):
        return False
    if not is_noun(words, after):
        return words.dep[token] != "amod"
    return verb_after(words, token, after)


def verb_after(words: Words, noun: int, after: int) -> bool:
    """Test whether a "plural" right after a noun is really its verb.

    It is after "a" ("a ewe sniffs"), after a plural, and if descriptions often use that verb ("the
    angel kneels").
    """
    if words.tag[noun] == "NNS" or lexicon.has("stance", words.lower[after]):
        return words.same_sentence(noun, after)
    if words.tag[after] not in ("NNS", "NNPS"):
        return False
    for token in range(noun - 1, max(noun - LONGEST, -1), -1):
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
    return words.tag[token] in ("PRP$", "WP$") or (
        words.dep[token] == "poss" and words.lower[token] in lexicon.PRONOUNS
    )


def chunk_at(words: Words, head: int, floor: int, previous: Chunk | None) -> Chunk:
    """Return the phrase that ends in the noun ``head`` and starts no earlier than ``floor``."""
    # Leftwards from the noun to a determiner or a possessive, which always begins the phrase. A
    # token that cannot be inside a phrase ends it, unless a determiner a few tokens further left
    # shows that the tagger erred.
    start = head
    for token in range(head - 1, max(floor, head - LONGEST) - 1, -1):
        # The "left" of "our left" does not modify a later noun.
        our_side = words.lower[token] in SIDES and token > 0 and words.lower[token - 1] == "our"
        if our_side or not words.same_sentence(token, head):
            break
        if is_possessive(words, token):
            return Chunk(token, head, token)
        if is_determiner(words, token):
            return Chunk(token, head, None)
        if words.tag[token] == "POS" and previous is not None and previous.head == token - 1:
            return Chunk(previous.start, head, previous.head)
        if not modifies(words, token):
            determiner = determiner_before(words, token, max(floor, token - REPAIRED))
            return Chunk(trim(words, start, head) if determiner is None else determiner, head, None)
        start = token
    return Chunk(trim(words, start, head), head, None)


def determiner_before(words: Words, token: int, floor: int) -> int | None:
    """Return the determiner before mistagged modifiers: "a" of "a frozen, greenish pond"."""
    for i in range(token, floor - 1, -1):
        if is_determiner(words, i):
            return i if words.same_sentence(i, token) else None
        in_list = words.lower[i] in (",", "and", *HYPHENS) and words.pos[i - 1] != "NOUN"
        if not in_list and words.pos[i] not in ("ADJ", "ADV") and words.tag[i] not in PARTICIPLES:
            return None
    return None


def modifies(words: Words, token: int) -> bool:
    """Test whether a token can be between a determiner and its noun."""
    pos, word, after = words.pos[token], words.lower[token], token + 1
    if pos in ("NOUN", "PROPN") or word in HYPHENS or adjectival(words, token):
        return True
    if words.tag[token] in PARTICIPLES:
        return words.dep[token] == "compound" or words.lower[token - 1] in DETERMINERS
    if pos == "ADV" and words.pos[after] in ("ADJ", "VERB", "NUM", "ADV"):
        return True
    if word in (",", "and", "or", "but"):
        before = token > 0 and adjectival(words, token - 1)
        return before and (adjectival(words, after) or words.pos[after] in ("VERB", "ADV"))
    return words.lower[token - 1] in HYPHENS or words.lower[after] in HYPHENS


def adjectival(words: Words, token: int) -> bool:
    """Test for an adjective, a number or a participle, by any of the annotations."""
    return (
        words.pos[token] in ("ADJ", "NUM")
        or words.tag[token].startswith("JJ")
        or lexicon.has("numbers", words.lower[token])
        or (words.tag[token] in PARTICIPLES and words.dep[token] == "amod")
    )


def trim(words: Words, start: int, head: int) -> int:
    """Return the start of a phrase without a determiner, past commas and what they separate."""
    for token in range(start, head):
        in_list = words.lower[token] in (",", "and", "or", "but")
        if in_list and words.dep[token - 1] not in ("amod", "conj"):
            return trim(words, token + 1, head)
    while start < head and words.lower[start] in (",", "and", "or", "but", *HYPHENS):
        start += 1
    return start


def stands_for_noun(words: Words, token: int) -> bool:
    """Test whether a token heads a phrase without a noun: "the third", "one of them", "both"."""
    word, after = words.lower[token], token + 1
    if word in lexicon.PRONOUNS or phrase_goes_on(words, token):
        return False
    before = words.lower[token - 1] if words.same_sentence(token, token - 1) else ""
    if word in ("one", "ones") and words.dep[token] != "nummod":
        return True
    if lexicon.has("container", word) and words.same_sentence(token, after):
        return words.lower[after] == "of" or (word == "both" and words.tag[token] != "CC")
    if lexicon.has("distinguishing", word) or words.tag[token] in ("JJR", "JJS"):
        return before in ("the", "this", "that") and words.pos[token] != "ADV"
    return word in ("another", "others") and words.dep[token] != "det"


def phrase_goes_on(words: Words, token: int) -> bool:
    """Test whether a noun or an adjective follows, so that a token is only a modifier."""
    after = token + 1
    if not words.same_sentence(token, after) or lexicon.has("stance", words.lower[after]):
        return False
    is_adjective = words.pos[after] in ("ADJ", "NUM") or words.lower[after] in HYPHENS
    return is_adjective or is_noun(words, after)


def elliptical_start(words: Words, head: int) -> int:
    """Return the start of "the smaller one" or "the third"."""
    start = head
    while words.same_sentence(start - 1, head) and head - start < 4:
        if words.pos[start - 1] != "ADJ" and not is_determiner(words, start - 1):
            break
        start -= 1
        if words.lower[start] in DETERMINERS:
            break
    return start
