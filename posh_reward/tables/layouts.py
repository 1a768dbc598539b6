"""Layouts of other programs' files -> rows with the columns id, image, generation, reference.

A layout is known by its keys, never by the name of the file. Columns that a row has already stay,
so that flags can name them. ``data/README.md`` lists the layouts, ``data/examples`` has a file of
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any, NamedTuple

from posh_reward.errors import InputError
from posh_reward.settings import shorten, shorten_list
from posh_reward.text_values import content_text
from posh_reward.types import Failure, is_missing

Row = dict[str, Any]  # a row of any table, by column
TEXT = "text of the layout"
"""Place of a layout's only text, until a command says what it is to it."""
WRITERS = ("assistant", "gpt", "model")
"""Writers of the descriptions in a conversation."""
KNOWN = frozenset(("id", "image_id", "caption", "generation", "reference"))
"""Columns by which an object is one of rows or columns, not of texts by id."""


class RowLayout(NamedTuple):
    """A layout of rows, known by the columns of the first one."""

    name: str
    fits: Callable[[Row], bool]
    columns: Callable[[Row], Row]  # our columns of a row; ``TEXT`` for its only text
    replaces: bool = False  # True if our columns go before the row's own of the same name


def add_known_columns(rows: Iterable[Row], text: str) -> Iterator[Row]:
    """Add our columns to rows of a layout, which the first row shows; pass on all others.

    Args:
        rows: rows of a table.
        text: name of the column for the text of a layout that has only one.

    Raises:
        InputError: a later row has another layout.
    """
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    layout = next((each for each in ROW_LAYOUTS if text not in first and each.fits(first)), None)
    if layout is None:
        yield from chain([first], rows)
        return
    for number, row in enumerate(chain([first], rows), start=1):
        try:
            ours = layout.columns(row)
        except (AttributeError, KeyError, TypeError):
            raise InputError(
                f"row {number} is not one of {layout.name}, as the first is: it has "
                f"{shorten_list(row)}"
            ) from None
        if TEXT in ours:
            ours = {text: ours.pop(TEXT), **ours}  # a column of that name goes before it
        yield {**row, **ours} if layout.replaces else {**ours, **row}


def _turns(row: Row) -> list[Any]:
    turns = row.get("conversations", row.get("messages"))
    return turns if isinstance(turns, list) and turns and isinstance(turns[0], Mapping) else []


def _conversation(row: Row) -> Row:
    written = [
        turn["value"] if "value" in turn else turn["content"]
        for turn in _turns(row)
        if turn.get("from", turn.get("role")) in WRITERS
    ]
    texts = [content_text(each) or each for each in written]
    several = Failure("text", f"has {len(texts)} turns of the assistant: keep its description")
    columns: Row = {TEXT: several if len(texts) > 1 else next(iter(texts), None)}
    if isinstance(images := row.get("images"), list) and len(images) == 1:
        columns["image"] = images[0]
    return columns


def _harness_sample(row: Row) -> Row:
    said = row["filtered_resps"] if "filtered_resps" in row else row["resps"]
    return {"id": row["doc_id"], "generation": said, "reference": row.get("target")}


def _vlmevalkit(row: Row) -> Row:
    answer = {"reference": row["answer"]} if "answer" in row else {}
    return {"id": row["index"], "generation": row["prediction"], **answer}


ROW_LAYOUTS = (
    RowLayout("conversations", lambda row: bool(_turns(row)), _conversation),
    RowLayout(
        "samples of lm-eval and lmms-eval",
        lambda row: "doc_id" in row and ("filtered_resps" in row or "resps" in row),
        _harness_sample,
    ),
    RowLayout(
        "VLMEvalKit's predictions", lambda row: {"index", "prediction"} <= {*row}, _vlmevalkit
    ),
    RowLayout(
        "COCO's results",
        lambda row: {"image_id", "caption"} <= {*row},
        lambda row: {"id": row["image_id"], TEXT: row["caption"]},
        replaces=True,  # a caption's own id names no image
    ),
)


def read_document(document: object, name: str, text: str) -> Iterator[Row]:
    """Rows of a JSON document; those of a list still have their own columns.

    Args:
        document: what the file holds.
        name: of the file, for messages.
        text: name of the column for the text of a layout that has only one.

    Raises:
        InputError: the document has no layout that is known.
    """
    if isinstance(document, list):
        for number, row in enumerate(document, start=1):
            if not isinstance(row, dict):
                raise InputError(f"{name}, item {number}: not a JSON object, but {shorten(row)}")
        yield from _label_studio(document, name, text) if _are_tasks(document) else document
    elif not isinstance(document, dict):
        raise InputError(f"{name} is not a list of JSON objects, but {shorten(document)}")
    elif _are_objects(document.get("annotations")):
        yield from _coco_annotations(document, name)
    elif _are_objects(document.get("images")):
        yield from _karpathy(document, name)
    elif rows := _data_frame(document, KNOWN | {text}):
        yield from rows
    elif (KNOWN | {text}) & document.keys():
        yield document
    elif document and all(map(_is_caption, document.values())):
        yield from ({"id": key, text: value} for key, value in document.items())
    else:
        raise InputError(
            f"{name} is a JSON object with the keys {shorten_list(document)}, a layout that is not "
            "known (data/README.md lists those that are): write a list of objects, or JSON lines"
        )


def _are_tasks(document: list[Row]) -> bool:
    return bool(document) and all(
        isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list)
        for row in document
    )


def _label_studio(tasks: list[Row], name: str, text: str) -> Iterator[Row]:
    """Rows of Label Studio's tasks: their data, and a column for each text area of any task."""
    written = []
    for number, task in enumerate(tasks, start=1):
        try:
            written.append(_areas(task))
        except (AttributeError, KeyError, TypeError):
            raise InputError(f"{name}, task {number}: not as Label Studio exports it") from None
    areas = list(dict.fromkeys(area for each in written for area in each))
    is_data = any(text in task["data"] for task in tasks)
    only = areas[0] if len(areas) == 1 and text not in areas else None
    if only and is_data and text == "reference":
        raise InputError(
            f"{name} has texts in the area {only!r} and in its data's {text!r}: name the area "
            f"with --reference {only}, or rename the other"
        )
    for task, own in zip(tasks, written, strict=True):
        # The task's number is Label Studio's own; an id in the data is the user's.
        row = {"id": task.get("id"), **task["data"], **dict.fromkeys(areas), **own}
        yield {**row, text: own.get(only)} if only and not is_data else row


def _areas(task: Row) -> dict[str, list[object]]:
    """Texts of each text area, by all annotators."""
    areas: dict[str, list[object]] = {}
    for annotation in task["annotations"]:
        for result in [] if annotation.get("was_cancelled") else annotation["result"]:
            if result.get("type") == "textarea":
                text = result["value"]["text"]
                own = areas.setdefault(result["from_name"], [])
                own.extend(text if isinstance(text, list) else [text])
    return areas


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _coco_annotations(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    captions: dict[Any, list[Any]] = {}
    for annotation in document["annotations"]:
        if "caption" not in annotation or "image_id" not in annotation:
            raise InputError(
                f"{name} has annotations without a caption, such as {shorten(annotation)}: name "
                "COCO's file of captions"
            )
        captions.setdefault(annotation["image_id"], []).append(annotation["caption"])
    images: Any = document.get("images") if _are_objects(document.get("images")) else []
    files = {image.get("id"): image.get("file_name") for image in images}
    for id, texts in captions.items():
        yield {"id": id, "image": files.get(id), "reference": texts}


def _karpathy(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    for place, image in enumerate(document["images"]):
        sentences = image.get("sentences")
        if not _are_objects(sentences) or any("raw" not in each for each in sentences):
            raise InputError(f"{name}: image {place} has no sentences with a raw text")
        texts = [each["raw"] for each in sentences]
        id = image.get("cocoid", image.get("imgid", place))
        shown = {"image": image.get("filename"), "split": image.get("split")}
        yield {"id": id, **shown, "reference": texts}


def _data_frame(document: Mapping[str, Any], known: Set[str]) -> list[Row]:
    """Rows of a data frame as pandas writes it, by columns or by rows; none if it is no such.

    ``{"id": {"0": 7}, "caption": {"0": "..."}}``, ``{"0": {"id": 7, "caption": "..."}}`` or
    ``{"id": [7], "caption": ["..."]}``.
    """
    parts = list(document.values())
    if not parts or not parts[0]:
        return []
    if all(isinstance(cells, list) and len(cells) == len(parts[0]) for cells in parts):
        if not known & document.keys():
            return []
        return [dict(zip(document, cells, strict=True)) for cells in zip(*parts, strict=True)]
    if not all(isinstance(cells, dict) for cells in parts):
        return []
    labels = list(parts[0])
    if known & document.keys() and all(cells.keys() == parts[0].keys() for cells in parts):
        rows = [{name: cells[label] for name, cells in document.items()} for label in labels]
    elif all(known & cells.keys() for cells in parts):
        labels, rows = list(document), parts
    else:
        return []
    if labels == [str(place) for place in range(len(labels))]:
        return rows
    return [{"id": label, **row} for label, row in zip(labels, rows, strict=True)]


def _is_caption(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_caption(each) for each in value)
    if isinstance(value, dict):
        return isinstance(value.get("caption"), str)
    return isinstance(value, str) or is_missing(value)
