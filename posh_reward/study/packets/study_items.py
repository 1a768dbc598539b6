"""Rows of generations -> items that all models wrote about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph.reader import is_missing
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


LISTED = 50  # faulty rows listed in a message


@dataclass(frozen=True, slots=True)
class StudyItems:
    """Items to compare."""

    models: tuple[str, ...]
    items: tuple[StudyItem, ...]
    incomplete: tuple[str, ...]  # ids without a generation of every model


def items_of(rows: Iterable[Row], columns: Columns) -> StudyItems:
    """Group rows by id."""
    groups: dict[str, dict[str, StudyItem]] = {}
    models: dict[str, None] = {}
    faults: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            item, model = _item(row, columns)
            _add(groups.setdefault(item.id, {}), item, model)
        except InputError as error:
            name = row.get(columns.id or "id")
            faults.append(f"row {number}{'' if is_missing(name) else f', id {name!r}'}: {error}")
            continue
        models[model] = None
    if len(faults) > 1:
        more = [f"and {len(faults) - LISTED} more"] if len(faults) > LISTED else []
        raise InputError("\n  ".join([f"{len(faults)} rows:", *faults[:LISTED], *more]))
    if faults:
        raise InputError(faults[0])
    if len(models) < 2:
        there = f"only {next(iter(models))!r}" if models else "none"
        raise InputError(f"two models are needed to compare, and there is {there}")
    # A preference needs both models on one item; otherwise images would be compared, not models.
    complete = [group for group in groups.values() if len(group) == len(models)]
    if not complete:
        raise InputError("no id has a generation of every model: do the ids of the models agree?")
    return StudyItems(
        tuple(models),
        tuple(_join_models(group, tuple(models)) for group in complete),
        tuple(name for name, group in groups.items() if len(group) < len(models)),
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


def _add(group: dict[str, StudyItem], item: StudyItem, model: str) -> None:
    if model in group:
        raise InputError(f"the id {item.id!r} occurs twice for the model {model!r}")
    for other in group.values():
        if other.reference != item.reference:
            raise InputError(
                f"the id {item.id!r} has another reference than in an earlier row: all generations "
                "of an id need the same one"
            )
        if other.image != item.image:
            raise InputError(
                f"the id {item.id!r} has the image {item.image!r}, and in an earlier row "
                f"{other.image!r}: all generations of an id need the same one"
            )
    group[model] = item


def _join_models(group: Mapping[str, StudyItem], models: Sequence[str]) -> StudyItem:
    first = group[models[0]]
    return StudyItem(
        first.id,
        first.reference,
        {model: group[model].texts[model] for model in models},
        first.image,
    )


def rows_with_models(rows: Iterable[Row], column: str, model: str | None) -> Iterator[Row]:
    """The rows of a file, with ``model``, if given, where a row names none."""
    for row in rows:
        yield row if model is None or not is_missing(row.get(column)) else {**row, column: model}
