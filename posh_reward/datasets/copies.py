"""Local copies of datasets, with sound images of a bounded size, for ``load_images``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from posh_reward.datasets.downloads import cap_pixels, fetch_images, fit_size
from posh_reward.datasets.load_dataset import first_few, load_images, without_broken
from posh_reward.datasets.national_gallery import SPLITS, Artwork
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

MAX_PIXELS = 1280 * 28 * 28  # 1,280 tokens of Qwen2.5-VL, one for each square of 28 x 28 pixels


def copy_dataset(
    name: str,
    *,
    splits: Sequence[str] = tuple(SPLITS),
    reference_column: str = "reference",
    max_pixels: int = MAX_PIXELS,
    skip_broken: bool = False,
) -> DatasetDict:
    """Load a dataset's splits, check every image, and shrink the larger ones.

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks a column.
        InputError: a split is unknown, or an image is missing or broken.
    """
    from datasets import DatasetDict

    copies = {}
    for split in splits:
        loaded = load_images(name, split, reference_column, skip_broken=skip_broken)
        sound = without_broken(loaded, f"{name!r}, split {split!r}", skip_broken=skip_broken)
        copies[split] = sound.map(
            lambda image: {"image": cap_pixels(image, max_pixels)},
            input_columns=["image"],
            desc=f"shrinking images of {split}",
        )
    return DatasetDict(copies)


def build_dataset(
    works: Sequence[Artwork],
    images: Path,
    *,
    max_pixels: int = MAX_PIXELS,
    skip_broken: bool = False,
    quiet: bool = False,
) -> DatasetDict:
    """A dataset of works, whose images are fetched into a folder or are there already.

    Args:
        works: of ``national_gallery.select``.
        images: folder of ``<uuid>.jpg``; those that are missing are fetched into it.
        max_pixels: larger images are shrunk.
        skip_broken: leave out works whose image cannot be had or read.
        quiet: show no progress bar.

    Returns:
        Splits with the columns uuid, image, reference, title and object_id.

    Raises:
        InputError: an image cannot be had, or no work is left; it names them, and what was
            fetched is kept.
        MissingDependencyError: httpx is not installed, and images have to be fetched.
    """
    from datasets import DatasetDict

    images.mkdir(parents=True, exist_ok=True)
    files = {work: _file(images, work) for work in works}
    addresses = {file: _address(work, max_pixels) for work, file in files.items()}
    failures = fetch_images(addresses, max_pixels, quiet=quiet)
    if failures and not skip_broken:
        reasons = [(file.stem, why) for file, why in failures.items()]
        raise InputError(
            f"{len(failures)} images could not be had: {first_few(reasons)}; run it again to try "
            "these again, or leave them out with --skip_broken"
        )
    splits = {}
    for split in SPLITS:
        part = {w: file for w, file in files.items() if w.split == split and file not in failures}
        if part:
            where = f"{images}, split {split!r}"
            splits[split] = without_broken(_dataset(part), where, skip_broken=skip_broken)
    if not splits:
        raise InputError("no work is left: no row of the tables was chosen")
    return DatasetDict(splits)


def save(dataset: DatasetDict, folder: Path) -> None:
    """Save a dataset with its images' bytes in it, whole or not at all.

    Raises:
        InputError: the folder is there already.
    """
    if folder.exists():
        raise InputError(f"{folder} is there already: name another folder, or move it")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    dataset.save_to_disk(part)
    part.rename(folder)


def summary(dataset: DatasetDict) -> str:
    """One line for each split: rows, words of the references, sizes of the images."""
    lines = [f"{'split':<12}{'rows':>7}{'words':>8}{'median size':>14}{'largest':>14}"]
    for split, rows in dataset.items():
        words = median(len(text.split()) for text in rows["reference"])
        sizes = sorted((image.size for image in rows["image"]), key=lambda size: size[0] * size[1])
        middle, largest = (f"{w} x {h}" for w, h in (sizes[len(sizes) // 2], sizes[-1]))
        lines.append(f"{split:<12}{len(rows):>7}{words:>8g}{middle:>14}{largest:>14}")
    return "\n".join(lines)


def _file(images: Path, work: Artwork) -> Path:
    """An image's file. Its name comes from a table, so only plain names are taken as they are."""
    name = work.uuid
    if not (name.isascii() and name.replace("-", "").isalnum()):
        name = f"object-{work.object_id}"
    return images / f"{name}.jpg"


def _address(work: Artwork, max_pixels: int) -> str:
    """IIIF Image API 2.1: the whole image, fitted into a box of the size that is wanted."""
    width, height = fit_size(work.width, work.height, max_pixels)
    return f"{work.iiif}/full/!{width},{height}/0/default.jpg"


def _dataset(works: Mapping[Artwork, Path]) -> Dataset:
    from datasets import Dataset, Features, Image, Value

    text = Value("string")
    kinds = {"uuid": text, "image": Image(), "reference": text, "title": text}
    return Dataset.from_dict(
        {
            "uuid": [work.uuid for work in works],
            "image": [str(file) for file in works.values()],
            "reference": [work.description for work in works],
            "title": [work.title for work in works],
            "object_id": [work.object_id for work in works],
        },
        features=Features(kinds | {"object_id": Value("int64")}),
    )
