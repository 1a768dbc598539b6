"""Rows of a table -> items to score, such as pairs, one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from posh_reward.datasets.image_files import path_exists
from posh_reward.errors import InputError
from posh_reward.graph.reader import is_missing
from posh_reward.metrics.metric import joined_references
from posh_reward.settings import brief, brief_list
from posh_reward.study.rows.tables import Row

PAIR = {"generation": "generation", "reference": "reference"}
IMAGE_ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp")
"""Endings to try after a name in a folder of images."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of a table's columns."""

    # Name in our rows -> column; None: the table lacks it, and the text is missing.
    texts: Mapping[str, str | None] = field(default_factory=lambda: dict(PAIR))
    id: str | None = None  # None: count rows from 1
    model: str | None = None  # author of the generation; None: ``model``, if there is one
    # Path or dataset row of the image, for a metric that looks; None: ``image``, if there is one.
    image: str | None = None


@dataclass(frozen=True, slots=True)
class TableItem:
    """One row to score."""

    id: str | int
    # By name; ``reference`` may be a list of texts. Any other value has no score.
    texts: Mapping[str, Any]
    model: str | None = None
    image: str | int | None = None
    content: Any = None  # cell of the image, for a metric that looks at it; not in scored rows

    @property
    def head(self) -> Row:
        """Columns that the scored row repeats; ``model`` and ``image`` only where present."""
        names = {"model": self.model, "image": self.image}
        return {
            "id": self.id,
            **{key: value for key, value in names.items() if value is not None},
            **{key: _one_text(text) for key, text in self.texts.items()},
        }


def _one_text(value: object) -> str | None:
    if isinstance(value, list) and value and {str} == set(map(type, value)):
        return joined_references(value)
    return value if isinstance(value, str) else None


def check_rows(rows: Iterable[Row], name: str, columns: Columns) -> Iterator[Row]:
    """Pass on the rows of a table whose columns, ids and models are usable."""
    # Digests take 16 bytes a row, however long the ids of a table of millions are.
    digests: set[bytes] = set()
    number = 0
    for number, row in enumerate(rows, start=1):
        if number == 1:
            others = {"id": columns.id, "model": columns.model, "image": columns.image}
            for flag, column in {**columns.texts, **others}.items():
                check_column(row, name, flag, column)
        try:
            model = _model(row, columns)
            key = None if columns.id is None else _id(row.get(columns.id))
        except InputError as error:
            raise InputError(f"{name}, row {number}: {error}") from None
        if key is not None:
            digest = blake2b(repr((str(key), model)).encode(), digest_size=16).digest()
            if digest in digests:
                whose = "" if model is None else f" for the model {brief(model)}"
                raise InputError(
                    f"{name}, row {number}: the id {brief(str(key))} occurs twice{whose}: make ids "
                    "unique, or leave out --id to count rows"
                )
            digests.add(digest)
        yield row
    if not number:
        raise InputError(f"{name} has no rows")


def check_column(present: Mapping[str, object], name: str, flag: str, column: str | None) -> None:
    """Raise ``InputError`` if ``column`` is missing; None requires no column."""
    if column is not None and column not in present:
        names, flag = brief_list(present), flag.replace("_", "-")
        raise InputError(
            f"{name} has no column {brief(column)}, but {names}: name the right one with --{flag}"
            + (", or the --delimiter" if len(present) == 1 else "")
        )


def read_items(rows: Iterable[Row], columns: Columns) -> Iterator[TableItem]:
    """The items of a table; a missing cell makes an item that cannot be scored."""
    for number, row in enumerate(rows, start=1):
        content = row.get(columns.image or "image")
        yield TableItem(
            number if columns.id is None else _id(row.get(columns.id)),
            {
                name: None if column is None else row.get(column)
                for name, column in columns.texts.items()
            },
            _model(row, columns),
            _place(content),
            content,
        )


def _id(value: object) -> str | int:
    if is_missing(value) or value == "":
        raise InputError("the id is missing: fill it in, or leave out --id to count rows")
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"the id {brief(value)} contains a NUL, which not every file can hold")
    if isinstance(value, str | int):
        return value
    if isinstance(value, list | dict):
        raise InputError("the id is not a text or a number")
    return str(value)


def _model(row: Row, columns: Columns) -> str | None:
    value = row.get(columns.model or "model")
    if isinstance(value, list | dict):
        raise InputError("the model is not a text: name the right column with --model")
    return None if is_missing(value) else str(value)


def _place(value: object) -> str | int | None:
    """Path or row of an image, without the pixels that datasets store beside it."""
    if isinstance(value, Mapping):
        value = value.get("path")
    return value if isinstance(value, str | int) else None


def with_images(items: Iterable[TableItem], folder: Path) -> Iterator[TableItem]:
    """The items, with the path of each image resolved: as it is, or else relative to ``folder``."""
    for item in items:
        path = item.content.get("path") if isinstance(item.content, Mapping) else item.content
        has_bytes = isinstance(item.content, Mapping) and item.content.get("bytes") is not None
        if not has_bytes and isinstance(path, str) and path and not path_exists(path):
            item = replace(item, content=image_file(folder, path) or path)
        yield item


def image_file(folder: Path, name: str) -> str | None:
    """Path of an image in a folder, with or without its ending; None if missing."""
    paths = (f"{folder / name}{ending}" for ending in IMAGE_ENDINGS)
    return next((path for path in paths if path_exists(path)), None)
