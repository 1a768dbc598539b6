import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.graph.reader import describe
from posh_reward.types import Clusters, SceneGraph, Token
from tests.parses import VOCAB, build, parse

WORDS = ["our", "left", "right", "us", "it", "-", " ", "dog", "red", "of", "who", "is"]
POS = ["NOUN", "PROPN", "PRON", "ADJ", "ADV", "VERB", "AUX", "ADP", "NUM", "PUNCT", ""]
LABELS = [
    "ROOT", "nsubj", "nsubjpass", "dobj", "pobj", "prep", "agent", "case", "amod", "nmod",
    "compound", "poss", "conj", "prt", "advmod", "acl", "acomp", "relcl", "attr", "unknown", "",
]  # fmt: skip


def test_a_sentence_becomes_a_graph() -> None:
    described = describe(
        parse("A/DET/det/2 red/ADJ/amod/2 dog/NOUN/nsubj/3 sees/VERB/ROOT/3 us/PRON/dobj/3"),
        (((2, 2), (4, 4)),),
    )
    assert described.text == "A red dog sees us"
    assert described.clusters == (((2, 2), (4, 4)),)
    assert described.tokens[2] == Token("dog", "dog", "NOUN", "nsubj", 3, 0, (6, 9))
    (entity,) = described.graph.entities
    assert entity.heads == ("dog", "us")
    assert [a.text for a in entity.attributes] == ["red"]
    assert [r.text for r in described.graph.relations] == ["sees"]


def test_spans_point_into_the_text() -> None:
    described = describe(
        parse(
            "Boys/NOUN/nsubj/1 run/VERB/ROOT/1 down/ADP/prt/1 hills/NOUN/dobj/1",
            "They/PRON/nsubj/1 laugh/VERB/ROOT/1",
        ),
        (((0, 0), (4, 4)),),
    )
    boys, hills = described.graph.entities
    spans = [
        *boys.spans,
        *hills.spans,
        *boys.attributes[0].spans,
        *described.graph.relations[0].spans,
    ]
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

    doc = Doc(
        VOCAB,
        words=each(st.sampled_from(WORDS)),
        pos=each(st.sampled_from(POS)),
        deps=each(st.sampled_from(LABELS)),
        heads=each(token),
    )
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
