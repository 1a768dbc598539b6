"""Pictures in any of the forms that datasets give them -> pictures to show a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.types import Failure, Picture

if TYPE_CHECKING:
    from PIL import Image

LARGEST = 100_000_000
"""Bytes of a file that is opened."""
NO_PILLOW = Failure("engine", "pictures need Pillow: pip install pillow")
MISSING = Failure("text", "there is no picture")


def picture_of(given: object) -> Picture | Failure:
    """The picture, turned upright and in RGB; a failure if it cannot be read.

    Args:
        given: a ``Picture``, a PIL image, a path, the bytes of a file, or a mapping with ``bytes``
            or ``path`` as in a column of Hugging Face datasets. Nothing is ever fetched.
    """
    if isinstance(given, Picture):
        return given
    try:
        from PIL import Image
    except ImportError:
        return NO_PILLOW
    try:
        if isinstance(given, Image.Image):
            return _seen(given)
        source = _source(given)
        if isinstance(source, Failure):
            return source
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source) as opened:
                return _seen(opened)
    # Files are anybody's: Pillow raises SyntaxError and struct.error, too, for broken ones.
    except Exception as error:
        return Failure("text", f"the picture cannot be read: {type(error).__name__}: {error}")


def _source(given: object) -> Path | BytesIO | Failure:
    if isinstance(given, Mapping):
        held = given.get("bytes")
        given = held if held is not None else given.get("path")
    if given is None or given == "":
        return MISSING
    if isinstance(given, bytes):
        return BytesIO(given)
    if not isinstance(given, str | PathLike):
        return Failure("text", f"{type(given).__name__} is not a picture")
    path = Path(given)
    if path.stat().st_size > LARGEST:
        return Failure("text", f"the picture's file is larger than {LARGEST / 1e6:.0f} MB")
    return path


def _seen(image: Image.Image) -> Picture | Failure:
    from PIL import ImageOps

    if not all(image.size):
        return Failure("text", "the picture has no pixels")

    upright = ImageOps.exif_transpose(image).convert("RGB")
    size = ",".join(map(str, upright.size)).encode()
    return Picture(sha256(size + upright.tobytes()).hexdigest(), upright)
