"""Items -> pictures for raters: small JPEGs in data URIs, without names and without metadata."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.study.packets.records import Item
from posh_reward.study.pages.pictures import as_jpeg, small_copy

if TYPE_CHECKING:
    from datasets import Dataset

SIDE = 1024
"""Pixels of a picture's longer side: 100 to 250 kB each."""
DIGITS = 18
"""Of a row's number at most; Python refuses to read thousands of them."""


class Album:
    """Finds the pictures of items.

    Args:
        folders: where relative paths may begin.
        dataset: whose rows ``image`` may number, as ``recipes/generate.py`` writes it.
        side: pixels of a copy's longer side.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """

    def __init__(
        self, folders: Sequence[Path], dataset: Dataset | None = None, side: int = SIDE
    ) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise MissingDependencyError("pictures need Pillow: pip install pillow") from None
        self._folders = (Path(), *folders)
        self._dataset = dataset
        self._side = side

    def uri(self, item: Item) -> str:
        """An item's picture as a data URI.

        Raises:
            InputError: there is no such picture.
        """
        copy = self._copy(item.image)
        if copy is None:
            raise InputError(
                f"the picture {item.image!r} of {item.id!r} cannot be found or read: run the "
                "command in the folder that the path is relative to, or name the dataset whose "
                "rows image counts (--dataset), or leave pictures out (--no-pictures)"
            )
        return "data:image/jpeg;base64," + base64.b64encode(copy).decode("ascii")

    def _copy(self, image: str | int | None) -> bytes | None:
        if isinstance(image, int) or (image and image.isdecimal() and len(image) <= DIGITS):
            return self._row(int(image))
        if not image:
            return None
        files = (folder / image for folder in self._folders)
        return next(filter(None, (small_copy(file, self._side) for file in files)), None)

    def _row(self, number: int) -> bytes | None:
        if self._dataset is None or not 0 <= number < len(self._dataset):
            return None
        return as_jpeg(self._dataset[number]["image"], self._side)
