"""Texts -> descriptions with scene graphs (paper, A.1.2); a ``Failure`` for an unusable text."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError, PoshError
from posh_reward.graph.components import read_syntax
from posh_reward.graph.coref import Coreferencer, load_coref
from posh_reward.graph.entities import (
    actions,
    attributes,
    entity,
    positions,
    possessions,
    qualities,
    read_components,
    relations,
    states,
)
from posh_reward.graph.parse import load_parser, parse, parser_version
from posh_reward.store import Store
from posh_reward.text_values import read_text
from posh_reward.types import (
    Attribute,
    Clusters,
    Description,
    Entity,
    Failure,
    Relation,
    SceneGraph,
    Token,
)

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MAX_CHARACTERS = 20_000
"""Longest text that is parsed: fifteen times a museum's description. Longer ones are runaway
generations."""
GRAPH_VERSION = 5
"""Raise it with any change of the embedded parser, the coreference rules or the graph rules that
changes a description: signatures and stored descriptions carry it.
``tests/golden/test_readings.py`` fails if that is forgotten."""

ZONE = threading.Lock()
"""Held while a pipeline has a memory zone: pipelines are shared, and zones cannot nest."""


class Reader:
    """Parser, coreference resolver and graph rules in one: texts -> descriptions.

    Descriptions of references are cached in memory and, if there is a store, kept for later runs.
    The parser is loaded on first use and left out of pickles.

    Args:
        parser: "embedded", or the name of an installed spaCy pipeline with ClearNLP labels.
        coref: a name ("rules", "none") or a ``Coreferencer``.
        parser_device: see ``load_parser``.
        max_characters: longer texts are failures.
        capacity: maximum number of cached descriptions, 40 KB each; the least recently used goes
            first.
        store: keeps descriptions of references across runs.
    """

    def __init__(
        self,
        parser: str = "embedded",
        coref: str | Coreferencer = "rules",
        *,
        parser_device: str = "auto",
        max_characters: int = MAX_CHARACTERS,
        capacity: int = 256,
        store: Store | None = None,
    ) -> None:
        if parser_device not in ("auto", "cpu"):
            raise InputError(f"parser_device is {parser_device!r}: use auto or cpu")
        self.coref = load_coref(coref) if isinstance(coref, str) else coref
        self.parser = parser  # name
        self._device = parser_device
        self._max_characters = max_characters
        self._capacity = capacity
        self._store = store
        self._cache: OrderedDict[str, Description] = OrderedDict()
        self._nlp: Language | None = None

    @property
    def nlp(self) -> Language:
        """The spaCy pipeline, loaded on first use."""
        if self._nlp is None:
            self._nlp = load_parser(self.parser, self._device)
        return self._nlp

    @property
    def parser_name(self) -> str:
        """Name and version of the pipeline, for signatures."""
        return parser_version(self.nlp)

    def read(self, texts: Sequence[object], *, keep: bool = False) -> list[Description | Failure]:
        """Describe each text, in order; equal texts are parsed once.

        Args:
            texts: values of any type; see ``stripped_text`` for the failures of unusable ones.
            keep: cache and store the descriptions, as is worthwhile for references.
        """
        remedy = "shorten it, or raise max_characters"
        stripped = [stripped_text(text, self._max_characters, remedy) for text in texts]
        unique = list(dict.fromkeys(text for text in stripped if isinstance(text, str)))
        results: dict[str, Description | Failure] = {}
        for text in unique:
            if text in self._cache:
                self._cache.move_to_end(text)
                results[text] = self._cache[text]
        missing = [text for text in unique if text not in results]
        if keep and self._store is not None and missing:
            for text, row in self._store.get("graph", self._space, missing).items():
                with suppress(ValueError):  # a broken row: parse the text again
                    results[text] = read_description(row)
        new = [text for text in unique if text not in results]
        results.update(zip(new, self._describe(new), strict=True))
        if keep:
            self._keep(results, new)
        return [results[text] if isinstance(text, str) else text for text in stripped]

    def _describe(self, texts: list[str]) -> list[Description | Failure]:
        if not texts:
            return []
        nlp = self.nlp  # outside of try: a parser that cannot be loaded is not the texts' fault
        try:
            # The zone frees the strings that these texts add to the shared vocabulary.
            with ZONE, nlp.memory_zone():
                docs = parse(nlp, texts)
                pairs = zip(docs, self.coref.resolve(docs), strict=True)
                return [describe(doc, clusters) for doc, clusters in pairs]
        except (PoshError, MemoryError):
            raise
        except Exception as error:  # a library failed on one of the texts: spare the others
            if len(texts) == 1:
                return [Failure("text", f"could not be parsed: {type(error).__name__}: {error}")]
            return [description for text in texts for description in self._describe([text])]

    def _keep(self, results: dict[str, Description | Failure], new: Sequence[str]) -> None:
        # Failures are not kept: a second try may succeed.
        read = {text: each for text, each in results.items() if isinstance(each, Description)}
        self._cache.update(read)
        while len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
        rows = {text: write_description(read[text]) for text in new if text in read}
        if self._store is not None and rows:
            self._store.put("graph", self._space, rows)

    @property
    def _space(self) -> str:
        """Everything but the text that a description depends on."""
        return f"{self.parser_name}|{self.coref.name}|released|{GRAPH_VERSION}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_nlp": None, "_cache": OrderedDict()}


def stripped_text(
    text: object, longest: int = MAX_CHARACTERS, remedy: str = "shorten it"
) -> str | Failure:
    """Read the text in a value, for a parser or a prompt; a ``Failure`` if it cannot be used.

    A failure stays. Its detail continues a sentence that starts with "the generation" or so;
    ``remedy`` is the advice for a text of more than ``longest`` characters.
    """
    read = read_text(text)
    if isinstance(read, Failure):
        return read
    stripped = read.strip()
    if len(stripped) > longest:
        return Failure("text", f"is longer than the {longest:,} characters that are read: {remedy}")
    if any("\ud800" <= character <= "\udfff" for character in stripped):
        return Failure("text", "holds half a surrogate pair, which is not Unicode text")
    return stripped


def write_description(description: Description) -> str:
    """Write a description as JSON; ``read_description`` restores an equal one."""
    graph = description.graph
    return json.dumps(
        [
            description.text,
            [astuple(entity) for entity in graph.entities],
            [astuple(relation) for relation in graph.relations],
            [[getattr(token, name) for token in description.tokens] for name in Token.__slots__],
            description.clusters,
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def read_description(row: str) -> Description:
    """Undo ``write_description``.

    Raises:
        ValueError: the row is not such a description.
    """
    try:
        text, entities, relations, columns, clusters = _frozen(json.loads(row))
        graph = SceneGraph(
            tuple(_entity(*values) for values in entities),
            tuple(Relation(*values) for values in relations),
        )
        tokens = tuple(Token(*values) for values in zip(*columns, strict=True))
    except TypeError as error:  # too few values, or too many
        raise ValueError(f"not a description: {error}") from None
    return Description(text, graph, tokens, clusters)


def _entity(head: str, heads: Any, attributes: Any, *rest: Any) -> Entity:
    return Entity(head, heads, tuple(Attribute(*values) for values in attributes), *rest)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def describe(doc: Doc, clusters: Clusters) -> Description:
    """Return a text with its tokens, its clusters and its scene graph.

    Args:
        doc: a stripped text with parts of speech, ClearNLP dependency labels and sentence
            boundaries; missing annotations only make the graph smaller.
        clusters: mentions of one entity each, as (first, last) token indices, inclusive.

    Raises:
        InputError: a mention lies outside the text.
    """
    syntax = read_syntax(doc)
    columns = syntax.text, syntax.lemma, syntax.pos, syntax.dep, syntax.head
    tokens = tuple(map(Token, *columns, syntax.sentence, syntax.span))
    parts = read_components(syntax, clusters)
    descriptions = attributes(parts, [*qualities(parts), *states(parts)])
    pairs = zip(parts.mentions, descriptions, strict=True)
    entities = tuple(entity(parts, mentions, own) for mentions, own in pairs)
    # Possessions and actions in text order, then the positions that no action has used.
    used: set[int] = set()
    connections = [*possessions(parts), *actions(parts, used)]
    connections.sort(key=lambda connection: connection.component)
    graph = SceneGraph(entities, relations(parts, [*connections, *positions(parts, used)]))
    return Description(doc.text.rstrip(), graph, tokens, clusters)
