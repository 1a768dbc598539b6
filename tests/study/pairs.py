"""Items of a table of pairs, and their rows."""

from posh_reward.metrics.records import write_row
from posh_reward.tables.engine import TableItem
from posh_reward.tables.tables import Row
from posh_reward.types import Scores


def pair_item(
    id: str | int,
    generation: object,
    reference: object,
    model: str | None = None,
    image: str | int | None = None,
) -> TableItem:
    """The item of a pair; a text that is not a ``str`` has no score."""
    return TableItem(id, {"generation": generation, "reference": reference}, model, image)


def scored_row(item: TableItem, scores: Scores) -> Row:
    """A row of ``posh-reward score --elements``."""
    return {**item.head, **write_row("posh", scores), **item.head}
