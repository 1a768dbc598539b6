"""Rows that name their picture by its number in a dataset -> that picture, once it is theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image

OTHER_PICTURES = " (other pictures)"
"""Ends the name of a model that ``recipes/generate.py --shuffle_images`` showed other pictures."""
DIGITS = 18
"""Of a row's number at most; Python refuses to read thousands of them."""
SHOWN = 60
"""Characters of a reference that an error quotes."""


def number_of(image: object) -> int | None:
    """The number of a dataset's row; CSV and Parquet have it as text. None if it is not one."""
    if isinstance(image, str) and image.isdecimal() and len(image) <= DIGITS:
        return int(image)
    return image if isinstance(image, int) and not isinstance(image, bool) else None


class Numbered:
    """The pictures of a dataset, for rows that number them as ``recipes/generate.py`` does.

    Another dataset, or the same one with other options, has other pictures under the same numbers.
    So a row gets a picture only if the dataset's row is about the same thing: it has the same
    reference, or the row's id is its uuid. A uuid that only counts rows (``test-00003``) is the
    same in many datasets, so there the reference decides.

    Args:
        dataset: with the columns uuid, image and reference (``load_pictures``).
        name: what errors call it.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.name = name
        self.beyond = 0
        """Rows asked for whose number is not in the dataset."""
        self._dataset = dataset
        self._uuids: list[str] = dataset["uuid"][:]
        self._references: list[str | None] = dataset["reference"][:]

    def __len__(self) -> int:
        return len(self._uuids)

    @property
    def too_far(self) -> str:
        """How many rows name pictures that the dataset does not have, in words."""
        return (
            f"{self.beyond:,} row{'s' * (self.beyond != 1)} beyond the end of {self.name!r}, which "
            f"has {len(self):,}"
        )

    def row(self, number: int, name: object, reference: object) -> int | None:
        """The number again, once the picture is known to be the row's own.

        Args:
            number: what the row has as ``image``.
            name: its id.
            reference: its reference; white space does not count.

        Returns:
            None, and one more in ``beyond``, if the dataset has no such row.

        Raises:
            ConfigError: the dataset's row is about something else.
        """
        if not 0 <= number < len(self):
            self.beyond += 1
            return None
        uuid, stated = str(self._uuids[number]), _words(self._references[number])
        named = str(name) == uuid
        told = stated == _words(reference) and (named or bool(stated))
        if not told and not (named and not uuid.endswith(f"{number:05d}")):
            raise ConfigError(
                f"{name!r} is not about picture {number} of {self.name!r}, whose uuid is {uuid!r} "
                f"and whose reference begins {stated[:SHOWN]!r}: name the dataset that the rows "
                "were generated from, with all its options (--dataset, --split)"
            )
        return number

    def picture(self, row: int) -> Image.Image:
        """The picture of a row that ``row`` has let pass."""
        picture: Image.Image = self._dataset[row]["image"]
        return picture


def _words(text: object) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
