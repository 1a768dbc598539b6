"""When an image that a row names by number is the row's own."""

import pytest

from posh_reward.errors import ConfigError
from posh_reward.study.rows.dataset_images import DatasetImages

datasets = pytest.importorskip("datasets")


def numbered(*uuids: str) -> DatasetImages:
    """Images of a vase, a dog, and nothing that was described."""
    columns = {"uuid": list(uuids), "image": [None] * 3, "reference": ["A vase.", "A dog.", ""]}
    return DatasetImages(datasets.Dataset.from_dict(columns), "mine")


MUSEUM = ("NG-1", "NG-2", "NG-3")
COUNTED = ("test-00000", "test-00001", "test-00002")


@pytest.mark.parametrize(
    ("uuids", "number", "name", "reference"),
    [
        (MUSEUM, 0, 17, " A  vase.\n"),  # ids that only count, the same reference
        (MUSEUM, 1, "NG-2", "Another annotator's dog."),
        (COUNTED, 1, "test-00001", "A dog."),
        (COUNTED, 2, "test-00002", ""),  # neither has a reference
        (COUNTED, 1, "test-00001", None),  # for metrics that need no reference
    ],
)
def test_a_row_with_the_same_reference_or_uuid_gets_its_image(
    uuids: tuple[str, ...], number: int, name: object, reference: object
) -> None:
    assert numbered(*uuids).row(number, name, reference) == number


@pytest.mark.parametrize(
    ("uuids", "number", "name", "reference"),
    [
        (MUSEUM, 0, "NG-2", "A dog."),
        (COUNTED, 1, "test-00000", None),
        (MUSEUM, 2, 3, ""),  # two empty references say nothing
        (COUNTED, 0, "test-00000", "A dog."),  # every dataset without uuids has this one
    ],
)
def test_any_other_row_is_refused(
    uuids: tuple[str, ...], number: int, name: object, reference: object
) -> None:
    with pytest.raises(ConfigError, match=f"{name!r} is not about image {number} of 'mine'"):
        numbered(*uuids).row(number, name, reference)
