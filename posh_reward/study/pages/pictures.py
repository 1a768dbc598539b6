"""Paths of pictures in scored rows -> small copies for a page. Needs Pillow; without it, none."""

from __future__ import annotations

import base64
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SIDE = 360
"""Pixels of a copy's longer side: 20 to 40 kB each."""
MOST = 500
"""Pictures on one page."""
LARGEST = 100_000_000
"""Bytes of a file that is opened."""


class Pictures:
    """Small copies of picture files on this machine; nothing is ever fetched.

    Args:
        folder: where relative paths may begin, after the working folder.
        most: copies to make.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self._folders = (Path(), folder)
        self._most = most
        self._places: dict[Path, int | None] = {}
        self.copies: list[str] = []
        """Each a data URI."""
        self.left_out = 0
        """Picture files beyond ``most``."""

    def place(self, image: object) -> int | None:
        """Index in ``copies`` of a row's ``image``; None unless it is the path of a picture."""
        if not isinstance(image, str) or not image:
            return None
        for folder in self._folders:
            path = folder / image
            if _is_file(path):
                return self._copied(path.resolve())
        return None

    def _copied(self, path: Path) -> int | None:
        if path not in self._places:
            self._places[path] = self._copy(path)
        return self._places[path]

    def _copy(self, path: Path) -> int | None:
        if len(self.copies) == self._most:
            self.left_out += 1
            return None
        copy = small_copy(path)
        if copy is None:
            return None
        data = base64.b64encode(copy).decode("ascii")
        self.copies.append(f"data:image/jpeg;base64,{data}")
        return len(self.copies) - 1


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= LARGEST
    except (OSError, ValueError):  # a text that cannot be a path
        return False


def small_copy(path: Path, side: int = SIDE) -> bytes | None:
    """A JPEG of at most ``side`` pixels a side; None if the file is not a picture."""
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        if not path.is_file():  # a pipe, say, which would be waited for
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as that the file unpacks to too many pixels
            with Image.open(path) as image:
                return as_jpeg(image, side)
    except Exception:  # whatever one of Pillow's many decoders makes of an unknown file
        return None


def as_jpeg(image: Image.Image, side: int) -> bytes:
    """A JPEG of at most ``side`` pixels a side, upright, without any of the metadata."""
    from PIL import ImageOps

    small = image.copy()
    small.thumbnail((side, side))
    plain = _on_white(ImageOps.exif_transpose(small))
    plain.info.clear()  # Pillow would write a comment that it has read
    data = BytesIO()
    plain.save(data, "JPEG", quality=85)
    return data.getvalue()


def _on_white(image: Image.Image) -> Image.Image:
    """The picture without transparency, which JPEG does not have."""
    from PIL import Image

    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
