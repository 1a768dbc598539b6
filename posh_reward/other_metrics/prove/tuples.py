"""Texts -> tuples, from our scene graphs or a model -> scene graphs (paper, section 3.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, StrictStr, TypeAdapter, ValidationError

from posh_reward.graph.reader import GRAPH_VERSION, Reader, stripped_text
from posh_reward.metrics.wording import fill, wording
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.asker import Asker
from posh_reward.models.model import Model, Prompt, model_of, savable
from posh_reward.other_metrics.prove.program_language import Node, Nodes
from posh_reward.store import Store
from posh_reward.types import (
    Description,
    Failure,
    PromptImage,
    Reply,
    SceneGraph,
    Verdict,
    is_missing,
)

EDITION = "1"  # of the wording, in signatures: raise it with any change of a prompt
SPLIT = "---\n"  # ends the prefix that many prompts share


def prompt_of(name: str, values: Mapping[str, str], images: tuple[PromptImage, ...] = ()) -> Prompt:
    prefix, _, suffix = wording("other_metrics/prove", name).strip().rpartition(SPLIT)
    return Prompt(fill(prefix, values), fill(suffix, values), images)


def replies_of(asker: Asker, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    with asker.awake(prompts):
        return asker.write(prompts, max_tokens)


def verdicts_of(asker: Asker, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
    with asker.awake(prompts):
        return asker.choose(prompts, labels)


Tuple = tuple[str, ...]
"""(entity), (entity, attribute) or (entity, relation, entity) (paper, section 3.1)."""
KINDS = {
    "color": "red blue green yellow white black brown gray grey orange purple pink gold golden "
    "silver beige tan turquoise teal violet crimson scarlet maroon navy ivory cream olive ochre "
    "mustard azure lavender magenta cyan peach amber bronze copper auburn blond blonde colorful "
    "multicolored reddish bluish greenish yellowish whitish blackish brownish grayish greyish",
    "count": "one two three four five six seven eight nine ten eleven twelve several many few "
    "multiple numerous single both dozen",
    "size": "small large big tiny huge tall short long little wide narrow thick thin massive "
    "enormous giant miniature medium",
    "material": "wooden wood metal metallic stone brick concrete glass plastic leather cotton silk "
    "wool velvet lace fur paper marble ceramic clay straw wicker iron steel brass satin linen",
    "shape": "round square oval rectangular circular triangular curved straight flat pointed "
    "spherical conical cylindrical",
}
"""Kind -> words."""
OTHER = "state"
_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words.split()}


def kind_of(attribute: str) -> str:
    """Kind of an attribute, by its last known word: "mustard-yellow" is a color."""
    words = re.findall(r"\w+", attribute.casefold())
    kinds = [_KIND_OF[word] for word in words if word in _KIND_OF]
    if any(word.isdecimal() for word in words):
        kinds.append("count")
    return kinds[-1] if kinds else OTHER


SPATIAL = frozenset(
    "in on at by near next beside behind before above below under over inside outside around "
    "between among against along across through to toward towards with from of off left right "
    "front part".split()
)
"""First words of relations of place or belonging."""


def nodes_of(tuples: Iterable[Tuple]) -> Nodes:
    """Group tuples into a graph: attributes by kind, relations by target and kind."""
    nodes: Nodes = {}
    for parts in tuples:
        source = _node(nodes, parts[0])
        if len(parts) == 2:
            kind, attributes = kind_of(parts[1]), source["attributes"]
            attributes[kind] = f"{attributes[kind]}, {parts[1]}" if kind in attributes else parts[1]
        elif len(parts) == 3:
            _node(nodes, parts[2])
            kinds = source["relations_to"].setdefault(parts[2], {})
            kinds.setdefault(relation_kind(parts[1]), []).append(parts[1])
    return nodes


def relation_kind(relation: str) -> str:
    """Kind of a relation: "spatial" for "in front of", "action" for "holds"."""
    words = relation.casefold().split()
    return "spatial" if words and words[0] in SPATIAL else "action"


def _node(nodes: Nodes, name: str) -> Node:
    return nodes.setdefault(name, {"attributes": {}, "relations_to": {}})


def _join(values: object) -> object:
    return ", ".join(values) if isinstance(values, list) and all(map(_is_text, values)) else values


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


class GraphNode(BaseModel):
    """An entity of a graph from a file, as in the paper's Listing 1."""

    attributes: dict[str, Annotated[StrictStr, BeforeValidator(_join)]] = {}
    """Kind -> values, comma-separated or as a list."""
    relations_to: dict[str, dict[str, list[StrictStr]]] = {}


_GRAPH = TypeAdapter(dict[str, GraphNode])
NO_GRAPH = "is neither entities with attributes and relations_to nor a list of tuples"


def read_graph(cell: object) -> Nodes | Failure:
    """Read a graph from a file, such as the authors' own."""
    try:
        content = json.loads(cell) if isinstance(cell, str) else cell
        if isinstance(content, list) and all(map(_is_tuple, content)):
            return nodes_of(map(tuple, content))
        graph = _GRAPH.validate_python(content)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        return Failure("text", f"{NO_GRAPH}{place and f' (at {place[:60]})'}")
    except (ValueError, RecursionError):
        return Failure("text", "is not JSON")
    nodes: Nodes = {
        name: {"attributes": node.attributes, "relations_to": node.relations_to}
        for name, node in graph.items()
    }
    for node in list(nodes.values()):
        for target in node["relations_to"]:
            _node(nodes, target)  # as in a directed graph, each target is a node
    return nodes


def _is_tuple(row: object) -> bool:
    return isinstance(row, list | tuple) and 1 <= len(row) <= 3 and all(map(_is_text, row))


def tuples_in(nodes: Nodes) -> tuple[Tuple, ...]:
    """Entities, attributes and relations of a graph; inverse of ``nodes_of`` except for order."""
    attributes = [
        (name, value.strip())
        for name, node in nodes.items()
        for values in node["attributes"].values()
        for value in values.split(",")
        if value.strip()
    ]
    relations = [
        (name, relation, target)
        for name, node in nodes.items()
        for target, kinds in node["relations_to"].items()
        for texts in kinds.values()
        for relation in texts
    ]
    return (*((name,) for name in nodes), *attributes, *relations)


LONGEST_REPLY = 2048  # tokens of a model's tuples
MOST_TUPLES = 300  # per text; in a longer list the model repeats itself
LONGEST_PART = 200  # characters


class TupleSource(Protocol):
    """Extractor of tuples from texts."""

    @property
    def fields(self) -> dict[str, str]:
        """Fields for signatures."""

    def read(self, texts: Sequence[object]) -> list[tuple[Tuple, ...] | Failure]:
        """Distinct tuples of each text, in text order; none for an empty text.

        A failure's detail continues a sentence that begins with "the response" or "the answer".
        """

    def scenes(self, texts: Sequence[object]) -> list[Nodes | Failure]:
        """Scene graph of each text, in the form for programs."""


class GraphTuples:
    """Tuples of our scene graphs.

    A text without entities ("Blue.", "Two.") is one tuple of its own words. As in POSH, entities
    of the viewer's frame ("our left") are left out; relations to them stay.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    @property
    def fields(self) -> dict[str, str]:
        return {
            "tuples": "graph",
            "parser": self.reader.parser_name,
            "coref": self.reader.coref.name,
            "rules": f"released-{GRAPH_VERSION}",
        }

    def read(self, texts: Sequence[object]) -> list[tuple[Tuple, ...] | Failure]:
        return [
            read if isinstance(read, Failure) else distinct(_tuples(read))
            for read in self.reader.read(texts, keep=True)
        ]

    def scenes(self, texts: Sequence[object]) -> list[Nodes | Failure]:
        """Scene graph of each text; entities with the same name are numbered."""
        return [
            read
            if isinstance(read, Failure)
            else nodes_of(graph_tuples(read.graph, unique_names(read.graph)))
            for read in self.reader.read(texts, keep=True)
        ]


def _tuples(description: Description) -> list[Tuple]:
    graph = description.graph
    candidates = graph_tuples(graph, [entity.head for entity in graph.entities])
    words = description.text.strip(" .!?,;:\"'\n\t")
    return candidates or ([(words,)] if words else [])


def graph_tuples(graph: SceneGraph, names: Sequence[str]) -> list[Tuple]:
    """Tuples of a graph's entities, attributes and relations; ``names`` has one per entity."""
    places = [i for i, entity in enumerate(graph.entities) if not entity.flagged]
    return [
        *((names[i],) for i in places),
        *((names[i], each.text) for i in places for each in graph.entities[i].attributes),
        *((names[r.subject], r.text, names[r.object]) for r in graph.relations),
    ]


def unique_names(graph: SceneGraph) -> list[str]:
    """Unique names for a graph's entities: "man", "man 2"."""
    names: list[str] = []
    for entity in graph.entities:
        earlier = {name.casefold() for name in names}
        numbered = chain([entity.head], (f"{entity.head} {number}" for number in count(2)))
        names.append(next(name for name in numbered if name.casefold() not in earlier))
    return names


class ModelTuples:
    """Tuples written by a language model, as in the paper."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    @property
    def fields(self) -> dict[str, str]:
        return {"tuples": self.asker.model.name, "wording": EDITION, "replies": str(REPLY_VERSION)}

    def read(self, texts: Sequence[object]) -> list[tuple[Tuple, ...] | Failure]:
        stripped = [stripped_text(text) for text in texts]
        distinct_texts = [
            text for text in dict.fromkeys(stripped) if isinstance(text, str) and text
        ]
        prompts = [prompt_of("tuples", {"text": text}) for text in distinct_texts]
        replies = replies_of(self.asker, prompts, LONGEST_REPLY)
        by_text: dict[object, tuple[Tuple, ...] | Failure] = {"": ()}
        for text, reply in zip(distinct_texts, replies, strict=True):
            read = read_tuples(reply)
            by_text[text] = (
                replace(read, detail=f"has no tuples: {read}")
                if isinstance(read, Failure)
                else read
            )
        return [text if isinstance(text, Failure) else by_text[text] for text in stripped]

    def scenes(self, texts: Sequence[object]) -> list[Nodes | Failure]:
        """Scene graph of each text's tuples; the model makes entity names unique."""
        return [read if isinstance(read, Failure) else nodes_of(read) for read in self.read(texts)]


def tuple_source(
    source: str | Mapping[str, Any] | Model, parser: str, store: Store | None
) -> TupleSource:
    """Select our scene graphs ("graph") or a model's tuples."""
    if source == "graph":
        return GraphTuples(Reader(parser, store=store))
    return ModelTuples(Asker(model_of(source), store))


def scenes_of(
    source: TupleSource, texts: Sequence[object], graphs: Sequence[object] | None
) -> list[Nodes | Failure]:
    """Scene graph of each text, or the file's graph in its place (``read_graph``)."""
    cells = [None] * len(texts) if graphs is None else [graph_cell(each) for each in graphs]
    read = iter(source.scenes([t for t, cell in zip(texts, cells, strict=True) if cell is None]))
    return [next(read) if cell is None else named_graph(read_graph(cell)) for cell in cells]


def graph_cell(cell: object) -> object:
    """Graph in a table cell; None if it is empty."""
    return None if is_missing(cell) or cell == "" else cell


def named_graph(graph: Nodes | Failure) -> Nodes | Failure:
    """Prefix a failure so that its detail continues "the caption"."""
    return (
        replace(graph, detail=f"has a graph that {graph}") if isinstance(graph, Failure) else graph
    )


def tuples_of_graph(cell: object) -> tuple[Tuple, ...] | Failure:
    graph = named_graph(read_graph(cell))
    return graph if isinstance(graph, Failure) else distinct(tuples_in(graph))


def read_tuples(reply: Reply) -> tuple[Tuple, ...] | Failure:
    """Read tuples from a model's reply: a JSON list of lists of one to three texts."""
    if reply.text is None:
        return reply.failure or Failure("reply", "the model gave no tuples")
    start, end = reply.text.find("["), reply.text.rfind("]")
    try:
        rows = json.loads(reply.text[start : end + 1])
    except (ValueError, RecursionError):
        return Failure("reply", "the model's tuples are not a JSON list")
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        return Failure("reply", "the model's tuples are not lists of one to three texts")
    if len(rows) > MOST_TUPLES:
        return Failure("reply", f"the model gave more than {MOST_TUPLES} tuples")
    return distinct(tuple(savable(part).strip() for part in row) for row in rows)


def _is_row(row: object) -> bool:
    return (
        isinstance(row, list)
        and 1 <= len(row) <= 3
        and all(isinstance(p, str) and savable(p).strip() and len(p) <= LONGEST_PART for p in row)
    )


def distinct(tuples: Iterable[Tuple]) -> tuple[Tuple, ...]:
    """Drop repeated tuples, ignoring case: a graph is a set."""
    first: dict[Tuple, Tuple] = {}
    for each in tuples:
        first.setdefault(key(each), each)
    return tuple(first.values())


def key(parts: Tuple) -> Tuple:
    """Normalize case and blanks of a tuple."""
    return tuple(" ".join(part.casefold().split()) for part in parts)


def without(tuples: Iterable[Tuple], others: Collection[Tuple]) -> tuple[Tuple, ...]:
    """g(A) - g(Q): tuples that are not among the others."""
    keys = {key(each) for each in others}
    return tuple(each for each in tuples if key(each) not in keys)


def phrase(parts: Tuple) -> str:
    """Join a tuple for an encoder: "shirt, black"; "boy, in, shirt"."""
    return ", ".join(parts)
