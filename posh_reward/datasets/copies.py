"""Local copies of datasets for ``load_images``, with checked images of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from posh_reward.datasets.downloads import cap_pixels, fetch_images
from posh_reward.datasets.image_files import fit_size
from posh_reward.datasets.load_dataset import first_few, load_images, without_broken
from posh_reward.datasets.national_gallery import SPLITS, Artwork
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

MAX_PIXELS = 1280 * 28 * 28  # 1,280 tokens of Qwen2.5-VL, one per 28 x 28 pixels


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
