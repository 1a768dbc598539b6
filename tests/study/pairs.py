"""Items of a table of pairs."""

from __future__ import annotations

from posh_reward.study.rows.table_items import TableItem


def pair_item(
    id: str | int,
    generation: object,
    reference: object,
    model: str | None = None,
    image: str | int | None = None,
) -> TableItem:
    """The item of a pair; a text that is not a ``str`` has no score."""
    return TableItem(id, {"generation": generation, "reference": reference}, model, image)
