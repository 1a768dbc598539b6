"""Hand-built scene graphs for tests, in as few words as possible."""

from collections.abc import Sequence

from posh_reward.types import Attribute, Description, Entity, Relation, SceneGraph, Span


def attribute(text: str, sentence: int = 0, span: Span = (0, 1)) -> Attribute:
    return Attribute(text, (sentence,), (span,))


def entity(
    head: str, *attributes: Attribute, mentions: Sequence[str] = (), span: Span = (0, 1),
    us: bool = False, left: bool = False, right: bool = False,
) -> Entity:  # fmt: skip
    heads = tuple(mentions) or (head,)
    return Entity(head, heads, attributes, (0,) * len(heads), (span,) * len(heads), us, left, right)


def relation(subject: int, text: str, object: int, span: Span = (0, 1)) -> Relation:
    source = "poss" if text == "part of" else "verb"
    return Relation(subject, object, text, source, (0,), (span,))  # type: ignore[arg-type]


def graph(entities: Sequence[Entity], relations: Sequence[Relation] = ()) -> SceneGraph:
    return SceneGraph(tuple(entities), tuple(relations))


def description(
    text: str, entities: Sequence[Entity] = (), relations: Sequence[Relation] = ()
) -> Description:
    return Description(text, graph(entities, relations))
