"""What two texts say in the same words.

A text is its own best description. Features weigh evidence, and in one text, too, some speaks
against what it says: "no leaves" against its leaf, its cloth apron against its leather one. What a
sentence says needs no evidence if the other text has the very same sentence and it reads alike
there: the same words name, describe or relate entities that share a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from posh_reward.embedded.english.word_classes import spell, split_words
from posh_reward.types import Question, Span

if TYPE_CHECKING:
    from posh_reward.embedded.judge.index import ClaimKey, DescriptionIndex

Names = frozenset[str]


class Statement(NamedTuple):
    """The words of a sentence that name an entity, describe one, or relate two."""

    sentence: tuple[str, ...]  # without marks
    places: tuple[int, ...]  # of its words
    text: str  # of the attribute or relation; empty for an entity


class SentenceIndex:
    """The statements of one description, by element, and the names of what each is about."""

    def __init__(self, index: DescriptionIndex) -> None:
        self._index = index
        self._words: dict[int, list[str]] = defaultdict(list)
        self._places: dict[int, int] = {}  # of tokens, in their sentences
        for i, token in enumerate(index.tokens):
            if word := spell(token.text):
                self._places[i] = len(self._words[token.sentence])
                self._words[token.sentence].append(word)
        self.sentences = {number: tuple(words) for number, words in self._words.items()}
        """Words of each sentence, without marks."""
        self.names: list[Names] = [frozenset(word for word, _ in head) for head in index.heads]
        self.statements: dict[ClaimKey, set[Statement]] = defaultdict(set)
        self.ends: dict[Statement, set[tuple[Names, ...]]] = defaultdict(set)
        for key, spans in list_claims(index):
            entity, text, other = key
            ends = (self.names[entity],) if other is None else (
                self.names[entity], self.names[other],
            )  # fmt: skip
            for statement in self._read_statements(text, spans):
                self.statements[key].add(statement)
                self.ends[statement].add(ends)

    def _read_statements(self, text: str, spans: Sequence[Span]) -> Iterator[Statement]:
        by_sentence: dict[int, list[int]] = defaultdict(list)
        for token in self._index.tokens_in(tuple(spans)):
            if token in self._places:
                by_sentence[self._index.tokens[token].sentence].append(self._places[token])
        for sentence, places in by_sentence.items():
            yield Statement(self.sentences[sentence], tuple(places), text)


def list_claims(index: DescriptionIndex) -> Iterator[tuple[ClaimKey, Sequence[Span]]]:
    """Yield each mention of an entity, each attribute and each relation, with its evidence."""
    for number, entity in enumerate(index.graph.entities):
        for span in entity.spans:
            yield (number, "", None), [span]
        for attribute in entity.attributes:
            yield (number, _fold(attribute.text), None), attribute.spans
    for relation in index.graph.relations:
        yield (relation.subject, _fold(relation.text), relation.object), relation.spans


def says_the_same(source: SentenceIndex, target: SentenceIndex, question: Question) -> bool:
    """Return True if the target has a sentence that states the element, read alike."""
    key = question.entity, _fold(question.text or ""), question.other_entity
    ends = [source.names[question.entity]]
    if question.other_entity is not None:
        ends.append(source.names[question.other_entity])
    elif question.text is None:  # of an entity's names the one in the question counts
        ends[0] = ends[0].intersection(split_words(question.identifier)) or ends[0]
    for statement in source.statements.get(key, ()):
        for theirs in target.ends.get(statement, ()):
            if all(map(_share_name, ends, theirs)):
                return True
    return False


def _fold(text: str) -> str:
    return text.strip().lower()


def _share_name(a: Names, b: Names) -> bool:
    return not a.isdisjoint(b) or not (a or b)
