"""Image files are opened within bounds, and odd paths are not an error."""

from functools import partial
from io import BytesIO
from operator import sub
from pathlib import Path

import pytest
from datasets import Dataset
from PIL import Image

from posh_reward.datasets import load_dataset
from posh_reward.datasets.images import fit_size, open_image, path_exists
from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import InputError
from posh_reward.training import processors
from posh_reward.training.processors import ORIENTATION_TAG, resize_images
from tests.datasets.hub_layout import FEATURES, jpeg


@pytest.mark.parametrize("path", ["x" * 300, "data:image/png;base64," + "A" * 5000, "a\0b", "gone"])
def test_what_cannot_be_a_path_is_not_there(path: str) -> None:
    assert not path_exists(path)


def test_a_folder_is_not_an_image(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is not a file"), open_image(tmp_path):
        pass


def test_images_are_resized_upright_in_rgb_and_only_if_need_be(tmp_path: Path) -> None:
    turned, grey, small = BytesIO(), BytesIO(), jpeg(0, (56, 28))
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = 6  # to be turned by a quarter
    Image.new("RGB", (400, 200), "red").save(turned, "JPEG", exif=exif)
    Image.new("L", (56, 28), 77).save(grey, "JPEG", quality=95)
    images = [{"bytes": each, "path": None} for each in (turned.getvalue(), grey.getvalue(), small)]
    rows = {"uuid": ["a", "b", "c"], "image": images, "reference": ["A red house."] * 3}
    Dataset.from_dict(rows, features=FEATURES).to_parquet(tmp_path / "own.parquet")
    new_size = partial(fit_size, max_pixels=20_000)
    resized = resize_images(load_images(str(tmp_path / "own.parquet")), new_size)
    assert [image.size for image in resized["image"]] == [(100, 200), (56, 28), (56, 28)]
    assert resized[1]["image"].getpixel((5, 5)) == (77, 77, 77)
    assert resized.data.column("image")[2].as_py()["bytes"] == small
    assert resize_images(resized, new_size) is resized


def test_a_machine_with_more_cores_finds_the_images_that_another_has_resized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "uuid": ["a"], "image": [{"bytes": jpeg(0, (400, 200)), "path": None}],
        "reference": ["A red house."],
    }  # fmt: skip
    Dataset.from_dict(rows, features=FEATURES).to_parquet(tmp_path / "own.parquet")
    found = []
    for cores in (2, 64):
        monkeypatch.setattr(processors, "RESIZE_THREADS", cores)
        images = load_images(str(tmp_path / "own.parquet"))
        found.append(resize_images(images, partial(fit_size, max_pixels=20_000)).cache_files)
    assert found[0] == found[1]


def own(folder: Path, image: Image.Image, name: str = "a.png") -> Dataset:
    """A CSV file with the path of one image."""
    image.save(folder / name)
    (folder / "own.csv").write_text(f"image,reference\n{name},A red house.\n")
    return load_dataset.open_images(str(folder / "own.csv"), "train")


def test_an_image_that_was_painted_over_is_resized_again(tmp_path: Path) -> None:
    new_size = partial(fit_size, max_pixels=20_000)
    for color in ((200, 0, 0), (0, 0, 200)):
        dataset = own(tmp_path, Image.new("RGB", (400, 200), color), "a.bmp")  # of equal size
        resized = resize_images(dataset, new_size)
        assert max(map(sub, resized[0]["image"].getpixel((5, 5)), color)) < 3
    (tmp_path / "a.bmp").unlink()
    with pytest.raises(InputError, match=r"1 of 1 images that cannot be read: .*train-00000"):
        resize_images(dataset, new_size)


def test_images_are_seen_as_people_see_them(tmp_path: Path) -> None:
    new_size = partial(fit_size, max_pixels=20_000)
    half = Image.new("I;16", (400, 200), 0x8000)
    assert resize_images(own(tmp_path, half), new_size)[0]["image"].getpixel((5, 5))[0] == 128
    clear = Image.new("RGBA", (400, 200), (9, 9, 9, 0))
    assert resize_images(own(tmp_path, clear), new_size)[0]["image"].getpixel((5, 5))[0] == 255
    with pytest.raises(InputError, match="32 bits: convert it to 8 bits"):
        resize_images(own(tmp_path, Image.new("F", (400, 200)), "a.tiff"), new_size)
