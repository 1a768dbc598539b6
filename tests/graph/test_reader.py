"""Reading texts: what is parsed, what was parsed before, and descriptions as JSON."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.errors import InputError
from posh_reward.graph.reader import (
    Reader,
    describe_doc,
    original_places,
    read_description,
    write_description,
)
from posh_reward.store import Store
from posh_reward.types import Attribute, Clusters, Description, Entity, Relation, SceneGraph, Token
from tests.parses import VOCAB, build, parse

DOG, CAT = "A brown dog sleeps.", "A cat sits on a table."


class Recording:
    """Links nothing, and records which texts were parsed."""

    def __init__(self, name: str = "recording-1") -> None:
        self.name = name
        self.texts: list[str] = []

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        self.texts += [doc.text for doc in docs]
        return [() for _ in docs]


def parsed(store: Store, texts: list[str], *, keep: bool = True, **options: object) -> list[str]:
    """The texts that a new reader parses when it reads ``texts``."""
    coref = Recording(str(options.pop("coref", "recording-1")))
    reader = Reader(coref=coref, store=store, **options)  # type: ignore[arg-type]
    assert reader.read(texts, keep=keep) == Reader(coref=Recording(), **options).read(texts)  # type: ignore[arg-type]
    return coref.texts


def test_what_was_kept_is_not_parsed_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    assert parsed(store, [DOG, CAT, DOG]) == [DOG, CAT]
    assert parsed(store, [CAT, "A bird.", f"  {DOG}\n"]) == ["A bird."]
    assert parsed(Store(store.path), [DOG, CAT]) == []


def test_other_rules_parse_the_text_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    assert parsed(store, [CAT]) == [CAT]
    assert parsed(store, [CAT], coref="recording-2") == [CAT]
    assert parsed(store, [CAT], coref="recording-2") == []


def test_a_broken_stored_description_is_parsed_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    reader = Reader(coref=Recording(), store=store)
    store.put("graph", reader._store_space, {DOG: "[]"})
    [description] = reader.read([DOG], keep=True)
    assert isinstance(description, Description)
    assert store.get("graph", reader._store_space, [DOG]) == {DOG: write_description(description)}


def test_a_wrong_device_of_the_parser_is_refused() -> None:
    with pytest.raises(InputError, match="parser_device is 'gpu': use auto or cpu"):
        Reader(parser_device="gpu")


T = TypeVar("T")


def few(what: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(what, max_size=2).map(tuple)


TEXT, NUMBER, YES = st.text(max_size=5), st.integers(-1, 10**12), st.booleans()
PAIR = st.tuples(NUMBER, NUMBER)
SOURCE = st.sampled_from(("poss", "verb", "prep"))
ATTRIBUTE = st.builds(Attribute, TEXT, few(NUMBER), few(PAIR))
ENTITY = st.builds(Entity, TEXT, few(TEXT), few(ATTRIBUTE), few(NUMBER), few(PAIR), YES, YES, YES)
RELATION = st.builds(Relation, NUMBER, NUMBER, TEXT, SOURCE, few(NUMBER), few(PAIR))
TOKEN = st.builds(Token, TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER, PAIR)
GRAPH = st.builds(SceneGraph, few(ENTITY), few(RELATION))


@given(st.builds(Description, TEXT, GRAPH, few(TOKEN), few(few(PAIR))))
def test_any_description_is_restored(description: Description) -> None:
    again = read_description(write_description(description))
    assert again == description
    assert repr(again) == repr(description)  # True is 1, but not to ``repr``
    assert hash(again) == hash(description)


@pytest.mark.parametrize(
    "wrong",
    [
        "", "{", "null", "7", "[]", '["a",[],[],[]]', '["a",[],[],[],[]]',
        '["a",[[]],[],[[],[],[],[],[],[],[]],[]]', '["a",[],[],[["x"],[],[],[],[],[],[]],[]]',
    ],
)  # fmt: skip
def test_an_invalid_description_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_description(wrong)


WORDS = ["our", "left", "right", "us", "it", "-", " ", "dog", "red", "of", "who", "is"]
POS = ["NOUN", "PROPN", "PRON", "ADJ", "ADV", "VERB", "AUX", "ADP", "NUM", "PUNCT", ""]
LABELS = [
    "ROOT", "nsubj", "nsubjpass", "dobj", "pobj", "prep", "agent", "case", "amod", "nmod",
    "compound", "poss", "conj", "prt", "advmod", "acl", "acomp", "relcl", "attr", "unknown", "",
]  # fmt: skip


def test_a_sentence_becomes_a_graph() -> None:
    sees = parse("A/DET/det/2 red/ADJ/amod/2 dog/NOUN/nsubj/3 sees/VERB/ROOT/3 us/PRON/dobj/3")
    described = describe_doc(sees, (((2, 2), (4, 4)),))
    assert described.text == "A red dog sees us"
    assert described.clusters == (((2, 2), (4, 4)),)
    assert described.tokens[2] == Token("dog", "dog", "NOUN", "nsubj", 3, 0, (6, 9))
    (entity,) = described.graph.entities
    assert entity.heads == ("dog", "us")
    assert [a.text for a in entity.attributes] == ["red"]
    assert [r.text for r in described.graph.relations] == ["sees"]


def test_spans_point_into_the_text() -> None:
    run = "Boys/NOUN/nsubj/1 run/VERB/ROOT/1 down/ADP/prt/1 hills/NOUN/dobj/1"
    described = describe_doc(parse(run, "They/PRON/nsubj/1 laugh/VERB/ROOT/1"), (((0, 0), (4, 4)),))
    boys, hills = described.graph.entities
    spans = [*boys.spans, *hills.spans, *boys.attributes[0].spans]
    spans += described.graph.relations[0].spans
    assert [described.text[start:end] for start, end in spans] == [
        "Boys", "They", "hills", "laugh", "run", "down",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [[], [" "], [" ", "\n\n"], ["word"], ["some", "words"]])
def test_a_doc_without_annotations_is_an_empty_graph(words: list[str]) -> None:
    assert build(Doc(VOCAB, words=words), ()) == SceneGraph((), ())


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Doc, Clusters]:
    """Any annotations at all, with heads in circles and clusters that overlap."""
    size = draw(st.integers(1, 12))
    token = st.integers(0, size - 1)

    def each(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=size, max_size=size))

    words, pos, deps = (each(st.sampled_from(some)) for some in (WORDS, POS, LABELS))
    doc = Doc(VOCAB, words=words, pos=pos, deps=deps, heads=each(token))
    mention = st.tuples(token, token).map(lambda ends: (min(ends), max(ends)))
    return doc, tuple(map(tuple, draw(st.lists(st.lists(mention, max_size=4), max_size=4))))


@given(inputs())
@settings(max_examples=150, deadline=None)
def test_any_annotations_give_a_consistent_graph(given_: tuple[Doc, Clusters]) -> None:
    doc, clusters = given_
    graph = build(doc, clusters)
    assert graph == build(doc, clusters)
    for entity in graph.entities:
        assert entity.heads[0] == entity.head
        assert len(entity.heads) == len(entity.sentences)
        texts = [attribute.text for attribute in entity.attributes]
        assert len(texts) == len(set(texts))
    triples = [(r.subject, r.object, r.text) for r in graph.relations]
    assert len(triples) == len(set(triples))
    for relation in graph.relations:
        assert max(relation.subject, relation.object) < len(graph.entities)
        assert relation.text
        assert all(0 <= start < end <= len(doc.text) for start, end in relation.spans)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_both_forms_of_a_letter_read_alike(form: Literal["NFC", "NFD"]) -> None:
    text = unicodedata.normalize(form, " \nA caf\u00e9 in K\u00f6ln is \u00e9troit. ")
    [description] = Reader().read([text])
    assert isinstance(description, Description)
    assert description.text == "A caf\u00e9 in K\u00f6ln is \u00e9troit."
    places = original_places(text)
    for token in description.tokens:
        start, end = token.span
        written = text[places[start] : places[end]]
        assert unicodedata.normalize("NFC", written) == token.text
