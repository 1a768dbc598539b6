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
    """One mistake or omission: ``after`` replaces ``before``, which begins at ``start``."""

    kind: Kind
    action: Action
    start: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PerturbedText:
    """A text that no longer matches the original description."""

    text: str
    edits: tuple[TextEdit, ...]  # in order of the original text


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
        texts = (each.text[slice(*span)] for each in descriptions for span in sentences(each))
        self.sentences = list(dict.fromkeys(texts))


def perturb(
    description: Description, donors: DonorWords, rng: random.Random, edits: int | None = None
) -> PerturbedText | None:
    """Perturb a text with at most ``edits`` edits (default: random, 1 to ``MOST``).

    Returns None if nothing could be changed.
    """
    draft = EditDraft(description, donors, rng)
    made: list[TextEdit] = []
    count = edits or rng.randint(1, MOST)
    for _ in range(TRIES):
        if len(made) == count:
            break
        # First the kind of edit, then the word: a draw over all words would mostly hit nouns.
        edit = rng.choice(EDITORS)(draft)
        if edit is not None and not any(
            edit.start <= other.start + len(other.before)
            and other.start <= edit.start + len(edit.before)
            for other in made
        ):
            made.append(edit)
    made.sort(key=lambda edit: edit.start)
    text = description.text
    for edit in reversed(made):  # backwards, so that earlier offsets stay valid
        text = text[: edit.start] + edit.after + text[edit.start + len(edit.before) :]
    text = " ".join(text.split())
    return PerturbedText(text, tuple(made)) if made and text not in ("", description.text) else None


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

    def absent(self, words: Sequence[str]) -> list[str]:
        """Words that the text lacks."""
        present = set(self.description.text.lower().split())
        return [word for word in words if word not in present]

    def swap(self, kind: Kind, index: int, words: Sequence[str]) -> TextEdit | None:
        """Replace a token by a word with another meaning, a colour by a colour."""
        token = self.description.tokens[index]
        old, pos = token.text.lower(), coarse_pos(token.pos)
        if old in colours():
            words = [word for word in words if word in colours()]
        words = self.absent(words)
        for _ in range(TRIES if words else 0):
            word = self.rng.choice(words)
            if likeness((old, pos), (word, pos)) < UNLIKE:
                return self.replace(kind, "swapped", index, word)
        return None

    def edit(self, kind: Kind, action: Action, start: int, end: int, new: str) -> TextEdit:
        return TextEdit(kind, action, start, self.description.text[start:end], new)

    def replace(self, kind: Kind, action: Action, index: int, new: str) -> TextEdit:
        """Replace a token, or drop it for no new word; adjust its article and capitalisation."""
        tokens = self.description.tokens
        start, end = tokens[index].span
        if not new and index + 1 < len(tokens):  # the next word moves up
            end = tokens[index + 1].span[1]
            new = tokens[index + 1].text
        before = tokens[index - 1] if index else None
        if before is not None and before.text.lower() in ("a", "an"):
            article = "an" if new[:1].lower() in "aeiou" else "a"
            article = article.capitalize() if before.text[0].isupper() else article
            start, new = before.span[0], f"{article} {new}"
        elif tokens[index].text[0].isupper():
            new = new[:1].upper() + new[1:]
        return self.edit(kind, action, start, end, new)


def is_adjective(token: Token) -> bool:
    """Return True for an attributive adjective: a *red* coat."""
    return token.pos == "ADJ" and token.dep == "amod"


def is_concrete_noun(token: Token) -> bool:
    """Return True for a concrete noun: "coat", but not "middle"."""
    word = token.text.lower()
    return token.pos == "NOUN" and word.isalpha() and is_concrete((word, "n"))


def sentences(description: Description) -> Iterator[Span]:
    tokens = description.tokens
    for number in dict.fromkeys(token.sentence for token in tokens):
        inside = [token.span for token in tokens if token.sentence == number]
        yield inside[0][0], inside[-1][1]


def swap_object(draft: EditDraft) -> TextEdit | None:
    """Swap a noun: "holds a *lantern*" for "holds a cup"."""
    index = draft.pick(is_concrete_noun)
    if index is None:
        return None
    plural = is_plural((draft.description.tokens[index].text.lower(), "n"))
    return draft.swap("entity", index, draft.donors.nouns[plural])


def swap_attribute(draft: EditDraft) -> TextEdit | None:
    """Swap an adjective, a colour for a colour: "a *blue* coat" for "a red coat"."""
    index = draft.pick(is_adjective)
    return None if index is None else draft.swap("attribute", index, draft.donors.adjectives)


def swap_relation(draft: EditDraft) -> TextEdit | None:
    """Swap a preposition ("a cup *under* the window") or the two ends of a relation."""
    index = draft.pick(lambda token: token.text.lower() in PLACES)
    if index is not None and draft.rng.random() < 0.5:
        old = draft.description.tokens[index].text
        new = draft.rng.choice([place for place in PLACES if place != old.lower()])
        return draft.replace("relation", "swapped", index, new)
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
    return draft.edit("relation", "swapped", a, d, second + between + first)


def leave_out_object(draft: EditDraft) -> TextEdit | None:
    places = list(sentences(draft.description))
    return draft.edit("entity", "left out", *draft.rng.choice(places), "") if places[1:] else None


def leave_out_attribute(draft: EditDraft) -> TextEdit | None:
    """Leave out an adjective: "a coat" for "a red coat"."""
    index = draft.pick(is_adjective)
    return None if index is None else draft.replace("attribute", "left out", index, "")


def leave_out_relation(draft: EditDraft) -> TextEdit | None:
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
    return draft.edit("relation", "left out", start, tokens[max(inside)].span[1], "")


def add_object(draft: EditDraft) -> TextEdit | None:
    places = list(sentences(draft.description))
    text = draft.rng.choice(draft.donors.sentences)
    if text in draft.description.text or not places:
        return None
    _, end = draft.rng.choice(places)
    return draft.edit("entity", "added", end, end, f" {text}")


def add_attribute(draft: EditDraft) -> TextEdit | None:
    """Add an adjective: "a *wooden* cup"."""
    tokens = draft.description.tokens
    heads = {token.head for token in tokens if token.dep in ("amod", "nummod", "compound")}
    places = [
        i
        for i, token in enumerate(tokens)
        if is_concrete_noun(token) and i and i not in heads and tokens[i - 1].pos == "DET"
    ]
    words = draft.absent(draft.donors.adjectives)
    if not places or not words:
        return None
    index, word = draft.rng.choice(places), draft.rng.choice(words)
    return draft.replace("attribute", "added", index, f"{word} {tokens[index].text}")


def add_relation(draft: EditDraft) -> TextEdit | None:
    """Add an object with a relation: "holds a cup *beside a tree*"."""
    text = draft.description.text
    places = [end - 1 for _, end in sentences(draft.description) if text[end - 1] == "."]
    words = draft.absent(draft.donors.nouns[False])
    if not places or not words:
        return None
    end, word = draft.rng.choice(places), draft.rng.choice(words)
    article = "an" if word[0] in "aeiou" else "a"
    return draft.edit(
        "relation", "added", end, end, f" {draft.rng.choice(PLACES)} {article} {word}"
    )


EDITORS: tuple[Callable[[EditDraft], TextEdit | None], ...] = (
    swap_object, swap_attribute, swap_relation,
    leave_out_object, leave_out_attribute, leave_out_relation,
    add_object, add_attribute, add_relation,
)  # fmt: skip
"""Three kinds times three actions, equally likely."""
