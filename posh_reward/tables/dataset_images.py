"""Images for rows that name theirs by its number in a dataset, checked to be the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError
from posh_reward.types import Failure, Scores

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image

    from posh_reward.posh.posh import PoSh

OTHER_IMAGES_SUFFIX = " (other images)"
"""Suffix of models that ``recipes/generate.py --shuffle-images`` gave other images."""
MAX_ROW_NUMBER_DIGITS = 18  # Python refuses to parse thousands of digits
MAX_QUOTED_CHARACTERS = 60  # of a reference, in an error


def parse_row_number(image: object) -> int | None:
    """Row number in a dataset, which CSV and Parquet store as text; None if it is not one."""
    if isinstance(image, str) and image.isdecimal() and len(image) <= MAX_ROW_NUMBER_DIGITS:
        return int(image)
    if isinstance(image, int) and not isinstance(image, bool):
        return image
    return None


class DatasetImages:
    """Images of a dataset, for rows that number them as ``recipes/generate.py`` does."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.name = name
        self.beyond = 0  # lookups past the dataset's last row
        self._dataset = dataset
        self._uuids: list[str] = dataset["uuid"][:]
        self._references: list[str | None] = dataset["reference"][:]
        self._rows_by_uuid = {str(uuid): row for row, uuid in enumerate(self._uuids)}

    def __len__(self) -> int:
        return len(self._uuids)

    @property
    def too_far(self) -> str:
        rows = "row" if self.beyond == 1 else "rows"
        return f"{self.beyond:,} {rows} beyond the end of {self.name!r}, which has {len(self):,}"

    def row(self, number: int, name: object, reference: object) -> int | None:
        """Return ``number`` if that image belongs to the row; None if it is past the last one.

        ``name`` is the row's id and ``reference`` its text; None where unknown or not needed.
        """
        if not 0 <= number < len(self):
            self.beyond += 1
            return None
        # Another dataset, or this one with other options, has other images under the same numbers.
        # So the references must agree, or the row's id must be the uuid. A uuid that only counts
        # rows (``test-00003``) occurs in many datasets: there the reference decides, if given.
        uuid, text = str(self._uuids[number]), _normalise_spaces(self._references[number])
        same_id = str(name) == uuid
        same = text == _normalise_spaces(reference) and (same_id or bool(text))
        is_count = uuid.endswith(f"{number:05d}")
        if not same and not (same_id and (reference is None or not is_count)):
            what = "a text" if name is None else repr(name)
            begins = text[:MAX_QUOTED_CHARACTERS]
            raise ConfigError(
                f"{what} is not about image {number} of {self.name!r}, whose uuid is {uuid!r} "
                f"and whose reference begins {begins!r}: name the dataset that the rows were "
                "generated from, with all its options (--dataset, --split)"
            )
        return number

    def find(self, uuid: str) -> int | None:
        """Number of the row with this uuid; None if there is none."""
        return self._rows_by_uuid.get(uuid)

    def reference(self, row: int) -> object:
        return self._references[row]

    def image(self, row: int) -> Image.Image:
        image: Image.Image = self._dataset[row]["image"]
        return image


class MetricWithDataset:
    """POSH with a witness, fetching from a dataset the images that rows number."""

    wants_images = True

    def __init__(self, metric: PoSh, dataset: DatasetImages) -> None:
        self.metric = metric
        self.dataset = dataset

    @property
    def signature(self) -> str:
        return self.metric.signature

    def score(
        self,
        generations: Sequence[str | None],
        references: Sequence[str | None],
        images: Sequence[object] | None = None,
    ) -> list[Scores]:
        """Score pairs; a pair whose image is past the dataset's end fails."""
        pairs = zip(images or [], references, strict=True)
        return self.metric.score(
            generations, references, [self._find_image(*pair) for pair in pairs]
        )

    def _find_image(self, image: object, reference: str | None) -> object:
        number = parse_row_number(image)
        # Without a reference the pair fails anyway.
        if number is None or not _normalise_spaces(reference):
            return image
        if self.dataset.row(number, None, reference) is None:
            return Failure("text", f"its image is beyond the end of {self.dataset.name!r}, which "
                           f"has {len(self.dataset):,} rows")  # fmt: skip
        return self.dataset.image(number)


def _normalise_spaces(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return " ".join(text.split())
