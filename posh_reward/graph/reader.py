"""Texts -> descriptions with scene graphs (paper, A.1.2); a ``Failure`` for an unusable text."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, starmap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spacy.tokens import Doc

from posh_reward.errors import InputError, PoshError
from posh_reward.graph.components import read_syntax
from posh_reward.graph.coreference import Coreferencer, load_coref
from posh_reward.graph.entities import (
    build_entity,
    describe_by_adjectives,
    describe_by_verbs,
    merge_attributes,
    merge_relations,
    read_components,
    relate_by_prepositions,
    relate_by_verbs,
    relate_possessions,
)
from posh_reward.graph.parse import load_parser, parse_texts, parser_version
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

MAX_CHARACTERS = 20_000
"""Longest text that is parsed: fifteen times a museum's description. Longer ones are runaway
generations."""
GRAPH_VERSION = 5
"""Raise it with any change of the embedded parser, the coreference rules or the graph rules that
changes a description: signatures and stored descriptions carry it.
``tests/golden/test_readings.py`` fails if that is forgotten."""

MEMORY_ZONE_LOCK = threading.Lock()
"""Held while a pipeline has a memory zone: pipelines are shared, and zones cannot nest."""

T = TypeVar("T")


class RecentTexts(Generic[T]):
    """The values of the ``capacity`` texts that were asked for last."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._values: OrderedDict[str, T] = OrderedDict()

    def find(self, texts: Sequence[str]) -> dict[str, T]:
        """Return the values that are here."""
        found = {text: self._values[text] for text in texts if text in self._values}
        for text in found:
            self._values.move_to_end(text)
        return found

    def keep(self, values: Mapping[str, T]) -> None:
        """Add values; the least recently used ones go."""
        self._values.update(values)
        while len(self._values) > self.capacity:
            self._values.popitem(last=False)


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
        self._store = store
        self._cache: RecentTexts[Description] = RecentTexts(capacity)
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
        stripped = [self._strip(text) for text in texts]
        unique = list(dict.fromkeys(text for text in stripped if isinstance(text, str)))
        results: dict[str, Description | Failure] = dict(self._cache.find(unique))
        if keep:
            unknown = [text for text in unique if text not in results]
            for text, row in self._load_rows(unknown).items():
                with suppress(ValueError):  # a broken row: parse the text again
                    results[text] = read_description(row)
        new = [text for text in unique if text not in results]
        if new:
            results.update(zip(new, self._describe_texts(new), strict=True))
        if keep:
            # Failures are not kept: a second try may succeed.
            read = {text: each for text, each in results.items() if isinstance(each, Description)}
            self._cache.keep(read)
            if self._store is not None:
                rows = {text: write_description(read[text]) for text in new if text in read}
                self._store_rows(rows)
        return [text if isinstance(text, Failure) else results[text] for text in stripped]

    def cache_rows(self, rows: Mapping[str, str]) -> None:
        """Cache how texts read, as another process has written it."""
        for text, row in rows.items():
            if not self._cache.find([text]):
                with suppress(ValueError):  # a broken row: the text is parsed when it is read
                    self._cache.keep({text: read_description(row)})

    def _describe_texts(self, texts: Sequence[str]) -> list[Description | Failure]:
        return self.make_from_parses(texts, self._describe_docs)

    def _describe_docs(self, docs: list[Doc]) -> list[Description | Failure]:
        pairs = zip(docs, self.coref.resolve(docs), strict=True)
        return [describe_doc(doc, clusters) for doc, clusters in pairs]

    def make_from_parses(
        self,
        texts: Sequence[str],
        make: Callable[[list[Doc]], Sequence[T]],
        parsed: Mapping[str, bytes] = MappingProxyType({}),
    ) -> list[T | Failure]:
        """Make something of each text's parse; a failure of a text that cannot be parsed.

        ``parsed`` are parses of some of them in spaCy's own format, by the same pipeline.
        """
        nlp = self.nlp  # outside of try: a parser that cannot be loaded is not the texts' fault
        try:
            # The zone frees the strings that these texts add to the shared vocabulary.
            with MEMORY_ZONE_LOCK, nlp.memory_zone():
                left = iter(parse_texts(nlp, [text for text in texts if text not in parsed]))
                docs = [
                    Doc(nlp.vocab).from_bytes(parsed[text]) if text in parsed else next(left)
                    for text in texts
                ]
                return list(make(docs))
        except (PoshError, MemoryError):
            raise
        except Exception as error:  # a library failed on one of the texts: spare the others
            if len(texts) == 1:
                return [Failure("text", f"could not be parsed: {type(error).__name__}: {error}")]
            results: list[T | Failure] = []
            for text in texts:
                results += self.make_from_parses([text], make, parsed)
            return results

    def _strip(self, text: object) -> str | Failure:
        return stripped_text(text, self._max_characters, "shorten it, or raise max_characters")

    def _load_rows(self, texts: Sequence[str]) -> dict[str, str]:
        if self._store is None or not texts:
            return {}
        return self._store.get("graph", self._store_space, texts)

    def _store_rows(self, rows: Mapping[str, str]) -> None:
        if self._store is not None and rows:
            self._store.put("graph", self._store_space, rows)

    @property
    def _store_space(self) -> str:
        """Everything but the text that a description depends on."""
        return f"{self.parser_name}|{self.coref.name}|released|{GRAPH_VERSION}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_nlp": None, "_cache": RecentTexts(self._cache.capacity)}


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
    # One form for both sides: to the parser, a letter and its accent are two characters.
    stripped = unicodedata.normalize("NFC", read).strip()
    if len(stripped) > longest:
        return Failure("text", f"is longer than the {longest:,} characters that are read: {remedy}")
    if any("\ud800" <= character <= "\udfff" for character in stripped):
        return Failure("text", "holds half a surrogate pair, which is not Unicode text")
    return stripped


def original_places(text: str) -> Sequence[int]:
    """Places in a text of the characters of its stripped form, and of their end.

    A span (start, end) of a description is that from ``places[start]`` to ``places[end]``.
    """
    before = len(text) - len(text.lstrip())
    if unicodedata.is_normalized("NFC", text):
        return range(before, len(text) + 1)
    starts = [i for i, each in enumerate(text) if i == 0 or not unicodedata.combining(each)]
    places: list[int] = []
    for start, end in pairwise([*starts, len(text)]):
        places += [start] * len(unicodedata.normalize("NFC", text[start:end]))
    return [*places[before:], len(text)]


def write_description(description: Description) -> str:
    """Write a description as JSON; ``read_description`` restores an equal one."""
    graph = description.graph
    return json.dumps(
        [
            description.text,
            graph.entities,
            graph.relations,
            list(zip(*description.tokens, strict=True)) or [[]] * len(Token._fields),
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
        text, entities, relations, (*columns, spans), clusters = json.loads(row)
        read_entities = tuple(starmap(_read_entity, entities))
        graph = SceneGraph(read_entities, tuple(starmap(_read_relation, relations)))
        tokens = tuple(starmap(Token, zip(*columns, map(tuple, spans), strict=True)))
        return Description(text, graph, tokens, tuple(map(_read_pairs, clusters)))
    except TypeError as error:  # too few values, or too many
        raise ValueError(f"not a description: {error}") from None


def _read_entity(
    head: str, heads: Any, attributes: Any, sentences: Any, spans: Any, *flags: bool
) -> Entity:
    described = tuple(starmap(_read_attribute, attributes))
    return Entity(head, tuple(heads), described, tuple(sentences), _read_pairs(spans), *flags)


def _read_attribute(text: str, sentences: Any, spans: Any) -> Attribute:
    return Attribute(text, tuple(sentences), _read_pairs(spans))


def _read_relation(
    subject: int, object: int, text: str, source: Any, sentences: Any, spans: Any
) -> Relation:
    return Relation(subject, object, text, source, tuple(sentences), _read_pairs(spans))


def _read_pairs(values: Any) -> Any:
    return tuple(map(tuple, values))


def describe_doc(doc: Doc, clusters: Clusters) -> Description:
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
    sightings = [*describe_by_adjectives(parts), *describe_by_verbs(parts)]
    descriptions = merge_attributes(parts, sightings)
    entities: list[Entity] = []
    for mentions, own in zip(parts.mentions, descriptions, strict=True):
        entities.append(build_entity(parts, mentions, own))
    # Possessions and actions in text order, then the positions that no action has used.
    used: set[int] = set()
    connections = [*relate_possessions(parts), *relate_by_verbs(parts, used)]
    connections.sort(key=lambda connection: connection.component)
    connections += relate_by_prepositions(parts, used)
    graph = SceneGraph(tuple(entities), merge_relations(parts, connections))
    return Description(doc.text.rstrip(), graph, tokens, clusters)
