"""Artworks with descriptions, from the open data of the National Gallery of Art, Washington.

DOCENT's references come from there (paper, section 4): ``published_images.csv`` has each image's
IIIF address and its text for screen readers, ``objects.csv`` the kinds of works. Both are CC0, at
https://github.com/NationalGalleryOfArt/opendata in ``data/``; images marked so are open access.

The result approximates DOCENT: the same collection and the same kind of text, but neither the same
1,750 works nor the same splits.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from posh_reward.errors import ConfigError
from posh_reward.settings import brief_list

NEEDED = (
    "uuid", "iiifurl", "viewtype", "sequence", "width", "height", "maxpixels",
    "depictstmsobjectid", "assistivetext",
)  # fmt: skip
"""Columns of ``published_images.csv`` that are read."""
SPLITS = {"train": 4 / 7, "validation": 1 / 7, "test": 2 / 7}
"""Shares of the splits. The paper trains on 1,000 of 1,750 works, 4/7; its split of the rest is not
published, so this one is ours."""

_MARKUP = re.compile(r"</?(?:i|em|b|strong|br|p)\s*/?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Artwork:
    """A work of art with its image's address and its description."""

    uuid: str  # of the image
    object_id: int
    title: str  # empty without ``objects.csv``
    classification: str  # such as Painting; empty without ``objects.csv``
    iiif: str  # base of the image's IIIF address
    width: int  # of the whole image, in pixels
    height: int
    description: str

    @property
    def split(self) -> str:
        """train, validation or test, by the work alone, so that later tables agree."""
        digest = hashlib.sha256(str(self.object_id).encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in SPLITS.items():
            if place < share:
                return name
            place -= share
        return "test"  # reached only if the shares' sum is rounded below 1


class Selection(NamedTuple):
    """Works, and the number of rows left out for each reason."""

    works: list[Artwork]
    left_out: Counter[str]


def select(
    images: Path,
    objects: Path | None = None,
    *,
    classifications: Collection[str] = (),
    min_words: int = 60,
) -> Selection:
    """Choose one open-access image with a description for each work.

    Args:
        images: ``published_images.csv``.
        objects: ``objects.csv``; needed for titles and classifications.
        classifications: keep only these, such as Painting; empty for all.
        min_words: minimum length of a description; older ones are mere captions.

    Returns:
        Works in the order of their object ids, and the rows left out.

    Raises:
        ConfigError: a file cannot be read, or lacks a column.
    """
    if classifications and objects is None:
        raise ConfigError(
            f"cannot select classifications {', '.join(classifications)}: published_images.csv "
            "has none, so pass objects.csv too"
        )
    about = _objects(objects) if objects is not None else {}
    left_out: Counter[str] = Counter()
    best: dict[int, tuple[tuple[int, str], Artwork]] = {}
    for row in _rows(images, NEEDED):
        work = _work(row, about)
        why = _unfit(row, work, classifications, min_words)
        if why is not None or work is None:
            left_out[why or "incomplete"] += 1
            continue
        rank = _sequence(row["sequence"]), work.uuid
        if work.object_id in best:
            left_out["another image of the same work"] += 1
        if work.object_id not in best or rank < best[work.object_id][0]:
            best[work.object_id] = rank, work
    return Selection([work for _, (_, work) in sorted(best.items())], left_out)


def _work(row: Mapping[str, str], about: Mapping[str, tuple[str, str]]) -> Artwork | None:
    """The row's work; None if a number, the uuid or the address is missing."""
    numbers = [row[name].strip() for name in ("depictstmsobjectid", "width", "height")]
    if not all(number.isascii() and number.isdigit() and int(number) for number in numbers):
        return None
    if not row["uuid"].strip() or not row["iiifurl"].strip():
        return None
    title, classification = about.get(numbers[0], ("", ""))
    return Artwork(
        uuid=row["uuid"].strip(),
        object_id=int(numbers[0]),
        title=title,
        classification=classification,
        iiif=row["iiifurl"].strip().rstrip("/"),
        width=int(numbers[1]),
        height=int(numbers[2]),
        description=plain(row["assistivetext"]),
    )


def _unfit(
    row: Mapping[str, str], work: Artwork | None, classifications: Collection[str], min_words: int
) -> str | None:
    """The reason for leaving a row out; None to keep it."""
    if not row["assistivetext"].strip():
        return "no description"
    if row["viewtype"].strip() != "primary":
        return "not the primary view"
    if not is_open_access(row):
        return "not open access"
    if work is None:
        return "incomplete"
    if classifications and work.classification not in classifications:
        return "another classification"
    if len(work.description.split()) < min_words:
        return f"fewer than {min_words} words"
    return None


def is_open_access(row: Mapping[str, str]) -> bool:
    """Return True if an image may be used freely.

    Older tables have no column ``openaccess``; there, a bound on pixels marks fair use.
    """
    if "openaccess" in row:
        return row["openaccess"].strip() == "1"
    return row["maxpixels"].strip() in ("", "0")


def plain(text: str) -> str:
    """Return a description without markup, on one line."""
    return " ".join(_MARKUP.sub(" ", text).split())


def _sequence(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 10**9


def _objects(path: Path) -> dict[str, tuple[str, str]]:
    return {
        row["objectid"].strip(): (plain(row["title"]), row["classification"].strip())
        for row in _rows(path, ("objectid", "title", "classification"))
    }


def _rows(path: Path, needed: Collection[str]) -> Iterator[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True, restval="")
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(
                    f"{path} has no column {', '.join(missing)}; it has "
                    f"{brief_list(reader.fieldnames or ())}"
                )
            for row in reader:
                row.pop(None, None)  # cells beyond the header
                yield row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"cannot read {path}: {type(error).__name__}: {error}") from error
