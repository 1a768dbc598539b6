"""Rows of generations -> items that all models wrote about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph.reader import is_missing
from posh_reward.settings import brief
from posh_reward.study.packets.study_records import StudyItem
from posh_reward.study.pages.html import image_uri
from posh_reward.study.pages.thumbnails import as_jpeg, small_copy
from posh_reward.study.rows.dataset_images import DatasetImages, number_of
from posh_reward.study.rows.table_items import Columns, read_items
from posh_reward.study.rows.tables import Row

SIDE = 1024  # longer side in pixels: 100 to 250 kB an image


class Album:
    """The images of items, as raters see them."""

    def __init__(
        self, folders: Sequence[Path], dataset: DatasetImages | None = None, side: int = SIDE
    ) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise MissingDependencyError("images need Pillow: pip install pillow") from None
        self._folders = (Path(), *folders)
        self._dataset = dataset
        self._side = side

    def uri(self, item: StudyItem) -> str:
        copy = None
        number = number_of(item.image)
        if number is not None:
            # In another dataset the number is another image, which would mislead raters.
            dataset = self._dataset
            if dataset is not None and dataset.row(number, item.id, item.reference) is not None:
                copy = as_jpeg(dataset.image(number), self._side)
        elif isinstance(item.image, str) and item.image:
            files = (folder / item.image for folder in self._folders)
            copy = next(filter(None, (small_copy(file, self._side) for file in files)), None)
        if copy is None:
            raise InputError(
                f"the image {item.image!r} of {item.id!r} cannot be found or read: run the "
                "command in the folder that the path is relative to, or name the dataset whose "
                "rows image numbers (--dataset, --split), or leave images out (--no-images)"
            )
        return image_uri(copy)


@dataclass(frozen=True, slots=True)
class StudyItems:
    """Items to compare."""

    models: tuple[str, ...]
    items: tuple[StudyItem, ...]
    incomplete: tuple[str, ...]  # ids without a generation of every model


def items_of(rows: Iterable[Row], columns: Columns) -> StudyItems:
    """Group rows by id."""
    items: dict[str, StudyItem] = {}
    models: dict[str, None] = {}
    for number, row in enumerate(rows, start=1):
        try:
            item, model = _item(row, columns)
            _add(items, item, model)
        except InputError as error:
            name = row.get(columns.id or "id")
            which = f"row {number}{'' if is_missing(name) else f', id {name!r}'}"
            raise InputError(f"{which}: {error}") from None
        models[model] = None
    if len(models) < 2:
        there = f"only {next(iter(models))!r}" if models else "none"
        raise InputError(f"two models are needed to compare, and there is {there}")
    # A preference needs both models on one item; otherwise images would be compared, not models.
    complete = [item for item in items.values() if len(item.texts) == len(models)]
    if not complete:
        raise InputError("no id has a generation of every model: do the ids of the models agree?")
    return StudyItems(
        tuple(models),
        tuple(replace(item, texts={m: item.texts[m] for m in models}) for item in complete),
        tuple(name for name, item in items.items() if len(item.texts) < len(models)),
    )


def _item(row: Row, columns: Columns) -> tuple[StudyItem, str]:
    [item] = read_items([row], columns)
    if item.model is None:
        raise InputError(f"no model in the column {columns.model or 'model'!r}: fill it in")
    model = _whole(item.model)
    text = _text(item.texts["generation"], columns.texts["generation"])
    column = columns.texts["reference"]
    reference = _text(item.texts["reference"], column) if column else ""
    return StudyItem(_whole(str(item.id)), reference, {model: text}, item.image), model


def _whole(text: str) -> str:
    # Neither a page nor the key can encode lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")


def _text(value: object, column: str | None) -> str:
    if is_missing(value) or not isinstance(value, str) or not value.strip():
        raise InputError(f"no text in the column {column!r}: raters need one")
    return _whole(value.strip()).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _add(items: dict[str, StudyItem], item: StudyItem, model: str) -> None:
    earlier = items.setdefault(item.id, replace(item, texts={}))
    if model in earlier.texts:
        raise InputError(f"the id {item.id!r} occurs twice for the model {model!r}")
    for name in ("reference", "image"):
        before, now = getattr(earlier, name), getattr(item, name)
        if before != now:
            raise InputError(
                f"the id {item.id!r} has the {name} {brief(now)}, and in an earlier row "
                f"{brief(before)}: all generations of an id need the same one"
            )
    earlier.texts[model] = item.texts[model]


def rows_with_models(rows: Iterable[Row], column: str, model: str | None) -> Iterator[Row]:
    """The rows of a file, with ``model``, if given, where a row names none."""
    for row in rows:
        yield row if model is None or not is_missing(row.get(column)) else {**row, column: model}
