"""People's judgments from the hub, a saved dataset, or a file of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import isnan, nan
from pathlib import Path

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph.reader import is_missing
from posh_reward.settings import brief, brief_list
from posh_reward.study.rows.table_items import image_file
from posh_reward.study.rows.tables import (
    ENDINGS,
    STANDARD,
    Row,
    display_name,
    format_of,
    open_table,
)

"""Suffixes of files of rows. Anything else, except ``.json``, is a dataset."""


def read_rows(
    name: str,
    *,
    split: str = "test",
    format: str | None = None,
    delimiter: str | None = None,
    unfold: str | None = None,
    images: bool = False,
) -> list[Row]:
    """Read all rows of a file, a saved dataset, or a dataset on the hub.

    Args:
        name: a file of rows (JSON lines, CSV, TSV, Parquet), a list of rows in ``.json``, a
            dataset's folder, or its name on the hub; ``-`` for standard input.
        split: split of a dataset.
        format: format of a file; None: by its suffix.
        delimiter: delimiter of a CSV file.
        unfold: a column with lists of rows, each of which becomes a row with the other columns.
        images: keep a dataset's images, as bytes of their files.

    Raises:
        InputError: it cannot be read, has no rows, or has no list in the column to unfold.
        ConfigError: the dataset cannot be loaded.
    """
    if name == STANDARD or format is not None or name.lower().endswith(tuple(ENDINGS)):
        with open_table(name, format_of(name, format, delimiter)) as table:
            rows = list(table)
    elif name.lower().endswith(".json"):
        rows = read_json_list(Path(name))
    else:
        rows = _dataset(name, split, images)
    if not rows:
        raise InputError(f"{display_name(name)} has no rows")
    return rows if unfold is None else list(_unfold(rows, unfold, display_name(name)))


def read_json(path: Path) -> object:
    """Read a JSON file; ``InputError`` if that fails."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from None


def read_json_list(path: Path) -> list[Row]:
    """Read a JSON file with a list of objects; ``InputError`` if it has something else."""
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{str(path)!r} is not a list of JSON objects: use .jsonl for JSON lines")
    return rows


def _dataset(name: str, split: str, images: bool) -> list[Row]:
    try:
        from posh_reward.datasets.load_dataset import load_rows
    except ImportError:
        raise MissingDependencyError(
            f"{name!r} is a dataset, which needs `pip install datasets`; files of rows end in "
            f"{', '.join(ENDINGS)} or .json"
        ) from None
    return load_rows(name, split, images=images)


def _unfold(rows: Sequence[Row], column: str, name: str) -> Iterator[Row]:
    for place, row in enumerate(rows, start=1):
        outer = {key: value for key, value in row.items() if key != column}
        inner = as_list(row.get(column))
        for each in [None] if inner is None else inner:
            if not isinstance(each, dict):
                raise InputError(f"{name}, row {place}: {column!r} is not a list of rows to unfold")
            yield {**outer, **each}


def as_list(value: object) -> list[object] | None:
    """Return the list in a cell, also if it is JSON text as in CSV; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return list(value) if isinstance(value, list | tuple) else None


def check_columns(rows: Sequence[Row], flags: Mapping[str, str], name: str) -> None:
    """Raise ``InputError`` if a column is in no row.

    ``flags`` maps flags to the columns they name; use a key like "a column ..." without a flag.
    """
    columns: Collection[str] = dict.fromkeys(key for row in rows for key in row)
    for flag, column in flags.items():
        if column not in columns:
            remedy = f"name the right one with {flag}" if flag.startswith("--") else "rename it"
            raise InputError(
                f"{name} has no column {brief(column)}, but {brief_list(columns)}: {remedy}"
            )


def text_in(row: Row, column: str, where: str) -> str:
    """Read a cell that must be a text; ``InputError`` if it is missing or something else."""
    value = row.get(column)
    if not isinstance(value, str):
        why = "missing" if is_missing(value) else f"{str(value)[:40]!r}, not a text"
        raise InputError(f"{where}: {column} is {why}")
    return value


def texts_in(row: Row, column: str, where: str) -> tuple[str, ...]:
    """Read a cell that must be a text or a list of texts; ``InputError`` if it is neither."""
    texts = as_list(row.get(column))
    if texts is None:
        return (text_in(row, column, where),)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: {column} is {str(texts)[:40]}, not a list of texts")
    return tuple(map(str, texts))


def image_in(row: Row, column: str, folder: Path | None = None) -> tuple[str | None, object]:
    """Read a row's image: its name, by which rows are grouped, and the image itself.

    Args:
        row: a row of a table.
        column: column with a path, a name or number, or an image as datasets store it. If it has
            a name, the image may be in the column ``image``.
        folder: folder of relative paths and names.

    Returns:
        None twice if the row has no image. A ``uuid`` without a folder is a name only.
    """
    value, image = row.get(column), row.get("image")
    if isinstance(value, Mapping):
        content = value.get("bytes")
        digest = blake2b(content, digest_size=8).hexdigest() if content else None
        return value.get("path") or digest, value
    if not isinstance(value, str | int):
        return None, None
    name = str(value)
    if isinstance(image, Mapping):
        return name, image
    if folder is not None:
        return name, image_file(folder, name) or str(folder / name)
    return name, None if column == "uuid" else name


VERDICT = "judge"  # column of a judge's verdicts in CapArena's files
VERDICTS = {"caption 1 is better": 1.0, "caption 2 is better": -1.0, "tie": 0.0}


def verdict_outcome(row: Row) -> float:
    """Read a judge's verdict as CapArena's programs do: 1, -1, 0 for a tie; nan for any other."""
    return VERDICTS.get(str(row.get(VERDICT)).strip().rstrip(".").lower(), nan)


OTHER_ENDING = "caparena_auto_600.json"
"""File beside the models' files of CapArena-Auto: the opponents' captions, no battles."""


def flickr8k(path: Path, references: Path | None = None) -> list[Row]:
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
        texts = [_one_space(text) for text in image.get("ground_truth", [])]
        rows += [
            {
                "image": image.get("image_path", name),
                "references": texts,
                "generation": _one_space(each.get("caption")),
                "rating": each.get("rating"),
            }
            for each in judgments
        ]
    return rows


def _one_space(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


def thumb(path: Path, references: Path | None = None) -> list[Row]:
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
    if missing := [segment for segment in segments if segment not in texts]:
        raise InputError(f"{str(references)!r} has no references of segment {missing[0]!r}")
    return [
        {
            "image": row.get("image", row["seg_id"]),
            "references": as_list(texts[str(row["seg_id"])]),
            "generation": row["hyp"],
            "mistakes": row["P"],
            "omissions": row["R"],
            "overall": row["human_score"],
        }
        for row in rows
    ]


def caparena_auto(path: Path, references: Path | None = None) -> list[Row]:
    """Read CapArena-Auto's battles from one model's file, or from the folder of all files.

    The judge's verdict (``judge``) gives the winner, the opponent (``ref_model``) is the cluster.
    As in CapArena's program, battles without a verdict are left out; ``InputError`` if all are.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    rows = [row for file in files if file.name != OTHER_ENDING for row in _battles(file)]
    if not rows:
        raise InputError(f"{str(path)!r} has no battle with a verdict in 'judge'")
    return rows


def _battles(path: Path) -> Iterator[Row]:
    for row in read_json_list(path):
        outcome = verdict_outcome(row)
        if not isnan(outcome):
            winner = {1.0: row.get("source1"), -1.0: row.get("source2")}.get(outcome, "equal")
            yield {**row, "winner": winner, "cluster": row.get("ref_model"), "judge": None}


LAYOUTS: Mapping[str, Callable[[Path, Path | None], list[Row]]] = {
    "flickr8k": flickr8k,
    "thumb": thumb,
    "caparena-auto": caparena_auto,
}
"""Value of ``--layout`` -> reader of (file, file of references)."""
AXIS_RATINGS = ("thumb",)  # layouts with a separate rating for each axis
