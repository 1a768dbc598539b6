"""Artworks with descriptions, from the open data of the National Gallery of Art, Washington.

DOCENT's references come from there (paper, section 4): ``published_images.csv`` has, for each
image, an IIIF address and the text that a screen reader gets, and ``objects.csv`` says what kind
of work it shows. Both are at https://github.com/NationalGalleryOfArt/opendata in ``data/``, CC0;
the images are open access where the table says so.

What comes of it approximates DOCENT: it is the same collection and the same kind of text, but
neither the same 1,750 works nor the same splits.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from posh_reward.errors import ConfigError
from posh_reward.settings import brief_list

NEEDED = (
    "uuid",
    "iiifurl",
    "viewtype",
    "sequence",
    "width",
    "height",
    "maxpixels",
    "depictstmsobjectid",
    "assistivetext",
)
"""Columns of ``published_images.csv``. There are others."""
SPLITS = {"train": 4 / 7, "validation": 1 / 7, "test": 2 / 7}
"""Shares of the splits. The paper trains on 1,000 of 1,750 works, which is 4/7; how it parts the
rest is not published, and this is our choice."""

_MARKUP = re.compile(r"</?(?:i|em|b|strong|br|p)\s*/?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Artwork:
    """A work of art with its image's address and its description."""

    uuid: str
    """Of the image."""
    object_id: int
    title: str
    """Empty without ``objects.csv``."""
    classification: str
    """Such as Painting; empty without ``objects.csv``."""
    iiif: str
    """Base of the image's IIIF address."""
    width: int
    """Of the whole image, in pixels."""
    height: int
    description: str

    @property
    def split(self) -> str:
        """train, validation or test; it depends on the work alone, so a later table keeps it."""
        digest = hashlib.sha256(str(self.object_id).encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in SPLITS.items():
            if place < share:
                return name
            place -= share
        return "test"  # only if the shares' sum is rounded below 1


@dataclass(slots=True)
class Selection:
    """Works, and why other rows were left out."""

    works: list[Artwork] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


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
        classifications: keep only these, such as Painting; all of them if empty.
        min_words: descriptions with fewer words are left out. Older ones are mere captions.

    Returns:
        Works in the order of their object ids, and counts of the rows that were left out.

    Raises:
        ConfigError: a file cannot be read, or lacks a column.
    """
    if classifications and objects is None:
        raise ConfigError(
            f"classifications {', '.join(classifications)} were asked for, but "
            "published_images.csv has none: give objects.csv too"
        )
    about = _objects(objects) if objects is not None else {}
    selection = Selection()
    best: dict[int, tuple[tuple[int, str], Artwork]] = {}
    for row in _rows(images, NEEDED):
        work = _work(row, about)
        why = _unfit(row, work, classifications, min_words)
        if why is not None or work is None:
            selection.left_out[why or "incomplete"] += 1
            continue
        rank = _sequence(row["sequence"]), work.uuid
        if work.object_id in best:
            selection.left_out["another image of the same work"] += 1
        if work.object_id not in best or rank < best[work.object_id][0]:
            best[work.object_id] = rank, work
    selection.works = [work for _, (_, work) in sorted(best.items())]
    return selection


def _work(row: Mapping[str, str], about: Mapping[str, tuple[str, str]]) -> Artwork | None:
    """The row's work; None if a number, the image's name or its address is missing."""
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
    """The reason why a row is left out; None if it is not."""
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
    """True if an image may be used freely.

    Older tables have no column ``openaccess``; there, a bound on pixels marks the images that
    are shown as fair use.
    """
    if "openaccess" in row:
        return row["openaccess"].strip() == "1"
    return row["maxpixels"].strip() in ("", "0")


def plain(text: str) -> str:
    """A description without markup, on one line."""
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
