"""Items -> images for raters: small JPEGs in data URIs, without names and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.study.packets.study_records import StudyItem
from posh_reward.study.pages.html import image_uri
from posh_reward.study.pages.thumbnails import as_jpeg, small_copy
from posh_reward.study.rows.dataset_images import DatasetImages, number_of

SIDE = 1024  # longer side in pixels: 100 to 250 kB an image


class Album:
    """The images of items, as raters see them.

    Args:
        folders: searched for relative paths, after the current folder.
        dataset: its rows, where ``image`` is a row number (``recipes/generate.py``).
        side: longer side of the copies, in pixels.
    """

    def __init__(
        self, folders: Sequence[Path], dataset: DatasetImages | None = None, side: int = SIDE
    ) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise MissingDependencyError("images need Pillow: pip install pillow") from None
        self._folders = (Path(), *folders)
        self._dataset = dataset
        self._side = side

    def uri(self, item: StudyItem) -> str:
        """An item's image as a data URI.

        Raises:
            InputError: there is no such image.
            ConfigError: the dataset's image is of something else.
        """
        copy = None
        number = number_of(item.image)
        if number is not None:
            # In another dataset the number is another image, which would mislead raters.
            dataset = self._dataset
            if dataset is not None and dataset.row(number, item.id, item.reference) is not None:
                copy = as_jpeg(dataset.image(number), self._side)
        elif isinstance(item.image, str) and item.image:
            files = (folder / item.image for folder in self._folders)
            copy = next(filter(None, (small_copy(file, self._side) for file in files)), None)
        if copy is None:
            raise InputError(
                f"the image {item.image!r} of {item.id!r} cannot be found or read: run the "
                "command in the folder that the path is relative to, or name the dataset whose "
                "rows image numbers (--dataset, --split), or leave images out (--no-images)"
            )
        return image_uri(copy)
