"""Images that scored rows name -> small copies for a page. Needs Pillow; without it, none."""

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
LARGEST = 100_000_000  # bytes of a file that is opened


class Thumbnails:
    """Small copies of images on this machine; nothing is ever fetched.

    Args:
        folder: where relative paths may begin, after the working folder.
        most: copies to make.
        dataset: whose rows ``image`` may number, as ``recipes/generate.py`` writes it.
    """

    def __init__(
        self, folder: Path, most: int = MOST, dataset: DatasetImages | None = None
    ) -> None:
        self._folders = (Path(), folder)
        self._most = most
        self.dataset = dataset
        self._places: dict[Path | int, int | None] = {}
        self.copies: list[str] = []
        """Each a data URI."""
        self.left_out = 0
        """Images beyond ``most``."""

    def place(self, image: object, name: object = None, reference: object = None) -> int | None:
        """Index in ``copies`` of a row's image, by path or number; None if there is none to show.

        Raises:
            ConfigError: the dataset's row is about something else.
        """
        number = number_of(image) if self.dataset is not None else None
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
        paths = (folder / image for folder in self._folders)
        return next((path.resolve() for path in paths if _is_file(path)), None)

    def _copy(self, source: Path | int) -> int | None:
        if len(self.copies) == self._most:
            self.left_out += 1
            return None
        copy = small_copy(source) if isinstance(source, Path) else self._copy_of_row(source)
        if copy is None:
            return None
        self.copies.append(image_uri(copy))
        return len(self.copies) - 1

    def _copy_of_row(self, row: int) -> bytes:
        assert self.dataset is not None
        return as_jpeg(self.dataset.image(row), SIDE)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= LARGEST
    except (OSError, ValueError):  # a text that cannot be a path
        return False


def small_copy(path: Path, side: int = SIDE) -> bytes | None:
    """A JPEG of at most ``side`` pixels a side; None if the file is not an image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a file that is not quite right
            with open_image(path) as image:
                return as_jpeg(image, side)
    except Exception:  # Pillow may not be there, and its decoders raise many kinds of errors
        return None


def as_jpeg(image: Image.Image, side: int) -> bytes:
    """A JPEG of at most ``side`` pixels a side, upright, without any of the metadata."""
    from PIL import ImageOps

    small = image.copy()
    small.thumbnail((side, side))
    plain = on_white(ImageOps.exif_transpose(small))
    plain.info.clear()  # Pillow would write a comment that it has read
    data = BytesIO()
    plain.save(data, "JPEG", quality=85)
    return data.getvalue()
