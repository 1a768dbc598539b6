"""Layouts of other programs' files -> rows with the columns id, image, generation, reference.

A layout is known by its keys, never by the name of the file. Columns that a row has already stay,
so that flags can name them. ``data/README.md`` lists the layouts, ``data/examples`` has a file of
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from posh_reward.errors import InputError
from posh_reward.settings import brief, brief_list
from posh_reward.types import is_missing

Row = dict[str, Any]  # a row of any table, by column
TEXT = "text of the layout"
"""Place of a layout's only text, until a command says what it is to it."""
WRITERS = ("assistant", "gpt")
"""Who writes the descriptions in a conversation."""
COLUMNS = ("generation", "reference")
"""Columns by which an object is one row, not texts by id."""


class RowLayout(NamedTuple):
    """A layout of rows."""

    name: str
    fits: Callable[[Row], bool]
    columns: Callable[[Row], Row]  # our columns of a row; ``TEXT`` for its only text
    replaces: bool = False  # True if our columns go before the row's own of the same name


def known_columns(rows: Iterable[Row], text: str) -> Iterator[Row]:
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
                f"{brief_list(row)}"
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
    columns: Row = {TEXT: written[0] if len(written) == 1 else written or None}
    if isinstance(images := row.get("images"), list) and len(images) == 1:
        columns["image"] = images[0]
    return columns


def _label_studio(row: Row) -> Row:
    areas: dict[str, list[object]] = {}
    for annotation in row["annotations"]:
        for result in [] if annotation.get("was_cancelled") else annotation["result"]:
            if result.get("type") == "textarea":
                text = result["value"]["text"]
                areas.setdefault(result["from_name"], []).extend(
                    text if isinstance(text, list) else [text]
                )
    only = {TEXT: next(iter(areas.values()))} if len(areas) == 1 else {}
    return {"id": row["id"], **row["data"], **areas, **only}


def _harness_sample(row: Row) -> Row:
    said = row["filtered_resps"] if "filtered_resps" in row else row["resps"]
    return {"id": row["doc_id"], "generation": said, "reference": row.get("target")}


def _vlmevalkit(row: Row) -> Row:
    answer = {"reference": row["answer"]} if "answer" in row else {}
    return {"id": row["index"], "generation": row["prediction"], **answer}


ROW_LAYOUTS = (
    RowLayout(
        "Label Studio's export",
        lambda row: isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list),
        _label_studio,
        replaces=True,  # a task's id is Label Studio's own; the data's is the user's
    ),
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
    ),
)


def document_rows(document: object, name: str, text: str) -> Iterator[Row]:
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
                raise InputError(f"{name}, item {number}: not a JSON object, but {brief(row)}")
            yield row
    elif not isinstance(document, dict):
        raise InputError(f"{name} is not a list of JSON objects, but {brief(document)}")
    elif _are_objects(document.get("images")) and _are_objects(document.get("annotations")):
        yield from _coco_annotations(document, name)
    elif _are_objects(document.get("images")):
        yield from _karpathy(document, name)
    elif _are_columns(document):
        labels = next(iter(document.values()))
        yield from ({key: cells[label] for key, cells in document.items()} for label in labels)
    elif {text, *COLUMNS} & document.keys():
        yield document
    elif document and all(map(_is_caption, document.values())):
        yield from ({"id": key, text: _captions(value)} for key, value in document.items())
    else:
        raise InputError(
            f"{name} is a JSON object with the keys {brief_list(document)}, which is no layout "
            "that is read (data/README.md): write a list of objects, or JSON lines"
        )


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _coco_annotations(document: Mapping[str, Any], name: str) -> Iterator[Row]:
    captions: dict[Any, list[Any]] = {}
    for annotation in document["annotations"]:
        if "caption" not in annotation or "image_id" not in annotation:
            raise InputError(
                f"{name} has annotations without a caption, such as {brief(annotation)}: name "
                "COCO's file of captions"
            )
        captions.setdefault(annotation["image_id"], []).append(annotation["caption"])
    files = {image.get("id"): image.get("file_name") for image in document["images"]}
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


def _are_columns(document: Mapping[str, Any]) -> bool:
    """Return True for a data frame's columns: ``{"id": {"0": 7}, "caption": {"0": "..."}}``."""
    columns = list(document.values())
    return (
        bool(columns)
        and all(isinstance(cells, dict) for cells in columns)
        and all(cells.keys() == columns[0].keys() for cells in columns)
        and bool(columns[0])
    )


def _is_caption(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_caption(each) for each in value)
    if isinstance(value, dict):
        return isinstance(value.get("caption"), str)
    return isinstance(value, str) or is_missing(value)


def _captions(value: object) -> object:
    """Texts of an id, which pycocoevalcap writes as ``[{"caption": "..."}]``."""
    if isinstance(value, list):
        return [_captions(each) for each in value]
    return value["caption"] if isinstance(value, dict) else value
