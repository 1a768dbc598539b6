"""Reading texts: what is parsed, what was parsed before, and descriptions as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.graph.reader import Reader, read_description, write_description
from posh_reward.store import Store
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


def test_what_is_not_kept_is_not_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    assert parsed(store, [DOG], keep=False) == [DOG]
    assert parsed(store, [DOG]) == [DOG]


def test_other_rules_parse_the_text_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    assert parsed(store, [CAT]) == [CAT]
    assert parsed(store, [CAT], coref="recording-2") == [CAT]
    assert parsed(store, [CAT], coref="recording-2") == []


def test_what_a_text_brings_along_is_forgotten_with_it() -> None:
    """Ever new words and numbers leave the pipeline's vocabulary as it was."""
    reader = Reader()

    def text(number: int) -> str:
        return f"A man with {number} birds stands by w{number}k and {number}.{number} vases."

    before = reader.read([text(7_000_001)])
    size = len(reader.nlp.vocab.strings)
    reader.read([text(number) for number in range(7_000_002, 7_000_050)])
    assert len(reader.nlp.vocab.strings) == size
    assert reader.read([text(7_000_001)]) == before


def test_texts_that_are_too_long_share_one_reason() -> None:
    told = Reader(coref=Recording(), max_characters=1000).read(["a" * 1001, "a" * 2000])
    why = "is longer than the 1,000 characters that are read: shorten it, or raise max_characters"
    assert told == [Failure("text", why)] * 2


def test_a_broken_stored_description_is_parsed_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    reader = Reader(coref=Recording(), store=store)
    store.put("graph", reader._space, {DOG: "[]"})
    [description] = reader.read([DOG], keep=True)
    assert isinstance(description, Description)
    assert store.get("graph", reader._space, [DOG]) == {DOG: write_description(description)}


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


def test_descriptions_of_golden_texts_are_restored(shared_data: Path) -> None:
    goldens = (shared_data / "goldens" / "goldens.jsonl").read_text("utf-8").splitlines()
    texts = sorted({json.loads(line)["reference"] for line in goldens})[:5]
    for description in Reader().read([*texts, "", "A dog."]):
        assert isinstance(description, Description)
        assert read_description(write_description(description)) == description


@pytest.mark.parametrize(
    "wrong", ["", "{", "null", "7", "[]", '["a",[],[],[]]', '["a",[[]],[],[],[]]']
)
def test_an_invalid_description_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_description(wrong)
