"""Local copies of datasets, and caches of resized images, for ``load_images`` and the recipes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.image_files import NewSize, as_jpeg, decoding_error, fit_size, open_image
from posh_reward.datasets.load_dataset import (
    first_few,
    open_images,
    source_of,
    why_broken,
    without_broken,
)
from posh_reward.datasets.national_gallery import SPLITS, Artwork
from posh_reward.errors import ConfigError, InputError, MissingDependencyError, install
from posh_reward.process.progress import progress_bar

if TYPE_CHECKING:
    import httpx
    from datasets import Dataset, DatasetDict


MOST_BYTES = 64 * 2**20
MOST_SECONDS = 120.0  # for one image
TRIES = 3
GIVE_UP_AFTER = 20  # failures before the first success: the server or the network is down
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def fetch_images(
    addresses: Mapping[Path, str],
    max_pixels: int,
    *,
    workers: int = 4,
    wait: float = 1.0,
    quiet: bool = False,
) -> dict[Path, str]:
    """Fetch each image into its file, unless the file exists.

    Args:
        addresses: address of each file's image.
        max_pixels: larger images are shrunk.
        workers: simultaneous downloads, few, to spare a museum's server.
        wait: seconds before the second try of an image; twice as many before the third.
        quiet: show no progress bar.

    Returns:
        The files that could not be fetched, in the order of ``addresses``, each with the reason.

    Raises:
        InputError: the first ``GIVE_UP_AFTER`` images all failed.
        MissingDependencyError: httpx is not installed.
    """
    missing = {file: address for file, address in addresses.items() if not file.exists()}
    if not missing:
        return {}
    failures: dict[Path, str] = {}
    with (
        _client() as client,
        ThreadPoolExecutor(workers) as pool,
        progress_bar("images", len(missing), "image", quiet) as bar,
    ):
        pending = {
            pool.submit(_fetch, client, address, file, max_pixels, wait): file
            for file, address in missing.items()
        }
        try:
            for count, future in enumerate(as_completed(pending), start=1):
                bar.update()
                why = future.result()
                if why is not None:
                    failures[pending[future]] = why
                if count == len(failures) == GIVE_UP_AFTER:
                    raise InputError(
                        f"the first {count} images could not be fetched, the last because {why}; "
                        "check the network and the addresses, then run it again"
                    )
        except BaseException:  # also Ctrl-C: otherwise the pool would first fetch all the others
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {file: failures[file] for file in missing if file in failures}


def _client() -> httpx.Client:
    """Return a client that follows a few redirects, to encrypted addresses only."""
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError(f"fetching images needs httpx: {install('server')}") from None
    return httpx.Client(
        headers={"Accept-Encoding": "identity", "User-Agent": "posh_reward (research dataset)"},
        timeout=30,
        follow_redirects=True,
        max_redirects=3,
        event_hooks={"request": [_check_encrypted]},
    )


def _fetch(
    client: httpx.Client, address: str, file: Path, max_pixels: int, wait: float
) -> str | None:
    content, why, again = _body(client, address)
    for retry in range(TRIES - 1):
        if not again:
            break
        time.sleep(wait * 2**retry)
        content, why, again = _body(client, address)
    return why if content is None else _save(content, file, max_pixels)


def _body(client: httpx.Client, address: str) -> tuple[bytes | None, str | None, bool]:
    """An image's bytes; or None, the reason, and True if another try may help."""
    import httpx

    deadline = time.monotonic() + MOST_SECONDS
    content = bytearray()
    try:
        with client.stream("GET", address) as response:
            if response.status_code != 200:
                later = response.status_code == 429 or response.status_code >= 500
                return None, f"the server answered {response.status_code}", later
            if response.headers.get("Content-Encoding", "identity") != "identity":
                return None, "the server compressed the image, which is not accepted", False
            for piece in response.iter_raw():
                content += piece
                if len(content) > MOST_BYTES:
                    return None, f"it has more than {MOST_BYTES} bytes", False
                if time.monotonic() > deadline:
                    return None, f"it took more than {MOST_SECONDS:g} seconds", True
    except InputError as error:
        return None, str(error), False
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return None, f"{type(error).__name__}: {str(error)[:200]}", True
    return bytes(content), None, False


def _check_encrypted(request: httpx.Request) -> None:
    """Refuse a request, redirected ones too, that would go unencrypted over the network."""
    url = request.url
    if url.scheme != "https" and not (url.scheme == "http" and url.host in LOOPBACK):
        raise InputError(f"{str(url)[:200]!r} is not an https address")


def _save(content: bytes, file: Path, max_pixels: int) -> str | None:
    """Write an image to its file, completely or not at all; the reason if it is no image."""
    try:
        with open_image(content) as image:
            jpeg = as_jpeg(image, partial(fit_size, max_pixels=max_pixels))
    except Exception as error:  # decoders raise many kinds of errors
        return f"not an image that can be read ({decoding_error(error)[:200]})"
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    part.write_bytes(jpeg)
    part.replace(file)
    return None


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
