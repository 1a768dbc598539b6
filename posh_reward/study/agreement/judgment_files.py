"""People's judgments from the hub, a saved dataset, or a file of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TypeVar

from posh_reward.datasets.images import path_exists
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.settings import shorten, shorten_list
from posh_reward.tables import tables
from posh_reward.tables.engine import find_image
from posh_reward.tables.reading import open_rows
from posh_reward.text_values import plain_value, read_text, read_texts
from posh_reward.types import Failure

T = TypeVar("T")


def read_rows(
    name: str,
    *,
    split: str = "test",
    format: str | None = None,
    delimiter: str | None = None,
    images: bool = False,
    text: str = "generation",
) -> list[tables.Row]:
    """Read all rows of a file, a saved dataset, or a dataset on the hub.

    ``text`` is the column for the text of a layout that has only one.
    """
    endings = (*tables.FORMAT_BY_ENDING, ".json", ".xlsx")
    is_file = path_exists(name) and not Path(name).is_dir()
    if name == tables.STANDARD_STREAM or is_file or name.lower().endswith(endings):
        with open_rows(name, format, delimiter, text) as table:
            rows = list(table)
    else:
        rows = _load_dataset(name, split, images)
    if not rows:
        raise InputError(f"{tables.display_name(name)} has no rows")
    return rows


def read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from None


def _load_dataset(name: str, split: str, images: bool) -> list[tables.Row]:
    try:
        from posh_reward.datasets.load_dataset import load_rows
    except ImportError:
        raise MissingDependencyError(
            f"{name!r} is no file here; a dataset needs `pip install datasets`"
        ) from None
    return load_rows(name, split, images=images)


def as_list(value: object) -> list[object] | None:
    """Return the list in a cell, also if it is JSON text as in CSV; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    value = plain_value(value)
    return list(value) if isinstance(value, list | tuple) else None


def check_columns(rows: Sequence[tables.Row], flags: Mapping[str, str], name: str) -> None:
    """Raise ``InputError`` if a column is in no row.

    ``flags`` maps flags to the columns they name; use a key like "a column ..." without a flag.
    """
    columns: Collection[str] = dict.fromkeys(chain.from_iterable(rows))
    for flag, column in flags.items():
        if column not in columns:
            remedy = "rename it"
            if flag.startswith("--"):
                remedy = f"name the right one with {flag}"
            raise InputError(
                f"{name} has no column {shorten(column)}, but {shorten_list(columns)}: {remedy}"
            )


def text_in(row: tables.Row, column: str, where: str) -> str:
    return _require_value(read_text(row.get(column)), column, where)


def texts_in(row: tables.Row, column: str, where: str) -> tuple[str, ...]:
    return _require_value(read_texts(row.get(column)), column, where)


def _require_value(read: T | Failure, column: str, where: str) -> T:
    if isinstance(read, Failure):
        raise InputError(f"{where}: {read.about(column)}")
    return read


def image_in(row: tables.Row, column: str, folder: Path | None = None) -> tuple[str | None, object]:
    """Read a row's image: its name, by which rows are grouped, and the image itself."""
    value, image = row.get(column), row.get("image")
    if isinstance(value, Mapping):
        content = value.get("bytes")
        name = value.get("path")
        if not name and content:
            name = blake2b(content, digest_size=8).hexdigest()
        return name or None, value
    if not isinstance(value, str | int):
        return None, None
    name = str(value)
    if isinstance(image, Mapping):
        return name, image
    if folder is not None:
        return name, find_image(folder, name) or str(folder / name)
    if column == "uuid":
        return name, None
    return name, name


def read_flickr8k(path: Path, references: Path | None = None) -> list[tables.Row]:
    """Read Flickr8k-Expert or -CF in the layout of CLIPScore's ``flickr8k.json``, a row per rating.

    That is ``{id: {"image_path": ..., "ground_truth": [texts], "human_judgement": [{"caption": ...,
    "rating": ...}]}}``. ``InputError`` for a file of another layout.
    """
    images = read_json(path)
    rows = []
    if not isinstance(images, dict):
        raise InputError(f"{str(path)!r} is not an object of images: use a file like flickr8k.json")
    for name, image in images.items():
        judgments = image.get("human_judgement") if isinstance(image, dict) else None
        if not isinstance(judgments, list):
            raise InputError(f"{str(path)!r}: {name!r} has no list 'human_judgement'")
        common = {
            "image": image.get("image_path", name),
            "references": [_squeeze_spaces(text) for text in image.get("ground_truth", [])],
        }
        for each in judgments:
            text = _squeeze_spaces(each.get("caption"))
            rows.append({**common, "generation": text, "rating": each.get("rating")})
    return rows


def _squeeze_spaces(text: object) -> object:
    if isinstance(text, str):
        return " ".join(text.split())
    return text


def read_thumb(path: Path, references: Path | None = None) -> list[tables.Row]:
    """Read THumB's two files, ``mscoco_THumB-1.0.jsonl`` and ``mscoco_references.jsonl``.

    The first has ``seg_id``, ``hyp``, ``image``, ``P``, ``R`` and ``human_score``; the second has
    ``refs`` and maybe ``seg_id``, else its rows are in the order of the segments. ``InputError``
    if the second file is missing or lacks a segment.
    """
    if references is None:
        raise InputError(
            "THumB's references are in a separate file: name mscoco_references.jsonl with "
            "--reference-file"
        )
    rows, others = read_rows(str(path)), read_rows(str(references))
    columns = ("seg_id", "hyp", "P", "R", "human_score")
    check_columns(rows, {f"a column {column!r}": column for column in columns}, str(path))
    check_columns(others, {"a column 'refs'": "refs"}, str(references))
    segments = list(dict.fromkeys(str(row["seg_id"]) for row in rows))
    if all("seg_id" in row for row in others):
        texts = {str(row["seg_id"]): row["refs"] for row in others}
    elif len(others) == len(segments):
        texts = dict(zip(segments, (row["refs"] for row in others), strict=True))
    else:
        raise InputError(
            f"{str(references)!r} has {len(others)} rows without seg_id for {len(segments)} "
            "segments: use THumB's own file, with one row per segment"
        )
    found: list[tables.Row] = []
    for row in rows:
        segment = str(row["seg_id"])
        if segment not in texts:
            raise InputError(f"{str(references)!r} has no references of segment {segment!r}")
        found.append({
            "image": row.get("image", row["seg_id"]),
            "references": as_list(texts[segment]),
            "generation": row["hyp"],
            "mistakes": row["P"],
            "omissions": row["R"],
            "overall": row["human_score"],
        })  # fmt: skip
    return found


READERS_BY_LAYOUT: Mapping[str, Callable[[Path, Path | None], list[tables.Row]]] = {
    "flickr8k": read_flickr8k,
    "thumb": read_thumb,
}
"""Value of ``--layout`` -> reader of (file, file of references)."""
LAYOUTS_WITH_AXIS_RATINGS = ("thumb",)  # others have one rating for all axes
