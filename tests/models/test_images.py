"""Whatever a dataset gives as an image is one image, or a failure with its reason."""

import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from posh_reward import InputError
from posh_reward.models.prompt_images import (
    MAX_ASPECT_RATIO,
    SizeLimits,
    load_prompt_image,
    load_prompt_images,
    size_for_model,
)
from posh_reward.types import Failure


@pytest.fixture
def image() -> Image.Image:
    image = Image.new("RGB", (4, 2), "red")
    image.putpixel((0, 0), (0, 0, 255))
    return image


def as_png(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "png")
    return buffer.getvalue()


def test_every_form_of_an_image_is_the_same_image(image: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(as_png(image))
    rows = {"bytes": as_png(image), "path": None}, {"bytes": None, "path": str(path)}
    forms = (image, path, str(path), as_png(image), *rows)
    assert len({load_prompt_image(form) for form in forms}) == 1
    assert load_prompt_image(load_prompt_image(image)) == load_prompt_image(image)


def test_an_image_that_comes_several_times_is_read_once(image: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(as_png(image))
    by_path, by_object, again, object_again, missing = load_prompt_images(
        [str(path), image, str(path), image, None]
    )
    assert by_path is again
    assert by_object is object_again
    assert by_path == by_object
    assert isinstance(missing, Failure)


def test_an_image_is_turned_upright(image: Image.Image) -> None:
    turned, exif = image.transpose(Image.Transpose.ROTATE_90), Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to show
    buffer = BytesIO()
    turned.save(buffer, "png", exif=exif)
    assert load_prompt_image(buffer.getvalue()) == load_prompt_image(image)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\nshowpage\n%%EOF\n"
"""No format that runs another program is read."""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "there is no image"),
        ("", "there is no image"),
        ({"bytes": None, "path": None}, "there is no image"),
        (7, "the image 7 is a row of a dataset: name the dataset"),
        ("7", "the image 7 is a row of a dataset: name the dataset"),
        (7.5, "float is not an image"),
        (Failure("text", "it was lost"), "it was lost"),
        ("nowhere.png", "No such file"),
        ("\0", "cannot be read"),
        (b"not an image", "cannot be read"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "cannot be read"),
        (Image.new("RGB", (0, 7)), "no pixels"),
        (POSTSCRIPT, "cannot identify"),
        (as_png(Image.new("1", (10_000, 10_000))), "DecompressionBomb"),  # of 12 kB
    ],
)
def test_what_is_not_an_image_is_a_failure(given: object, reason: str) -> None:
    found = load_prompt_image(given)
    assert isinstance(found, Failure)
    assert reason in found.detail


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    found = load_prompt_image(tmp_path / "pipe.png")
    assert isinstance(found, Failure)
    assert "is not a file" in found.detail


def test_a_jpeg_of_endless_scans_is_refused(image: Image.Image) -> None:
    buffer = BytesIO()
    image.save(buffer, "jpeg", progressive=True)
    content = buffer.getvalue()
    start = content.rindex(b"\xff\xda")
    found = load_prompt_image(content[:start] + content[start:-2] * 100 + content[-2:])
    assert isinstance(found, Failure)
    assert "scans" in found.detail


@given(
    width=st.integers(1, 6000),
    height=st.integers(1, 6000),
    factor=st.sampled_from([8, 28, 32]),
    least=st.integers(1, 70_000),
    most=st.integers(70_000, 2_000_000),
)
def test_a_settled_size_is_the_one_of_qwens_processors(
    width: int, height: int, factor: int, least: int, most: int
) -> None:
    pytest.importorskip("transformers")
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        with pytest.raises(InputError, match="crop it"):
            size_for_model(width, height, factor, least, most)
        return
    found = size_for_model(width, height, factor, least, most)
    assert found[::-1] == smart_resize(height, width, factor, least, most)
    assert SizeLimits(factor, least, most).tokens(width, height) == found[0] * found[1] / factor**2
