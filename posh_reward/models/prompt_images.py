"""Images in any form that datasets use -> images for prompts, resized for a model."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from posh_reward.datasets.images import (
    decoding_error,
    fit_size,
    open_image,
    path_exists,
    upright_rgb,
)
from posh_reward.errors import InputError
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS_IN_MEMORY = 16_000_000  # of an image (48 MB); larger ones are shrunk
NO_PILLOW = Failure("engine", "images need Pillow: pip install pillow")
IMAGE_MISSING = Failure("text", "there is no image")
ROW_NUMBER_MESSAGE = (
    "the image {} is a row of a dataset: name the dataset (posh-reward score --dataset NAME "
    "--split SPLIT), or use the image's path"
)
NO_PLACE = Failure("prompt", "the model's chat template does not have a placeholder for each image")

VISION_MODEL_TYPES = ("qwen2_5_vl", "qwen3_vl")
"""``model_type`` of supported vision-language checkpoints."""
TOKEN_PIXELS = 28 * 28  # pixels per image token of Qwen2.5-VL; other models use about as many
MAX_PIXELS = 1280 * TOKEN_PIXELS  # a megapixel: 1280 tokens of Qwen2.5-VL, 980 of Qwen3-VL
MAX_ASPECT_RATIO = 200  # of an image's longer to its shorter side
PNG_COMPRESSION_LEVEL = 1  # higher ones take several times as long and save a tenth


class SizeLimits(NamedTuple):
    """The image sizes that a model accepts."""

    factor: int  # sides are multiples of this many pixels; each such square is one token
    min_pixels: int
    max_pixels: int

    def tokens(self, width: int, height: int) -> int:
        width, height = size_for_model(width, height, *self)
        return width * height // self.factor**2


def check_max_pixels(max_pixels: int, factor: int) -> None:
    """Raise ``InputError`` if a cap is below one image token, ``factor`` x ``factor`` pixels."""
    if max_pixels < factor**2:
        raise InputError(
            f"max_pixels is {max_pixels}: an image token has {factor} x {factor} pixels, "
            f"so use {factor**2} or more"
        )


def load_prompt_image(source: object) -> PromptImage | Failure:
    """Load an image, upright and in RGB; a failure if it cannot be read. Nothing is downloaded."""
    if isinstance(source, PromptImage | Failure):
        return source
    try:
        from PIL import Image
    except ImportError:
        return NO_PILLOW
    try:
        if isinstance(source, Image.Image):
            return _prompt_image(source)
        file = _find_file(source)
        if isinstance(file, Failure):
            return file
        with open_image(file) as image:
            # Decodes a JPEG no larger than needed.
            image.draft("RGB", fit_size(*image.size, MAX_PIXELS_IN_MEMORY))
            return _prompt_image(image)
    except Exception as error:  # Pillow raises even SyntaxError and struct.error for broken files
        return Failure("text", f"the image cannot be read: {decoding_error(error)}")


def load_prompt_images(images: Iterable[object]) -> list[PromptImage | Failure]:
    """Each image, in order; repeated ones are loaded and kept in memory once."""
    sources = list(images)  # keeps all of them alive, so that their ids stay distinct
    loaded: dict[object, PromptImage | Failure] = {}
    images_in_order = []
    for source in sources:
        key = source if isinstance(source, str | Path) else id(source)
        if key not in loaded:
            loaded[key] = load_prompt_image(source)
        images_in_order.append(loaded[key])
    return images_in_order


def _find_file(value: object) -> bytes | str | Path | Failure:
    """An image's path or its file's bytes, from any form but a PIL image."""
    if isinstance(value, Mapping):  # as in ``datasets``: bytes, a path, or both
        content, path = value.get("bytes"), value.get("path")
        value = path if content is None else content
    if value is None or value == "":
        return IMAGE_MISSING
    # Tables scored from a dataset identify images by row number: "17" is hardly a path.
    if isinstance(value, int) or (
        isinstance(value, str) and value.isdecimal() and not path_exists(value)
    ):
        return Failure("text", ROW_NUMBER_MESSAGE.format(value))
    if isinstance(value, PathLike):
        return Path(value)
    if isinstance(value, bytes | str):
        return value
    return Failure("text", f"{type(value).__name__} is not an image")


def _prompt_image(image: Image.Image) -> PromptImage | Failure:
    """The image as people see it, in RGB, capped so that many fit in memory."""
    if not all(image.size):
        return Failure("text", "the image has no pixels")
    if (size := fit_size(*image.size, MAX_PIXELS_IN_MEMORY)) != image.size:
        image = image.resize(size)
    upright = upright_rgb(image)
    shape = ",".join(map(str, upright.size)).encode()
    return PromptImage(sha256(shape + upright.tobytes()).hexdigest(), upright)


def size_for_model(
    width: int, height: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """The width and height to which Qwen's processors would resize an image.

    Sides are rounded to multiples of ``factor``; an image outside the limits is scaled into them,
    keeping its aspect ratio as far as the rounding allows.
    """
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise InputError(
            f"an image of {width} x {height} pixels is too long and thin: crop its longer side to "
            f"at most {MAX_ASPECT_RATIO} times the shorter"
        )
    # Exactly as ``smart_resize`` of transformers: the order of rounding determines the number of
    # tokens, and a processor that disagrees would resize the image again.
    new_width, new_height = round(width / factor) * factor, round(height / factor) * factor
    if new_width * new_height > max_pixels:
        shrunk = math.sqrt(width * height / max_pixels)
        new_width = max(factor, math.floor(width / shrunk / factor) * factor)
        new_height = max(factor, math.floor(height / shrunk / factor) * factor)
    elif new_width * new_height < min_pixels:
        grown = math.sqrt(min_pixels / (width * height))
        new_width = math.ceil(width * grown / factor) * factor
        new_height = math.ceil(height * grown / factor) * factor
    return new_width, new_height


def resize_for_model(
    image: Image.Image, factor: int, min_pixels: int, max_pixels: int
) -> Image.Image:
    """Convert an image to RGB and the model's size, which a processor then leaves unchanged."""
    from PIL.Image import Resampling

    size = size_for_model(*image.size, factor, min_pixels, max_pixels)
    image = image.convert("RGB")
    if image.size == size:
        return image
    return image.resize(size, Resampling.BICUBIC)


def image_for_model(prompt_image: PromptImage, sizes: SizeLimits) -> Image.Image | Failure:
    """The image resized for a model; a failure if that is impossible."""
    try:
        from PIL import Image

        if not isinstance(prompt_image.image, Image.Image):
            return Failure("prompt", f"{type(prompt_image.image).__name__} is not a PIL image")
        return resize_for_model(prompt_image.image, *sizes)
    except Exception as error:  # lazily reading a file may raise anything
        return image_failure(error)


def png_base64(image: Any) -> str:
    """Encode a PIL image losslessly, as a PNG in base64."""
    png = BytesIO()
    image.save(png, "PNG", compress_level=PNG_COMPRESSION_LEVEL)
    return b64encode(png.getvalue()).decode()


def read_image_size(prompt_image: PromptImage) -> tuple[int, int]:
    """Width and height in pixels; ``InputError`` if this is not an image with pixels."""
    size = getattr(prompt_image.image, "size", None)
    if not isinstance(size, tuple) or len(size) != 2 or min(size) < 1:
        raise InputError(f"{type(prompt_image.image).__name__} is not a PIL image with pixels")
    return size


def image_failure(error: Exception) -> Failure:
    """The failure of prompts whose image cannot be used, with the error's reason."""
    reason = str(error) if isinstance(error, InputError) else decoding_error(error)
    return Failure("prompt", f"the image cannot be shown: {reason}"[:300])
