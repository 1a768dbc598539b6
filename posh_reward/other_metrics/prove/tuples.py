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
from posh_reward.metrics.wording import fill_fields, read_prompt_file
from posh_reward.models.asker import READING_VERSION as REPLY_VERSION
from posh_reward.models.asker import CachingModel
from posh_reward.models.model import Model, Prompt, make_savable, resolve_model
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

WORDING_EDITION = "1"  # of the wording, in signatures: raise it with any change of a prompt
PREFIX_END = "---\n"  # ends the prefix that many prompts share


def build_prompt(
    name: str, values: Mapping[str, str], images: tuple[PromptImage, ...] = ()
) -> Prompt:
    prefix, _, suffix = read_prompt_file("other_metrics/prove", name).strip().rpartition(PREFIX_END)
    return Prompt(fill_fields(prefix, values), fill_fields(suffix, values), images)


def ask_replies(asker: CachingModel, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    with asker.awake(prompts):
        return asker.write(prompts, max_tokens)


def ask_verdicts(
    asker: CachingModel, prompts: Sequence[Prompt], labels: Sequence[str]
) -> list[Verdict]:
    with asker.awake(prompts):
        return asker.choose(prompts, labels)


Tuple = tuple[str, ...]
"""(entity), (entity, attribute) or (entity, relation, entity) (paper, section 3.1)."""
WORDS_BY_KIND = {
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
OTHER_KIND = "state"
_KIND_BY_WORD = {word: kind for kind, words in WORDS_BY_KIND.items() for word in words.split()}


def find_attribute_kind(attribute: str) -> str:
    """Find the kind of an attribute, by its last known word: "mustard-yellow" is a color."""
    words = re.findall(r"\w+", attribute.casefold())
    if any(map(str.isdecimal, words)):
        return "count"
    kinds = [_KIND_BY_WORD[word] for word in words if word in _KIND_BY_WORD]
    return kinds[-1] if kinds else OTHER_KIND


SPATIAL_WORDS = frozenset(
    "in on at by near next beside behind before above below under over inside outside around "
    "between among against along across through to toward towards with from of off left right "
    "front part".split()
)
"""First words of relations of place or belonging."""


def build_nodes(tuples: Iterable[Tuple]) -> Nodes:
    """Group tuples into a graph: attributes by kind, relations by target and kind."""
    nodes: Nodes = {}
    for parts in tuples:
        source = _add_node(nodes, parts[0])
        if len(parts) == 2:
            kind, attributes = find_attribute_kind(parts[1]), source["attributes"]
            earlier = f"{attributes[kind]}, " if kind in attributes else ""
            attributes[kind] = earlier + parts[1]
        elif len(parts) == 3:
            _add_node(nodes, parts[2])
            kinds = source["relations_to"].setdefault(parts[2], {})
            kinds.setdefault(find_relation_kind(parts[1]), []).append(parts[1])
    return nodes


def find_relation_kind(relation: str) -> str:
    """Find the kind of a relation: "spatial" for "in front of", "action" for "holds"."""
    words = relation.casefold().split()
    if words and words[0] in SPATIAL_WORDS:
        return "spatial"
    return "action"


def _add_node(nodes: Nodes, name: str) -> Node:
    return nodes.setdefault(name, {"attributes": {}, "relations_to": {}})


def _join_values(values: object) -> object:
    if isinstance(values, list) and all(map(_is_text, values)):
        return ", ".join(values)
    return values


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


class GraphNode(BaseModel):
    """An entity of a graph from a file, as in the paper's Listing 1."""

    attributes: dict[str, Annotated[StrictStr, BeforeValidator(_join_values)]] = {}
    """Kind -> values, comma-separated or as a list."""
    relations_to: dict[str, dict[str, list[StrictStr]]] = {}


_GRAPH = TypeAdapter(dict[str, GraphNode])
NOT_A_GRAPH = "is neither entities with attributes and relations_to nor a list of tuples"


def read_graph(cell: object) -> Nodes | Failure:
    """Read a graph from a file, such as the authors' own."""
    try:
        content = json.loads(cell) if isinstance(cell, str) else cell
        if isinstance(content, list) and all(map(_is_tuple, content)):
            return build_nodes(map(tuple, content))
        graph = _GRAPH.validate_python(content)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        return Failure("text", f"{NOT_A_GRAPH}{place and f' (at {place[:60]})'}")
    except (ValueError, RecursionError):
        return Failure("text", "is not JSON")
    nodes: Nodes = {}
    for name, node in graph.items():
        nodes[name] = {"attributes": node.attributes, "relations_to": node.relations_to}
    for node in graph.values():
        for target in node.relations_to:
            _add_node(nodes, target)  # as in a directed graph, each target is a node
    return nodes


def _is_tuple(row: object) -> bool:
    return isinstance(row, list | tuple) and 1 <= len(row) <= 3 and all(map(_is_text, row))


def list_node_tuples(nodes: Nodes) -> tuple[Tuple, ...]:
    """Entities, attributes and relations of a graph: ``build_nodes`` undone, but for the order."""
    attributes: list[Tuple] = []
    relations: list[Tuple] = []
    for name, node in nodes.items():
        for value in ",".join(node["attributes"].values()).split(","):
            if value.strip():
                attributes.append((name, value.strip()))
        for target, kinds in node["relations_to"].items():
            for relation in chain.from_iterable(kinds.values()):
                relations.append((name, relation, target))
    return (*zip(nodes), *attributes, *relations)


MAX_REPLY_TOKENS = 2048
MAX_TUPLES_PER_TEXT = 300  # in a longer list the model repeats itself
MAX_PART_CHARACTERS = 200


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
        results: list[tuple[Tuple, ...] | Failure] = []
        for read in self.reader.read(texts, keep=True):
            if isinstance(read, Failure):
                results.append(read)
            else:
                results.append(drop_repeats(_list_tuples(read)))
        return results

    def scenes(self, texts: Sequence[object]) -> list[Nodes | Failure]:
        """Scene graph of each text; entities with the same name are numbered."""
        scenes: list[Nodes | Failure] = []
        for read in self.reader.read(texts, keep=True):
            if isinstance(read, Failure):
                scenes.append(read)
            else:
                names = make_unique_names(read.graph)
                scenes.append(build_nodes(list_graph_tuples(read.graph, names)))
        return scenes


def _list_tuples(description: Description) -> list[Tuple]:
    graph = description.graph
    tuples = list_graph_tuples(graph, [entity.head for entity in graph.entities])
    words = description.text.strip(" .!?,;:\"'\n\t")
    if not tuples and words:
        return [(words,)]
    return tuples


def list_graph_tuples(graph: SceneGraph, names: Sequence[str]) -> list[Tuple]:
    """Tuples of a graph's entities, attributes and relations; ``names`` has one per entity."""
    entities: list[Tuple] = []
    attributes: list[Tuple] = []
    for name, entity in zip(names, graph.entities, strict=True):
        if not entity.flagged:
            entities.append((name,))
            attributes += [(name, each.text) for each in entity.attributes]
    relations = [(names[each.subject], each.text, names[each.object]) for each in graph.relations]
    return [*entities, *attributes, *relations]


def make_unique_names(graph: SceneGraph) -> list[str]:
    """Make unique names for a graph's entities: "man", "man 2"."""
    names: list[str] = []
    taken: set[str] = set()
    for entity in graph.entities:
        name, numbers = entity.head, count(2)
        while name.casefold() in taken:
            name = f"{entity.head} {next(numbers)}"
        names.append(name)
        taken.add(name.casefold())
    return names


class ModelTuples:
    """Tuples written by a language model, as in the paper."""

    def __init__(self, asker: CachingModel) -> None:
        self.asker = asker

    @property
    def fields(self) -> dict[str, str]:
        return {
            "tuples": self.asker.model.name,
            "wording": WORDING_EDITION,
            "replies": str(REPLY_VERSION),
        }

    def read(self, texts: Sequence[object]) -> list[tuple[Tuple, ...] | Failure]:
        stripped = list(map(stripped_text, texts))
        distinct = [text for text in dict.fromkeys(stripped) if isinstance(text, str) and text]
        prompts = [build_prompt("tuples", {"text": text}) for text in distinct]
        replies = ask_replies(self.asker, prompts, MAX_REPLY_TOKENS)
        by_text: dict[object, tuple[Tuple, ...] | Failure] = {"": ()}
        for text, reply in zip(distinct, replies, strict=True):
            tuples = read_tuples(reply)
            if isinstance(tuples, Failure):
                tuples = replace(tuples, detail=f"has no tuples: {tuples}")
            by_text[text] = tuples
        results: list[tuple[Tuple, ...] | Failure] = []
        for each in stripped:
            results.append(each if isinstance(each, Failure) else by_text[each])
        return results

    def scenes(self, texts: Sequence[object]) -> list[Nodes | Failure]:
        """Scene graph of each text's tuples; the model makes entity names unique."""
        scenes: list[Nodes | Failure] = []
        for read in self.read(texts):
            scenes.append(read if isinstance(read, Failure) else build_nodes(read))
        return scenes


def load_tuple_source(
    source: str | Mapping[str, Any] | Model, parser: str, store: Store | None
) -> TupleSource:
    """Select our scene graphs ("graph") or a model's tuples."""
    if source == "graph":
        return GraphTuples(Reader(parser, store=store))
    return ModelTuples(CachingModel(resolve_model(source), store))


def read_scenes(
    source: TupleSource, texts: Sequence[object], graphs: Sequence[object] | None
) -> list[Nodes | Failure]:
    """Scene graph of each text, or the file's graph in its place (``read_graph``)."""
    cells = list(map(read_graph_cell, [None] * len(texts) if graphs is None else graphs))
    unread = [text for text, cell in zip(texts, cells, strict=True) if cell is None]
    read = iter(source.scenes(unread))
    scenes: list[Nodes | Failure] = []
    for cell in cells:
        scenes.append(next(read) if cell is None else prefix_failure(read_graph(cell)))
    return scenes


def read_graph_cell(cell: object) -> object:
    """Graph in a table cell; None if it is empty."""
    return None if is_missing(cell) or cell == "" else cell


def prefix_failure(graph: Nodes | Failure) -> Nodes | Failure:
    """Prefix a failure so that its detail continues "the caption"; a graph stays as it is."""
    if isinstance(graph, Failure):
        return replace(graph, detail=f"has a graph that {graph}")
    return graph


def read_graph_tuples(cell: object) -> tuple[Tuple, ...] | Failure:
    graph = prefix_failure(read_graph(cell))
    if isinstance(graph, Failure):
        return graph
    return drop_repeats(list_node_tuples(graph))


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
    if len(rows) > MAX_TUPLES_PER_TEXT:
        return Failure("reply", f"the model gave more than {MAX_TUPLES_PER_TEXT} tuples")
    return drop_repeats(map(_read_row, rows))


def _read_row(row: Sequence[str]) -> Tuple:
    return tuple(make_savable(part).strip() for part in row)


def _is_row(row: object) -> bool:
    return isinstance(row, list) and 1 <= len(row) <= 3 and all(map(_is_part, row))


def _is_part(value: object) -> bool:
    if not isinstance(value, str) or len(value) > MAX_PART_CHARACTERS:
        return False
    return bool(make_savable(value).strip())


def drop_repeats(tuples: Iterable[Tuple]) -> tuple[Tuple, ...]:
    """Drop repeated tuples, ignoring case: a graph is a set."""
    first: dict[Tuple, Tuple] = {}
    for each in tuples:
        first.setdefault(normalize_tuple(each), each)
    return tuple(first.values())


def normalize_tuple(parts: Tuple) -> Tuple:
    """Normalize case and blanks of a tuple."""
    return tuple(" ".join(part.casefold().split()) for part in parts)


def subtract_tuples(tuples: Iterable[Tuple], others: Collection[Tuple]) -> tuple[Tuple, ...]:
    """g(A) - g(Q): tuples that are not among the others."""
    keys = set(map(normalize_tuple, others))
    return tuple(each for each in tuples if normalize_tuple(each) not in keys)


def join_parts(parts: Tuple) -> str:
    """Join a tuple for an encoder: "shirt, black"; "boy, in, shirt"."""
    return ", ".join(parts)
