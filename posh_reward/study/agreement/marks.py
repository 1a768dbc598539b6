"""Texts in which people marked mistakes and omissions, span by span."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from posh_reward.errors import InputError
from posh_reward.study.agreement.items import Pair
from posh_reward.study.agreement.sources import as_list, check_columns, image_of, text_of
from posh_reward.study.agreement.spans import token_spans
from posh_reward.study.rows.tables import Row
from posh_reward.types import Span

AXES = ("mistakes", "omissions")


@dataclass(frozen=True)
class MarkColumns:
    """What the columns of a table of marked texts are called."""

    generation: str = "generation"
    reference: str = "reference"
    mistakes: str = "mistakes"
    """Spans in the generation: ``[[start, end], ...]`` or ``[{"start": ..., "end": ...}, ...]``."""
    omissions: str = "omissions"
    """Spans in the reference."""
    image: str = "uuid"


@dataclass(frozen=True)
class Marked:
    """Texts with people's marks."""

    name: str
    pairs: Sequence[Pair]
    marks: Mapping[str, Sequence[Sequence[Span]]]
    """Axis -> (texts,) marked spans."""
    groups: Sequence[Hashable]

    def tokens(self, axis: str, text: int) -> list[Span]:
        """Tokens of the text that an axis is marked in."""
        pair = self.pairs[text]
        return token_spans(pair.generation if axis == "mistakes" else pair.reference)


def marked(rows: Sequence[Row], columns: MarkColumns, name: str) -> Marked:
    """The marked texts of a table.

    Raises:
        InputError: a column is missing, a cell is not a text, or spans are not within the text.
    """
    names = ("generation", "reference", *AXES)
    check_columns(rows, {f"--{each}": getattr(columns, each) for each in names}, name)
    pairs: list[Pair] = []
    groups: list[Hashable] = []
    marks: dict[str, list[list[Span]]] = {axis: [] for axis in AXES}
    for place, row in enumerate(rows, start=1):
        where = f"{name}, row {place}"
        texts = [text_of(row, getattr(columns, each), where) for each in names[:2]]
        image = image_of(row, columns.image)
        pairs.append(Pair(texts[0], texts[1], image))
        groups.append(place if image is None else image)
        for axis, text in zip(AXES, texts, strict=True):
            marks[axis].append(_spans(row, getattr(columns, axis), text, where))
    return Marked(name, pairs, marks, groups)


def _spans(row: Row, column: str, text: str, where: str) -> list[Span]:
    cells = as_list(row.get(column))
    if cells is None:
        raise InputError(f"{where}: {column} is {str(row.get(column))[:40]!r}, not a list of spans")
    found = []
    for cell in cells:
        match cell:
            case [int(start), int(end)] | {"start": int(start), "end": int(end)}:
                pass
            case _:
                raise InputError(f"{where}: {column} has {str(cell)[:40]}, not [start, end]")
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{where}: {column} has {start} to {end}, not within a text of {len(text)} "
                "characters: spans are [start, end), in characters from 0"
            )
        found.append((start, end))
    return found
