"""Where one description contradicts another for certain: verdicts on whole sentences.

A sentence is contradicted if one of its claims is, about things that are surely those of the other
text: by another colour, count or material, an antonym, a denial. None is supported: each element
has its own grade.
"""

from __future__ import annotations

from collections.abc import Iterator

from posh_reward.embedded.judge.features import PairFeatures, contradicts_for_certain
from posh_reward.embedded.judge.same_sentences import says_the_same
from posh_reward.types import Description, Kind, Question, Span, Verdict

CONTRADICTED = Verdict((1.0, 0.0, 0.0))
UNMENTIONED = Verdict((0.0, 1.0, 0.0))


def find_contradictions(
    features: PairFeatures, source: Description, target: Description
) -> Iterator[int]:
    """Yield where in ``source`` the claims stand that ``target`` contradicts."""
    ours, theirs = features.alignment.source.statements, features.alignment.target.statements
    for question, spans in list_claims(source, target):
        if says_the_same(ours, theirs, question):
            continue
        if contradicts_for_certain(features, question):
            for start, _ in spans:
                yield start


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
