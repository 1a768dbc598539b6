"""Images of scored rows -> small copies for a page; none without Pillow."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.datasets.image_files import on_white, open_image
from posh_reward.study.pages.html import image_uri
from posh_reward.study.rows.dataset_images import DatasetImages, number_of

if TYPE_CHECKING:
    from PIL import Image

SIDE = 360  # pixels of a copy's longer side: 20 to 40 kB each
MOST = 500  # images on one page
LARGEST = 100_000_000  # bytes of a file to open


class Thumbnails:
    """Small copies of local images; nothing is fetched."""

    def __init__(
        self, folder: Path, most: int = MOST, dataset: DatasetImages | None = None
    ) -> None:
        self._folders = (Path(), folder)
        self._most = most
        self.dataset = dataset
        self._places: dict[Path | int, int | None] = {}
        self.copies: list[str] = []
        """Data URIs."""
        self.left_out = 0
        """Images beyond ``most``."""

    def place(self, image: object, name: object = None, reference: object = None) -> int | None:
        """Copy a row's image (path or number); return its index in ``copies``, None without one."""
        number = number_of(image)
        source: Path | int | None
        if self.dataset is not None and number is not None:
            source = self.dataset.row(number, name, reference)
        else:
            source = self._file(image)
        if source is None:
            return None
        if source not in self._places:
            self._places[source] = self._copy(source)
        return self._places[source]

    def _file(self, image: object) -> Path | None:
        if not isinstance(image, str) or not image:
            return None
        for path in (folder / image for folder in self._folders):
            try:
                if path.is_file() and path.stat().st_size <= LARGEST:
                    return path.resolve()
            except (OSError, ValueError):  # not a valid path
                continue
        return None

    def _copy(self, source: Path | int) -> int | None:
        if len(self.copies) == self._most:
            self.left_out += 1
            return None
        if isinstance(source, Path):
            copy = small_copy(source)
        else:
            assert self.dataset is not None, "it numbered the row"
            copy = as_jpeg(self.dataset.image(source), SIDE)
        if copy is None:
            return None
        self.copies.append(image_uri(copy))
        return len(self.copies) - 1


def small_copy(path: Path, side: int = SIDE) -> bytes | None:
    """Return a JPEG of at most ``side`` pixels a side; None if the file is not an image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a damaged file
            with open_image(path) as image:
                return as_jpeg(image, side)
    except Exception:  # Pillow may be missing, and its decoders raise many kinds of errors
        return None


def as_jpeg(image: Image.Image, side: int) -> bytes:
    """Return a JPEG of at most ``side`` pixels a side, upright, without metadata."""
    from PIL import ImageOps

    small = image.copy()
    small.thumbnail((side, side))
    plain = on_white(ImageOps.exif_transpose(small))
    plain.info.clear()  # or Pillow would write the comments that it read
    data = BytesIO()
    plain.save(data, "JPEG", quality=85)
    return data.getvalue()
