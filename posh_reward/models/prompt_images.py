"""Images in any form that datasets give them -> images to show a model, in its sizes."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posh_reward.datasets.image_files import decoding_error, on_white, open_image, path_exists
from posh_reward.errors import InputError
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 16_000_000
"""Of an image as it is held: 48 MB. A larger one is shrunk; models see far fewer."""
NO_PILLOW = Failure("engine", "images need Pillow: pip install pillow")
MISSING = Failure("text", "there is no image")
NUMBERED = (
    "the image {} is a row of a dataset: name the dataset (posh-reward score --dataset NAME "
    "--split SPLIT), or give the image's path"
)
NO_PLACE = Failure("prompt", "the model's chat template does not give each image a placeholder")

SEEING = ("qwen2_5_vl", "qwen3_vl")  # model_type of the checkpoints that see
TOKEN = 28 * 28  # pixels behind one token of Qwen2.5-VL; other models that see take about as many
MAX_PIXELS = 1280 * TOKEN  # a megapixel: 1280 tokens of Qwen2.5-VL, 980 of Qwen3-VL
LONGEST_SIDE = 200  # the longest that an image may be, in heights, or the highest, in widths
FASTEST = 1  # PNG's compression level. A higher one takes several times as long and saves a tenth.


class SizeLimits(NamedTuple):
    """The sizes in which a model sees images."""

    factor: int  # sides are multiples of this many pixels; each such square is one token
    min_pixels: int
    max_pixels: int

    def tokens(self, width: int, height: int) -> int:
        """Tokens of an image once it has the model's size."""
        width, height = size_for_model(width, height, *self)
        return width * height // self.factor**2


def check_max_pixels(max_pixels: int, factor: int) -> None:
    """Refuse a cap that no image can be shrunk to; sides are multiples of ``factor`` pixels.

    Raises:
        InputError: it is less than one token's square.
    """
    if max_pixels < factor**2:
        raise InputError(
            f"max_pixels is {max_pixels}: one token of an image has {factor} x {factor} pixels, "
            f"so give {factor**2} or more"
        )


def image_of(source: object) -> PromptImage | Failure:
    """The image, turned upright and in RGB; a failure if it cannot be read.

    Args:
        source: a ``PromptImage``, a PIL image, a path, the bytes of a file, or a mapping with
            ``bytes`` or ``path`` as in a column of Hugging Face datasets. Nothing is ever
            fetched. A failure to find it stays what it is.
    """
    if isinstance(source, PromptImage | Failure):
        return source
    try:
        from PIL import Image
    except ImportError:
        return NO_PILLOW
    try:
        if isinstance(source, Image.Image):
            return _prompt_image(source)
        source = _source(source)
        if isinstance(source, Failure):
            return source
        with open_image(source) as image:
            image.draft("RGB", _capped_size(image))  # a JPEG is decoded no larger than needed
            return _prompt_image(image)
    # Files are anybody's: Pillow raises SyntaxError and struct.error, too, for broken ones.
    except Exception as error:
        return Failure("text", f"the image cannot be read: {decoding_error(error)}")


def images_of(images: Iterable[object]) -> list[PromptImage | Failure]:
    """Each image, in order; one that comes several times is read and held in memory once."""
    by_key: dict[object, PromptImage | Failure] = {}
    sources = list(images)  # whose ids are their own only while all of them live
    keys = [image if isinstance(image, str | Path) else id(image) for image in sources]
    for key, image in zip(keys, sources, strict=True):
        if key not in by_key:
            by_key[key] = image_of(image)
    return [by_key[key] for key in keys]


def _source(value: object) -> bytes | str | Path | Failure:
    if isinstance(value, Mapping):
        content = value.get("bytes")
        value = content if content is not None else value.get("path")
    if value is None or value == "":
        return MISSING
    # A table that was scored from a dataset names its images by row: "17" is hardly a path.
    if isinstance(value, int) or (
        isinstance(value, str) and value.isdecimal() and not path_exists(value)
    ):
        return Failure("text", NUMBERED.format(value))
    if isinstance(value, PathLike):
        return Path(value)
    if isinstance(value, bytes | str):
        return value
    return Failure("text", f"{type(value).__name__} is not an image")


def _prompt_image(image: Image.Image) -> PromptImage | Failure:
    """The image as people see it, in RGB, and small enough for many to be held."""
    from PIL import ImageOps

    if not all(image.size):
        return Failure("text", "the image has no pixels")
    if (size := _capped_size(image)) != image.size:
        image = image.resize(size)
    upright = on_white(ImageOps.exif_transpose(image))
    shape = ",".join(map(str, upright.size)).encode()
    return PromptImage(sha256(shape + upright.tobytes()).hexdigest(), upright)


def _capped_size(image: Image.Image) -> tuple[int, int]:
    """The size of the same shape with at most ``MOST_PIXELS``."""
    shrunk = max(1.0, math.sqrt(math.prod(image.size) / MOST_PIXELS))
    width, height = (max(1, int(side / shrunk)) for side in image.size)
    return width, height


def size_for_model(
    width: int, height: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """The width and height that Qwen's processors would give an image.

    Sides are rounded to multiples of ``factor``; an image outside the limits is scaled into them,
    with its shape kept as far as multiples allow.

    Raises:
        InputError: it is too long and thin for them.
    """
    if max(width, height) > LONGEST_SIDE * min(width, height):
        raise InputError(
            f"an image of {width} x {height} pixels is too long and thin: crop it to less than "
            f"{LONGEST_SIDE} times its shorter side"
        )
    # As ``smart_resize`` of transformers, to the pixel: the order of rounding decides how many
    # tokens an image takes, and a processor that disagrees would resize it once more.
    sides = [round(side / factor) * factor for side in (width, height)]
    if math.prod(sides) > max_pixels:
        shrunk = math.sqrt(width * height / max_pixels)
        sides = [
            max(factor, math.floor(side / shrunk / factor) * factor) for side in (width, height)
        ]
    elif math.prod(sides) < min_pixels:
        grown = math.sqrt(min_pixels / (width * height))
        sides = [math.ceil(side * grown / factor) * factor for side in (width, height)]
    return sides[0], sides[1]


def resize_for_model(
    image: Image.Image, factor: int, min_pixels: int, max_pixels: int
) -> Image.Image:
    """The image in RGB and in its model's size; a processor then leaves it as it is.

    Raises:
        InputError: it is too long and thin.
    """
    from PIL.Image import Resampling

    size = size_for_model(*image.size, factor, min_pixels, max_pixels)
    image = image.convert("RGB")
    return image if image.size == size else image.resize(size, Resampling.BICUBIC)


def image_for_model(prompt_image: PromptImage, sizes: SizeLimits) -> Image.Image | Failure:
    """The image as a model sees it; a failure if it cannot be shown."""
    try:
        from PIL import Image

        if not isinstance(prompt_image.image, Image.Image):
            return Failure("prompt", f"{type(prompt_image.image).__name__} is not a PIL image")
        return resize_for_model(prompt_image.image, *sizes)
    except Exception as error:  # reading a file late may raise anything
        return image_failure(error)


def png_base64(image: Any) -> str:
    """A PIL image as a PNG in base64, without loss."""
    png = BytesIO()
    image.save(png, "PNG", compress_level=FASTEST)
    return b64encode(png.getvalue()).decode()


def size_of(prompt_image: PromptImage) -> tuple[int, int]:
    """Width and height of an image, in pixels.

    Raises:
        InputError: it has none.
    """
    size = getattr(prompt_image.image, "size", None)
    if not isinstance(size, tuple) or len(size) != 2 or min(size) < 1:
        raise InputError(f"{type(prompt_image.image).__name__} is not a PIL image with pixels")
    return size


def image_failure(error: Exception) -> Failure:
    """The failure of prompts whose image cannot be shown, for this reason."""
    reason = str(error) if isinstance(error, InputError) else decoding_error(error)
    return Failure("prompt", f"the image cannot be shown: {reason}"[:300])
