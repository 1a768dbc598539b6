"""Descriptions as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.graph.read import Reader
from posh_reward.graph.serialise import read_description, write_description
from posh_reward.types import Attribute, Description, Entity, Relation, SceneGraph, Token

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


@pytest.mark.parametrize("mended", [False, True])
def test_descriptions_of_golden_texts_are_restored(shared_data: Path, mended: bool) -> None:
    goldens = (shared_data / "goldens" / "goldens.jsonl").read_text("utf-8").splitlines()
    texts = sorted({json.loads(line)["reference"] for line in goldens})[:5]
    for description in Reader(mended=mended).read([*texts, "", "A dog."]):
        assert isinstance(description, Description)
        assert read_description(write_description(description)) == description


@pytest.mark.parametrize(
    "wrong", ["", "{", "null", "7", "[]", '["a",[],[],[]]', '["a",[[]],[],[],[]]']
)
def test_an_invalid_description_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_description(wrong)
