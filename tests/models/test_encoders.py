"""Encoders: the embedded one by what it sees and does not see, others by name."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.models.encoders import embedded, load_encoder, unit_vectors


def letters(texts: list[str]) -> np.ndarray[Any, Any]:
    """(texts, 26): how often each letter comes."""
    return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], float)


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


def test_swapping_two_things_is_seen() -> None:
    assert alike("man, left of, dog", "dog, left of, man") < 0.96


def test_an_encoder_is_named_by_its_function() -> None:
    assert load_encoder("embedded") is embedded
    assert load_encoder(f"{__name__}:letters") is letters
    with pytest.raises(InputError, match=r"'no\.such:encoder' cannot be imported"):
        load_encoder("no.such:encoder")
    with pytest.raises(InputError, match=r"':encoder' .*: Empty module name"):
        load_encoder(":encoder")
    missing = find_spec("sentence_transformers") is None
    error = MissingDependencyError if missing else InputError
    with pytest.raises(error, match=r"'some/model' (needs `pip install|cannot be loaded)"):
        load_encoder("some/model")


@pytest.mark.parametrize("wrong", [[[1.0]], [[float("nan")], [1.0]], [1.0, 2.0]])
def test_an_encoder_that_gives_something_else_is_named_as_the_fault(wrong: object) -> None:
    def encoder(_: list[str]) -> object:
        return wrong

    with pytest.raises(ValueError, match="no finite vector for each of 2 texts"):
        unit_vectors(encoder, ["a", "b"])
