"""Judgments in the layouts in which their authors publish them -> rows with our columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
"""Beside the models' files of CapArena-Auto: the opponents' captions, no battles."""


def flickr8k(path: Path, references: Path | None = None) -> list[Row]:
    """Flickr8k-Expert or -CF as CLIPScore's ``flickr8k.json`` has it; every rating is a row.

    That is ``{id: {"image_path": ..., "ground_truth": [texts], "human_judgement": [{"caption": ...,
    "rating": ...}]}}``.

    Raises:
        InputError: the file is not of this layout.
    """
    images = read_json(path)
    rows = []
    if not isinstance(images, dict):
        raise InputError(f"{str(path)!r} is not an object of images, as flickr8k.json is")
    for name, image in images.items():
        judgments = image.get("human_judgement") if isinstance(image, dict) else None
        if not isinstance(judgments, list):
            raise InputError(f"{str(path)!r}: {name!r} has no list 'human_judgement'")
        for each in judgments:
            rows.append(
                {
                    "image": image.get("image_path", name),
                    "references": [_one_space(text) for text in image.get("ground_truth", [])],
                    "candidate": _one_space(each.get("caption")),
                    "rating": each.get("rating"),
                }
            )
    return rows


def _one_space(text: object) -> object:
    return " ".join(text.split()) if isinstance(text, str) else text


def thumb(path: Path, references: Path | None = None) -> list[Row]:
    """THumB's two files: ``mscoco_THumB-1.0.jsonl`` and ``mscoco_references.jsonl``.

    A row of the first has ``seg_id``, ``hyp``, ``image``, ``P``, ``R`` and ``human_score``; a row
    of the second has ``refs``, and stands for the segment of its ``seg_id`` or else of its place.

    Raises:
        InputError: the second file is missing, or does not have all segments.
    """
    if references is None:
        raise InputError(
            "THumB has its references in a file of their own: name mscoco_references.jsonl with "
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
            f"{str(references)!r} has {len(others)} rows without seg_id, for {len(segments)} "
            "segments"
        )
    missing = next((segment for segment in segments if segment not in texts), None)
    if missing is not None:
        raise InputError(f"{str(references)!r} has no references of segment {missing!r}")
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
    """Battles of CapArena-Auto: one model's file, or the folder of all of them.

    The verdict of the judge (``judge``) is the winner, and the opponent (``ref_model``) the
    cluster. Battles without a verdict are left out, as in CapArena's program.

    Raises:
        InputError: a file cannot be read, or no battle has a verdict.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    rows = [row for file in files if file.name != OTHER_ENDING for row in _battles(file)]
    if not rows:
        raise InputError(f"{str(path)!r} has no battle with a verdict in 'judge'")
    return rows


def _battles(path: Path) -> Iterator[Row]:
    for row in read_json_list(path):
        outcome = verdict_outcome(row)
        if outcome == outcome:  # nan is no verdict
            winner = {1.0: row.get("source1"), -1.0: row.get("source2")}.get(outcome, "equal")
            yield {**row, "winner": winner, "cluster": row.get("ref_model"), "judge": None}


LAYOUTS: Mapping[str, Callable[[Path, Path | None], list[Row]]] = {
    "flickr8k": flickr8k,
    "thumb": thumb,
    "caparena-auto": caparena_auto,
}
"""Name for ``--layout`` -> reader of (file, file of references)."""
AXIS_RATINGS = ("thumb",)  # layouts with a rating of its own for each axis
