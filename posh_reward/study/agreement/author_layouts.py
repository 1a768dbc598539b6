"""Judgments in their authors' published layouts -> rows with our columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isnan
from pathlib import Path

from posh_reward.errors import InputError
from posh_reward.study.agreement.caparena import verdict_outcome
from posh_reward.study.agreement.judgment_files import (
    as_list,
    check_columns,
    read_json,
    read_json_list,
    read_rows,
)
from posh_reward.study.rows.tables import Row

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
                "candidate": _one_space(each.get("caption")),
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
            "candidate": row["hyp"],
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
