"""Local copies of datasets, and caches of resized images, for ``load_images`` and the recipes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.downloads import fetch_images
from posh_reward.datasets.image_files import NewSize, as_jpeg, fit_size, open_image
from posh_reward.datasets.load_dataset import (
    first_few,
    open_images,
    source_of,
    why_broken,
    without_broken,
)
from posh_reward.datasets.national_gallery import SPLITS, Artwork
from posh_reward.errors import ConfigError, InputError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

MAX_PIXELS = 1280 * 28 * 28  # 1,280 tokens of Qwen2.5-VL, one per 28 x 28 pixels
THREADS = min(32, os.cpu_count() or 1)  # each holds a decoded image: 36 MB for 12 megapixels
ORIENTATION = 0x0112  # EXIF; 1 is upright


def copy_dataset(
    name: str,
    *,
    splits: Sequence[str] = tuple(SPLITS),
    reference_column: str = "reference",
    new_size: NewSize,
    skip_broken: bool = False,
) -> DatasetDict:
    """Load a dataset's splits, check every image, and resize those that have another size.

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks a split or a column.
        InputError: an image is missing or broken.
    """
    from datasets import DatasetDict

    copies = {}
    for split in splits:
        loaded = open_images(name, split, reference_column)
        if skip_broken:
            loaded = without_broken(loaded, name, skip_broken=True)
        copies[split] = resize_images(loaded, new_size)
    return DatasetDict(copies)


def resize_images(dataset: Dataset, new_size: NewSize) -> Dataset:
    """Resize a dataset's images, in parallel, and cache the result next to the dataset's files.

    Args:
        dataset: with a column ``image``.
        new_size: an image's size; it is pickled to find the cache again.

    Returns:
        The dataset itself if every image has its size and is in RGB. Otherwise the images that
        are not are in JPEG.

    Raises:
        ConfigError: the cache cannot be written.
        InputError: an image is missing, broken, or too long and thin.
    """
    from datasets import Image

    stored = dataset.cast_column("image", Image(decode=False))
    if all(_fits(item["image"], new_size) for item in stored.select_columns(["image"])):
        return dataset
    try:
        resized = stored.map(
            _resize_batch,
            batched=True,
            batch_size=4 * THREADS,
            fn_kwargs={"new_size": new_size},
            desc="resizing images, once (posh-reward fetch does it ahead of a run)",
        )
    except Exception as error:  # decoders raise many types of error
        without_broken(dataset, "the dataset", skip_broken=False)  # names all broken images
        if isinstance(error, OSError):
            raise ConfigError(
                f"resized images cannot be cached: {error}; make room, set HF_DATASETS_CACHE to a "
                "folder that you can write, or use a copy (python data/docent.py copy)"
            ) from error
        raise
    return resized.cast_column("image", Image())


def _fits(stored: Mapping[str, Any] | None, new_size: NewSize) -> bool:
    """Return True if an image is sound, upright, in RGB and of its new size."""
    try:
        with open_image(source_of(stored)) as image:
            as_it_is = image.mode == "RGB" and image.getexif().get(ORIENTATION, 1) == 1
            if not as_it_is or new_size(*image.size) != image.size:
                return False
    except Exception:  # decoders raise many types of error
        return False
    return why_broken(stored) is None


def _resize_batch(batch: Mapping[str, Any], new_size: NewSize) -> dict[str, Any]:
    # Threads, since Pillow releases the interpreter's lock, and a fork would copy locks that the
    # judge's threads hold.
    with ThreadPoolExecutor(THREADS) as pool:
        return {"image": list(pool.map(partial(_resize, new_size=new_size), batch["image"]))}


def _resize(stored: Mapping[str, Any] | None, new_size: NewSize) -> Mapping[str, Any] | None:
    if _fits(stored, new_size):
        return stored
    with open_image(source_of(stored)) as image:
        return {"bytes": as_jpeg(image, new_size), "path": None}


def build_dataset(
    works: Sequence[Artwork],
    images: Path,
    *,
    max_pixels: int = MAX_PIXELS,
    skip_broken: bool = False,
    quiet: bool = False,
) -> DatasetDict:
    """Build a dataset of artworks; missing images are fetched.

    Args:
        works: from ``national_gallery.select``.
        images: folder of ``<uuid>.jpg`` files, into which missing ones are fetched.
        max_pixels: larger images are shrunk.
        skip_broken: leave out works whose image cannot be fetched or read.
        quiet: show no progress bar.

    Returns:
        Splits with the columns uuid, image, reference, title and object_id.

    Raises:
        InputError: an image cannot be fetched or read, or no work is left. Fetched images stay.
        MissingDependencyError: httpx is not installed, but images are missing.
    """
    from datasets import DatasetDict

    images.mkdir(parents=True, exist_ok=True)
    files = {work: _file(images, work) for work in works}
    addresses = {}
    for work, file in files.items():
        # IIIF Image API 2.1: the whole image, fitted into a box.
        width, height = fit_size(work.width, work.height, max_pixels)
        addresses[file] = f"{work.iiif}/full/!{width},{height}/0/default.jpg"
    failures = fetch_images(addresses, max_pixels, quiet=quiet)
    if failures and not skip_broken:
        reasons = [(file.stem, why) for file, why in failures.items()]
        raise InputError(
            f"{len(failures)} images could not be fetched: {first_few(reasons)}; run it again to "
            "retry these, or leave them out with --skip_broken"
        )
    splits = {}
    for split in SPLITS:
        part = {w: file for w, file in files.items() if w.split == split and file not in failures}
        if part:
            where = f"{images}, split {split!r}"
            splits[split] = without_broken(_dataset(part), where, skip_broken=skip_broken)
    if not splits:
        raise InputError("no work is left: choose other classifications, or lower min_words")
    return DatasetDict(splits)


def save(dataset: DatasetDict, folder: Path) -> None:
    """Save a dataset, with the images' bytes inside, completely or not at all.

    Raises:
        InputError: the folder already exists, or cannot be written.
    """
    if folder.exists():
        raise InputError(f"{folder} already exists: choose another folder, or move it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="dataset-", dir=folder.parent) as temporary:
            part = Path(temporary, folder.name)
            dataset.save_to_disk(part)
            part.rename(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}: choose another") from error


def summary(dataset: DatasetDict) -> str:
    """One line per split: rows, words of the references, sizes of the images."""
    lines = [f"{'split':<12}{'rows':>7}{'words':>8}{'median size':>14}{'largest':>14}"]
    for split, rows in dataset.items():
        words = median(len(text.split()) for text in rows["reference"])
        sizes = sorted((image.size for image in rows["image"]), key=lambda size: size[0] * size[1])
        middle, largest = (f"{w} x {h}" for w, h in (sizes[len(sizes) // 2], sizes[-1]))
        lines.append(f"{split:<12}{len(rows):>7}{words:>8g}{middle:>14}{largest:>14}")
    return "\n".join(lines)


def _file(images: Path, work: Artwork) -> Path:
    # The name comes from a table, so only a plain one is used as it is.
    name = work.uuid
    if not (name.isascii() and name.replace("-", "").isalnum()):
        name = f"object-{work.object_id}"
    return images / f"{name}.jpg"


def _dataset(works: Mapping[Artwork, Path]) -> Dataset:
    from datasets import Dataset, Features, Image, Value

    columns = {
        "uuid": (Value("string"), [work.uuid for work in works]),
        "image": (Image(), [str(file) for file in works.values()]),
        "reference": (Value("string"), [work.description for work in works]),
        "title": (Value("string"), [work.title for work in works]),
        "object_id": (Value("int64"), [work.object_id for work in works]),
    }
    features = Features({name: feature for name, (feature, _) in columns.items()})
    values = {name: column for name, (_, column) in columns.items()}
    return Dataset.from_dict(values, features=features)
