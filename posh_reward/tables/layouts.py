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
ONLY_TEXT = "text of the layout"
"""Place of a layout's only text, until a command says what it is to it."""
DESCRIPTION_WRITERS = ("assistant", "gpt", "model")
"""Writers of the descriptions in a conversation."""
ROW_COLUMNS = frozenset(("id", "image_id", "caption", "generation", "reference"))
"""Columns by which an object is one of rows or columns, not of texts by id."""


class RowLayout(NamedTuple):
    """A layout of rows, known by the columns of the first one."""

    name: str
    fits: Callable[[Row], bool]
    columns: Callable[[Row], Row]  # our columns of a row; ``ONLY_TEXT`` for its only text
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
    layout = None
    if text not in first:
        layout = next((each for each in ROW_LAYOUTS if each.fits(first)), None)
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
        if ONLY_TEXT in ours:
            ours = {text: ours.pop(ONLY_TEXT), **ours}  # a column of that name goes before it
        yield {**row, **ours} if layout.replaces else {**ours, **row}


def _find_turns(row: Row) -> list[Any]:
    turns = row.get("conversations", row.get("messages"))
    if isinstance(turns, list) and turns and isinstance(turns[0], Mapping):
        return turns
    return []


def _read_conversation(row: Row) -> Row:
    texts = []
    for turn in _find_turns(row):
        if turn.get("from", turn.get("role")) in DESCRIPTION_WRITERS:
            content = turn["value"] if "value" in turn else turn["content"]
            texts.append(content_text(content) or content)
    text = next(iter(texts), None)
    if len(texts) > 1:
        text = Failure("text", f"has {len(texts)} turns of the assistant: keep its description")
    columns: Row = {ONLY_TEXT: text}
    if isinstance(images := row.get("images"), list) and len(images) == 1:
        columns["image"] = images[0]
    return columns


def _read_harness_sample(row: Row) -> Row:
    responses = "filtered_resps" if "filtered_resps" in row else "resps"
    return {"id": row["doc_id"], "generation": row[responses], "reference": row.get("target")}


def _read_vlmevalkit(row: Row) -> Row:
    columns = {"id": row["index"], "generation": row["prediction"]}
    if "answer" in row:
        columns["reference"] = row["answer"]
    return columns


ROW_LAYOUTS = (
    RowLayout("conversations", lambda row: bool(_find_turns(row)), _read_conversation),
    RowLayout(
        "samples of lm-eval and lmms-eval",
        lambda row: "doc_id" in row and ("filtered_resps" in row or "resps" in row),
        _read_harness_sample,
    ),
    RowLayout(
        "VLMEvalKit's predictions", lambda row: {"index", "prediction"} <= {*row}, _read_vlmevalkit
    ),
    RowLayout(
        "COCO's results",
        lambda row: {"image_id", "caption"} <= {*row},
        lambda row: {"id": row["image_id"], ONLY_TEXT: row["caption"]},
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
        if _are_tasks(document):
            yield from _read_label_studio(document, name, text)
        else:
            yield from document
    elif not isinstance(document, dict):
        raise InputError(f"{name} is not a list of JSON objects, but {shorten(document)}")
    elif _are_objects(document.get("annotations")):
        yield from _read_coco_annotations(document, name)
    elif _are_objects(document.get("images")):
        yield from _read_karpathy(document, name)
    elif rows := _read_data_frame(document, ROW_COLUMNS | {text}):
        yield from rows
    elif (ROW_COLUMNS | {text}) & document.keys():
        yield document
    elif document and all(map(_is_caption, document.values())):
        yield from ({"id": key, text: value} for key, value in document.items())
    else:
        raise InputError(
            f"{name} is a JSON object with the keys {shorten_list(document)}, a layout that is not "
            "known (data/README.md lists those that are): write a list of objects, or JSON lines"
        )


def _are_tasks(document: list[Row]) -> bool:
    return bool(document) and all(map(_is_task, document))


def _is_task(row: Row) -> bool:
    return isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list)


def _read_label_studio(tasks: list[Row], name: str, text: str) -> Iterator[Row]:
    """Rows of Label Studio's tasks: their data, and a column for each text area of any task."""
    written = []
    for number, task in enumerate(tasks, start=1):
        try:
            written.append(_read_text_areas(task))
        except (AttributeError, KeyError, TypeError):
            raise InputError(f"{name}, task {number}: not as Label Studio exports it") from None
    areas = list(dict.fromkeys(chain.from_iterable(written)))
    is_data = any(text in task["data"] for task in tasks)
    only = None
    if len(areas) == 1 and text not in areas:
        [only] = areas
    if only and is_data and text == "reference":
        raise InputError(
            f"{name} has texts in the area {only!r} and in its data's {text!r}: name the area "
            f"with --reference {only}, or rename the other"
        )
    for task, own in zip(tasks, written, strict=True):
        # The task's number is Label Studio's own; an id in the data is the user's.
        row = {"id": task.get("id"), **task["data"], **dict.fromkeys(areas), **own}
        if only and not is_data:
            row[text] = own.get(only)
        yield row


def _read_text_areas(task: Row) -> dict[str, list[object]]:
    """Texts of each text area, by all annotators."""
    areas: dict[str, list[object]] = {}
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        for result in annotation["result"]:
            if result.get("type") == "textarea":
                text = result["value"]["text"]
                own = areas.setdefault(result["from_name"], [])
                own.extend(text if isinstance(text, list) else [text])
    return areas


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _read_coco_annotations(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    captions: dict[Any, list[Any]] = {}
    for annotation in document["annotations"]:
        if "caption" not in annotation or "image_id" not in annotation:
            raise InputError(
                f"{name} has annotations without a caption, such as {shorten(annotation)}: name "
                "COCO's file of captions"
            )
        captions.setdefault(annotation["image_id"], []).append(annotation["caption"])
    images: Any = document.get("images")
    files = {}
    if _are_objects(images):
        files = {image.get("id"): image.get("file_name") for image in images}
    for id, texts in captions.items():
        yield {"id": id, "image": files.get(id), "reference": texts}


def _read_karpathy(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    for place, image in enumerate(document["images"]):
        sentences = image.get("sentences")
        if not _are_objects(sentences) or any("raw" not in each for each in sentences):
            raise InputError(f"{name}: image {place} has no sentences with a raw text")
        texts = [each["raw"] for each in sentences]
        id = image.get("cocoid", image.get("imgid", place))
        shown = {"image": image.get("filename"), "split": image.get("split")}
        yield {"id": id, **shown, "reference": texts}


def _read_data_frame(document: Mapping[str, Any], known: Set[str]) -> list[Row]:
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
        rows = []
        for label in labels:
            rows.append({name: cells[label] for name, cells in document.items()})
    elif all(known & cells.keys() for cells in parts):
        labels, rows = list(document), parts
    else:
        return []
    if labels == list(map(str, range(len(labels)))):
        return rows
    return [{"id": label, **row} for label, row in zip(labels, rows, strict=True)]


def _is_caption(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_caption, value))
    if isinstance(value, dict):
        return isinstance(value.get("caption"), str)
    return isinstance(value, str) or is_missing(value)
