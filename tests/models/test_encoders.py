"""Encoders: the embedded one by what it sees and does not see, others by name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.models.encoders import embedded, load_encoder, name_of, unit_vectors


def letters(texts: list[str]) -> np.ndarray[Any, Any]:
    """(texts, 26): how often each letter comes."""
    return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], float)


class Named:
    def __call__(self, texts: list[str]) -> Any:
        return letters(texts)


def alike(one: str, other: str) -> float:
    first, second = unit_vectors(embedded, [one, other])
    return float(first @ second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("puppies, four", "Puppy, 4"),
        ("women", "woman"),
        ("a red dress", "the red dresses"),
        ("dress, red", "red dress"),
    ],
)
def test_inflection_case_numbers_and_commas_hardly_matter(one: str, other: str) -> None:
    assert alike(one, other) > 0.9


@pytest.mark.parametrize(
    ("one", "other"),
    [("a dog", "an umbrella"), ("puppies, four", "puppies, three"), ("dress, red", "dress, blue")],
)
def test_other_words_matter(one: str, other: str) -> None:
    assert alike(one, other) < 0.6


def test_swapping_two_things_is_seen() -> None:
    assert alike("man, left of, dog", "dog, left of, man") < 0.96


def test_synonyms_are_not_known() -> None:
    """A limit that docs/prove.md names."""
    assert alike("frock, crimson", "dress, red") < 0.2


@pytest.mark.parametrize("text", ["red dress", "", "?!", "\ud83d", "一人の女性"])
def test_equal_texts_are_alike_and_finite(text: str) -> None:
    assert alike(text, text) == pytest.approx(1)


def test_an_encoder_is_named_by_its_function() -> None:
    assert load_encoder("embedded") is embedded
    assert load_encoder(f"{__name__}:letters") is letters
    with pytest.raises(InputError, match=r"'no\.such:encoder' cannot be loaded"):
        load_encoder("no.such:encoder")
    with pytest.raises(InputError, match="':encoder' cannot be loaded: Empty module name"):
        load_encoder(":encoder")
    missing = find_spec("sentence_transformers") is None
    error = MissingDependencyError if missing else InputError
    with pytest.raises(error, match=r"'some/model' (needs `pip install|cannot be loaded)"):
        load_encoder("some/model")


def test_signatures_name_encoders_however_they_are_given() -> None:
    assert name_of("embedded") == "embedded-words-1"
    assert name_of(letters) == f"{__name__}:letters"
    assert name_of(Named()) == f"{__name__}:Named"


@pytest.mark.parametrize("wrong", [[[1.0]], [[float("nan")], [1.0]], [1.0, 2.0]])
def test_an_encoder_that_gives_something_else_is_named_as_the_fault(wrong: object) -> None:
    def encoder(_: list[str]) -> object:
        return wrong

    with pytest.raises(ValueError, match="no finite vector for each of 2 texts"):
        unit_vectors(encoder, ["a", "b"])


def test_a_librarys_encoder_is_named_with_the_librarys_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentence_transformers-9.8.dist-info").mkdir()
    (tmp_path / "sentence_transformers-9.8.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sentence-transformers\nVersion: 9.8\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert name_of("some/model") == "sentence-transformers-9.8:some/model"
    assert name_of("my.module:encode") == "my.module:encode"
