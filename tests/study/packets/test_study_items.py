"""Rows of generations -> items to compare."""

from typing import Any

import pytest

from posh_reward.errors import InputError
from posh_reward.study.packets.make import items_of
from posh_reward.study.rows.engine import Columns

COLUMNS = Columns(id="id")


def row(name: object, model: str | None, **more: Any) -> dict[str, Any]:
    texts = {"generation": f" A {model} dog. ", "reference": "A dog.", "image": "a.png"}
    return {"id": name, "model": model, **texts, **more}


def test_rows_are_grouped_by_id() -> None:
    rows = [row(1, "a"), row(2, "a"), row("1", "b"), row(3, "b")]
    found = items_of(rows, COLUMNS)
    assert found.models == ("a", "b")
    assert [item.id for item in found.items] == ["1"]
    assert found.items[0].texts == {"a": "A a dog.", "b": "A b dog."}
    assert found.incomplete == ("2", "3")


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (row("1", "a"), "row 2, id '1': the id '1' occurs twice for the model 'a'"),
        (row("1", "b", reference="A cat."), "has the reference 'A cat.', and in an earlier row"),
        (row("1", "b", image="b.png"), "has the image 'b.png', and in an earlier row 'a.png'"),
        (row("1", "b", generation=" "), "no text in the column 'generation'"),
        (row("1", "b", reference=None), "no text in the column 'reference'"),
        (row("1", None), "no model"),
        (row(None, "b"), "the id is missing"),
        (row("2", "a"), "two models are needed to compare, and there is only 'a'"),
        (row("2", "b"), "no id has a generation of every model"),
    ],
)
def test_rows_that_cannot_be_compared_are_named(last: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        items_of([row("1", "a"), last], COLUMNS)
