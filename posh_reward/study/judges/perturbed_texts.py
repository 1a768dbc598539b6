"""True texts -> texts with known mistakes and omissions.

A judge trained on true texts alone sees hardly any mistakes. So objects, attributes and relations
of a parsed text are swapped, left out, or added, and each edit is recorded. New words come from
other texts of the same set, so they fit its vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from posh_reward.lexicon.likeness import colours, likeness
from posh_reward.lexicon.meaning import coarse_pos, is_concrete, is_plural
from posh_reward.types import Description, Kind, Span, Token

Action = Literal["swapped", "left out", "added"]
PLACES = ("beside", "behind", "above", "under", "near", "against")
"""Prepositions that replace each other and introduce added objects."""
UNLIKE = 0.3
"""Word similarity below which a word may replace another: neither synonym nor hyponym."""
TRIES = 30  # attempts to find an edit, or a word
MOST = 3  # edits per text


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One mistake or omission."""

    kind: Kind
    action: Action
    before: str  # original words; empty for an addition
    after: str  # new words; empty for an omission


@dataclass(frozen=True, slots=True)
class PerturbedText:
    """A text that no longer matches the original description."""

    text: str
    edits: tuple[TextEdit, ...]  # in order of the original text


@dataclass(frozen=True, slots=True)
class _Change:
    """An edit in place: ``new`` replaces characters ``start`` to ``end``."""

    start: int
    end: int
    new: str
    edit: TextEdit


class DonorWords:
    """Nouns, adjectives and sentences of many texts, for insertion into others."""

    def __init__(self, descriptions: Sequence[Description]) -> None:
        tokens = [token for each in descriptions for token in each.tokens]
        nouns = dict.fromkeys(token.text.lower() for token in tokens if is_concrete_noun(token))
        self.nouns = {
            plural: [word for word in nouns if is_plural((word, "n")) is plural]
            for plural in (False, True)
        }
        words = [token.text.lower() for token in tokens if is_adjective(token)]
        self.adjectives = [word for word in dict.fromkeys(words) if word.isalpha()]
        self.sentences = list(
            dict.fromkeys(text for each in descriptions for text, _, _ in sentences(each))
        )


def perturb(
    description: Description, donors: DonorWords, rng: random.Random, edits: int | None = None
) -> PerturbedText | None:
    """Perturb a text with at most ``edits`` edits (default: random, 1 to ``MOST``).

    Returns None if nothing could be changed.
    """
    draft = EditDraft(description, donors, rng)
    changes: list[_Change] = []
    count = edits or rng.randint(1, MOST)
    for _ in range(TRIES):
        if len(changes) == count:
            break
        # First the kind of edit, then the word: a draw over all words would mostly hit nouns.
        change = rng.choice(EDITORS)(draft)
        if change is not None and not any(
            change.start <= other.end and other.start <= change.end for other in changes
        ):
            changes.append(change)
    changes.sort(key=lambda change: change.start)
    text = description.text
    for change in reversed(changes):  # backwards, so that earlier offsets stay valid
        text = text[: change.start] + change.new + text[change.end :]
    text = " ".join(text.split())
    if not changes or not text or text == description.text:
        return None
    return PerturbedText(text, tuple(change.edit for change in changes))


@dataclass(frozen=True, slots=True)
class EditDraft:
    """A text to edit, with donor words and a random generator."""

    description: Description
    donors: DonorWords
    rng: random.Random

    def pick(self, fits: Callable[[Token], bool]) -> int | None:
        """Draw the index of a token that fits; None if there is none."""
        places = [i for i, token in enumerate(self.description.tokens) if fits(token)]
        return self.rng.choice(places) if places else None

    def other_word(self, token: Token, words: Sequence[str]) -> str | None:
        """Draw a word with another meaning that the text lacks; a colour for a colour."""
        old, pos = token.text.lower(), coarse_pos(token.pos)
        if old in colours():
            words = [word for word in words if word in colours()]
        present = set(self.description.text.lower().split())
        for _ in range(TRIES if words else 0):
            word = self.rng.choice(words)
            if word not in present and likeness((old, pos), (word, pos)) < UNLIKE:
                return word
        return None

    def swap(self, kind: Kind, index: int, words: Sequence[str]) -> _Change | None:
        """Replace a token by one of ``words``; None if none is suitable."""
        token = self.description.tokens[index]
        word = self.other_word(token, words)
        if word is None:
            return None
        return self.replace(index, word, TextEdit(kind, "swapped", token.text, word))

    def replace(self, index: int, new: str, edit: TextEdit, *, drop: bool = False) -> _Change:
        """Replace a token, or drop it; adjust its article and capitalisation."""
        tokens = self.description.tokens
        start, end = tokens[index].span
        if drop and index + 1 < len(tokens):  # the next word moves up
            end = tokens[index + 1].span[1]
            new = tokens[index + 1].text
        before = tokens[index - 1] if index else None
        if before is not None and before.text.lower() in ("a", "an"):
            article = "an" if new[:1].lower() in "aeiou" else "a"
            article = article.capitalize() if before.text[0].isupper() else article
            start, new = before.span[0], f"{article} {new}"
        elif tokens[index].text[0].isupper():
            new = new[:1].upper() + new[1:]
        return _Change(start, end, new, edit)


def is_adjective(token: Token) -> bool:
    """Return True for an attributive adjective: a *red* coat."""
    return token.pos == "ADJ" and token.dep == "amod"


def sentences(description: Description) -> Iterator[tuple[str, int, int]]:
    """Yield the text, start and end of each sentence."""
    tokens = description.tokens
    for number in dict.fromkeys(token.sentence for token in tokens):
        inside = [token for token in tokens if token.sentence == number]
        start, end = inside[0].span[0], inside[-1].span[1]
        yield description.text[start:end], start, end


def is_concrete_noun(token: Token) -> bool:
    """Return True for a concrete noun: "coat", but not "middle"."""
    word = token.text.lower()
    return token.pos == "NOUN" and word.isalpha() and is_concrete((word, "n"))


def swap_object(draft: EditDraft) -> _Change | None:
    """Swap a noun: "holds a *lantern*" for "holds a cup"."""
    index = draft.pick(is_concrete_noun)
    if index is None:
        return None
    plural = is_plural((draft.description.tokens[index].text.lower(), "n"))
    return draft.swap("entity", index, draft.donors.nouns[plural])


def swap_attribute(draft: EditDraft) -> _Change | None:
    """Swap an adjective, a colour for a colour: "a *blue* coat" for "a red coat"."""
    index = draft.pick(is_adjective)
    if index is None:
        return None
    return draft.swap("attribute", index, draft.donors.adjectives)


def swap_relation(draft: EditDraft) -> _Change | None:
    """Swap a preposition ("a cup *under* the window") or the two ends of a relation."""
    index = draft.pick(lambda token: token.text.lower() in PLACES)
    if index is not None and draft.rng.random() < 0.5:
        old = draft.description.tokens[index].text
        new = draft.rng.choice([place for place in PLACES if place != old.lower()])
        return draft.replace(index, new, TextEdit("relation", "swapped", old, new))
    graph = draft.description.graph
    ends: list[list[Span]] = [
        sorted((graph.entities[r.subject].spans[0], graph.entities[r.object].spans[0]))
        for r in graph.relations
        if graph.entities[r.subject].sentences[0] == graph.entities[r.object].sentences[0]
    ]
    apart = [(a, b) for a, b in ends if a[1] < b[0]]
    if not apart:
        return None
    (a, b), (c, d) = draft.rng.choice(apart)
    first, between, second = (draft.description.text[x:y] for x, y in ((a, b), (b, c), (c, d)))
    if first == second or not (first.islower() and second.islower()):
        return None
    if (first[0] in "aeiou") != (second[0] in "aeiou"):  # "a" and "an" would be wrong
        return None
    edit = TextEdit("relation", "swapped", first + between + second, second + between + first)
    return _Change(a, d, edit.after, edit)


def leave_out_object(draft: EditDraft) -> _Change | None:
    places = list(sentences(draft.description))
    if len(places) < 2:
        return None
    text, start, end = draft.rng.choice(places)
    return _Change(start, end, "", TextEdit("entity", "left out", text, ""))


def leave_out_attribute(draft: EditDraft) -> _Change | None:
    """Leave out an adjective: "a coat" for "a red coat"."""
    index = draft.pick(is_adjective)
    if index is None:
        return None
    old = draft.description.tokens[index].text
    return draft.replace(index, "", TextEdit("attribute", "left out", old, ""), drop=True)


def leave_out_relation(draft: EditDraft) -> _Change | None:
    """Leave out a prepositional phrase: "holds a cup" for "holds a cup near the window"."""
    tokens = draft.description.tokens
    index = draft.pick(lambda token: token.dep == "prep" and token.text.islower())
    if index is None:
        return None
    inside = {index}
    for _ in tokens:  # all descendants of the preposition, one level per pass
        inside |= {i for i, token in enumerate(tokens) if token.head in inside}
    if sorted(inside) != list(range(min(inside), max(inside) + 1)) or len(inside) > 8:
        return None
    start = tokens[min(inside) - 1].span[1] if min(inside) else tokens[0].span[0]
    end = tokens[max(inside)].span[1]
    old = draft.description.text[start:end].strip()
    return _Change(start, end, "", TextEdit("relation", "left out", old, ""))


def add_object(draft: EditDraft) -> _Change | None:
    """Add a sentence from another text."""
    places = list(sentences(draft.description))
    own = {text for text, _, _ in places}
    text = draft.rng.choice(draft.donors.sentences)
    if text in own or not places:
        return None
    _, _, end = draft.rng.choice(places)
    return _Change(end, end, f" {text}", TextEdit("entity", "added", "", text))


def add_attribute(draft: EditDraft) -> _Change | None:
    """Add an adjective: "a *wooden* cup"."""
    tokens = draft.description.tokens
    heads = {token.head for token in tokens if token.dep in ("amod", "nummod", "compound")}
    places = [
        i
        for i, token in enumerate(tokens)
        if is_concrete_noun(token) and i and i not in heads and tokens[i - 1].pos == "DET"
    ]
    present = set(draft.description.text.lower().split())
    words = [word for word in draft.donors.adjectives if word not in present]
    if not places or not words:
        return None
    index, word = draft.rng.choice(places), draft.rng.choice(words)
    edit = TextEdit("attribute", "added", "", word)
    return draft.replace(index, f"{word} {tokens[index].text}", edit)


def add_relation(draft: EditDraft) -> _Change | None:
    """Add an object with a relation: "holds a cup *beside a tree*"."""
    places = [(text, end) for text, _, end in sentences(draft.description) if text.endswith(".")]
    present = set(draft.description.text.lower().split())
    words = [word for word in draft.donors.nouns[False] if word not in present]
    if not places or not words:
        return None
    (_, end), word = draft.rng.choice(places), draft.rng.choice(words)
    article = "an" if word[0] in "aeiou" else "a"
    phrase = f"{draft.rng.choice(PLACES)} {article} {word}"
    return _Change(end - 1, end - 1, f" {phrase}", TextEdit("relation", "added", "", phrase))


EDITORS: tuple[Callable[[EditDraft], _Change | None], ...] = (
    swap_object, swap_attribute, swap_relation,
    leave_out_object, leave_out_attribute, leave_out_relation,
    add_object, add_attribute, add_relation,
)  # fmt: skip
"""Three kinds times three actions, equally likely."""
