"""One reading of values as texts: every form of the same texts gives the same texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.text_values import as_column, is_placeholder, read_notation, read_text, read_texts
from posh_reward.types import Failure

Form = Callable[[Sequence[str]], object]


def in_csv(cell: str) -> str:
    """A cell as it comes back from a file of CSV."""
    file = io.StringIO()
    csv.writer(file).writerow([cell])
    [[back]] = csv.reader(io.StringIO(file.getvalue()))
    return back


def as_object_array(texts: Sequence[str]) -> object:
    return np.array([*texts, None], dtype=object)[:-1]


FORMS: dict[str, Form] = {
    "list": list,
    "tuple": tuple,
    "array": as_object_array,
    "array of str": lambda texts: np.array(texts).astype(object),
    "in a list": lambda texts: [list(texts)],
    "array in a list": lambda texts: [as_object_array(texts)],
    "JSON": json.dumps,
    "Python's notation": lambda texts: repr(list(texts)),
    "Python's notation of a tuple in a list": lambda texts: [repr(list(texts))],
    "NumPy's notation": lambda texts: str(as_object_array(texts)),
    "JSON in CSV": lambda texts: in_csv(json.dumps(texts)),
    "indented JSON": lambda texts: json.dumps(texts, indent=1),
    "Label Studio": lambda texts: [{"text": list(texts)}],
    "Label Studio in CSV": lambda texts: json.dumps([{"start": 0, "text": list(texts)}]),
    "a cell each": lambda texts: [{"text": text} for text in texts],
    "a list of one each": lambda texts: [[text] for text in texts],
    "parts of a message": lambda texts: [
        {"type": "image"}, *({"type": "text", "text": text} for text in texts)
    ],
    "with None": lambda texts: [None, *texts, None],
    "with NaN and blanks": lambda texts: [float("nan"), *texts, " ", ""],
    "NumPy's scalars, written": lambda texts: repr(list(np.array(texts))),
    "NumPy's notation with gaps": lambda texts: str(np.array([None, *texts, None], dtype=object)),
    "NumPy's repr": lambda texts: repr(as_object_array(texts)),
    "a tuple, written": lambda texts: repr(tuple(texts)),
    "a set, written": lambda texts: f"{{{', '.join(map(repr, dict.fromkeys(texts)))}}}",
    "captions": lambda texts: [{"image_id": 1, "caption": text} for text in texts],
    "captions, written": lambda texts: repr([{"caption": text} for text in texts]),
    "with NaN, written": lambda texts: f"[nan, {', '.join(map(repr, texts))}, None]",
}  # fmt: skip
ALPHABET = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
TEXTS = st.text(ALPHABET, min_size=1, max_size=30).filter(
    lambda text: bool(text.strip()) and read_notation(text) is None and not text.endswith("\0")
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@given(texts=st.lists(TEXTS, min_size=1, max_size=4, unique=True))
def test_every_form_of_texts_is_read_as_those_texts(form: Form, texts: list[str]) -> None:
    assert read_texts(form(texts)) == tuple(texts)


@given(text=TEXTS)
def test_a_text_alone_is_itself(text: str) -> None:
    assert read_texts(text) == (text,)
    assert read_text([[text]]) == text


@pytest.mark.parametrize(
    "text", ["", " ", "[1] A dog.", "[3]", "[INST] Describe. [/INST]", "[A dog] runs", "{}", "[]x"]
)
def test_a_text_with_brackets_is_no_list(text: str) -> None:
    assert read_texts(text) == (text,)


def test_a_list_that_was_cut_short_is_none() -> None:
    for value in ("['A dog.' ... 'A cat.']", "['A dog.', ..., 'A cat.']"):
        assert "was cut short" in str(read_texts(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("None", True), (" - ", True), ("N/A", True), ("", False), ("No dog.", False),
     ("Failed to obtain answer via API.", True), ("ERROR: out of memory", True)],
)  # fmt: skip
def test_placeholders(text: str, expected: bool) -> None:
    assert is_placeholder(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[b'A dog.' b'A cat.']", "[array(['A dog.', 'A cat.'], dtype=object)]",
        "[['A dog.' 'A cat.']\n ['B' 'C']]", "['A dog.' 'A cat.' ...]", '["A dog.", 5]',
        "[('A dog.', 0.9)]", "[{'text': 'A dog.'}, {'raw': 'A cat.'}]",
    ],
)  # fmt: skip
def test_what_is_written_like_a_list_is_no_text(text: str) -> None:
    assert "like a list, but is not one of texts" in str(read_texts(text))


def test_no_words_of_a_mapping_are_dropped() -> None:
    assert read_texts([{"type": "long", "text": "A dog."}, "A cat."]) == ("A dog.", "A cat.")
    for value in ({"text": "A dog.", "caption": "A cat."}, {"caption": "A.", "more": "It sleeps."}):
        assert isinstance(read_texts(value), Failure)


def test_numpy_leaves_out_commas() -> None:
    # Python alone would read 'a' 'b' as one text, "ab".
    assert read_texts("['A dog.' \"It's red.\"\n 'A nan b']") == ("A dog.", "It's red.", "A nan b")


def test_a_silent_model_wrote_an_empty_text() -> None:
    assert read_text([""]) == ""
    assert read_text([None, " "]) == " "


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "is missing"),
        (float("nan"), "is missing"),
        (np.float32("nan"), "is missing"),
        ([], "is missing"),
        ([None, float("nan")], "is missing"),
        (3, "is not a text but a value of type int"),
        (b"a", "is not a text but a value of type bytes"),
        ({"a", "b"}, "is not a text but a value of type set"),
        ({"391895": ["A dog."]}, "is not a text but a mapping with the keys '391895': pass"),
        ('{"391895": ["A dog."]}', "is not a text but a mapping with the keys '391895': pass"),
        (["A dog.", 3], "has 3 as item 2, which is not a text but a value of type int"),
        (["A dog.", ["a", "b"]], "as item 2, which is a list of 2 texts"),
        (["A dog.", {"a": "b"}], "as item 2, which is not a text but a mapping"),
    ],
)
def test_what_holds_no_text_fails_with_the_item_at_fault(value: object, reason: str) -> None:
    failure = read_texts(value)
    assert isinstance(failure, Failure)
    assert reason in failure.detail


@pytest.mark.parametrize("value", [["A dog.", "A cat."], "['A dog.', 'A cat.']"])
def test_two_texts_are_refused_where_one_is_meant(value: object) -> None:
    failure = read_text(value)
    assert isinstance(failure, Failure)
    assert "is a list of 2 texts" in failure.detail


def test_hostile_nesting_is_a_reason() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert read_texts(deep) == Failure("text", "is nested too deeply")
    assert read_texts("[" * 100_000 + "]" * 100_000) == ("[" * 100_000 + "]" * 100_000,)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("A dog.", "is one string"),
        ({"1": ["A dog."]}, "is a mapping or a table"),
        ({"A dog."}, "is a set"),
        (3, "is 3: pass a list"),
    ],
)
def test_an_argument_that_is_no_list_is_refused(values: object, reason: str) -> None:
    assert reason in str(as_column(values))
    assert as_column(iter(["A dog."])) == as_column(np.array(["A dog."])) == ["A dog."]
