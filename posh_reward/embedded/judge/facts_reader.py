"""A sentence reader without a model: the embedded judge's facts that contradict for certain."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from posh_reward.embedded.judge.features import contradicts_for_certain
from posh_reward.embedded.judge.same_sentences import says_the_same
from posh_reward.types import Description, Kind, Question, Sentence, Span, Usage, Verdict

if TYPE_CHECKING:
    from posh_reward.embedded.judge.embedded_judge import EmbeddedJudge

CONTRADICTED = Verdict((1.0, 0.0, 0.0))
UNMENTIONED = Verdict((0.0, 1.0, 0.0))


class FactsReader:
    """Reads sentences by an ``EmbeddedJudge``; shares its indexes of descriptions.

    A sentence is contradicted if one of its claims is, about things that are surely those of the
    other text: another colour or count, an opposite verb, a place that excludes it, a denial. It
    supports none: each element has the judge's own grade.
    """

    name = "facts-2"

    def __init__(self, judge: EmbeddedJudge) -> None:
        self.judge = judge
        self.usage = Usage()

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        """One verdict per sentence, in order; it never abstains."""
        start = time.perf_counter()
        verdicts: list[Verdict] = []
        for (source, target), group in groupby(sentences, key=lambda each: each[:2]):
            places = list(self._find_contradictions(source, target))
            for sentence in group:
                first, last = sentence.span
                found = any(first <= place < last for place in places)
                verdicts.append(CONTRADICTED if found else UNMENTIONED)
        self.usage.requests += len(sentences)
        self.usage.seconds += time.perf_counter() - start
        return verdicts

    def _find_contradictions(self, source: Description, target: Description) -> Iterator[int]:
        """Yield where the claims stand that the target contradicts."""
        features = self.judge.compare(source, target)
        ours, theirs = features.alignment.source.statements, features.alignment.target.statements
        for question, spans in list_claims(source, target):
            if says_the_same(ours, theirs, question):
                continue
            if contradicts_for_certain(features, question):
                for start, _ in spans:
                    yield start

    def sleep(self) -> None:
        """Nothing to free: the judge has the indexes."""

    def wake(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Nothing to release."""


def list_claims(
    source: Description, target: Description
) -> Iterator[tuple[Question, tuple[Span, ...]]]:
    """Yield a question for each element of the source but the viewer's, and where it stands."""
    graph = source.graph

    def ask(kind: Kind, entity: int, text: str | None = None, other: int | None = None) -> Question:
        name = graph.entities[entity].head
        return Question(
            "precision", kind, name, source, target, entity, text,
            None if other is None else graph.entities[other].head, other,
        )  # fmt: skip

    for index, entity in enumerate(graph.entities):
        if entity.flagged:
            continue
        yield ask("entity", index), entity.spans
        for attribute in entity.attributes:
            yield ask("attribute", index, attribute.text), attribute.spans
    for relation in graph.relations:
        first, second = relation.subject, relation.object
        if not (graph.entities[first].flagged or graph.entities[second].flagged):
            yield ask("relation", first, relation.text, second), relation.spans
