"""Reading texts: what is parsed, what was parsed before, and descriptions as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader, read_description, write_description
from posh_reward.store import Store
from posh_reward.types import Attribute, Clusters, Description, Entity, Relation, SceneGraph, Token

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
    store.put("graph", reader._space, {DOG: "[]"})
    [description] = reader.read([DOG], keep=True)
    assert isinstance(description, Description)
    assert store.get("graph", reader._space, [DOG]) == {DOG: write_description(description)}


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
    "wrong", ["", "{", "null", "7", "[]", '["a",[],[],[]]', '["a",[[]],[],[],[]]']
)
def test_an_invalid_description_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_description(wrong)
