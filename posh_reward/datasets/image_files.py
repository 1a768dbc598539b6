"""Untrusted image files: opened within bounds, and only in image formats."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM")
"""Accepted formats. Pillow has forty more; for EPS it would run another program."""
LARGEST = 100_000_000  # bytes of a file
MOST_SCANS = 64
"""Maximum scans of a progressive JPEG. Ten are usual; a million empty ones would take hours."""
SCAN = b"\xff\xda"
NewSize = Callable[[int, int], tuple[int, int]]
"""An image's new width and height by its old ones."""
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>", re.IGNORECASE)


@contextmanager
def open_image(source: bytes | str | Path) -> Iterator[Image.Image]:
    """Open an image from a file's content or path, without decoding it yet.

    Raises OSError or ValueError; decoding may raise whatever else Pillow's decoders do.
    """
    from PIL import Image

    content = source if isinstance(source, bytes) else _content(Path(source))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            if image.format in ("JPEG", "MPO") and content.count(SCAN) > MOST_SCANS:
                raise ValueError(f"a JPEG of more than {MOST_SCANS} scans")
            yield image


def _content(path: Path) -> bytes:
    if not path.is_file() and path.exists():
        raise OSError(f"{path} is not a file")  # reading a pipe, say, would block
    if path.stat().st_size > LARGEST:
        raise ValueError(f"a file of more than {LARGEST / 1e6:.0f} MB")
    return path.read_bytes()


def decoding_error(error: Exception) -> str:
    """Describe why an image cannot be decoded, identically for equal bytes in every process.

    Pillow's messages have addresses (``<_io.BytesIO object at 0x7f...>``), by which equal reasons
    would be counted, and stored, separately.
    """
    words = " ".join(ADDRESS.sub("", str(error)).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def path_exists(path: str | Path) -> bool:
    """Return True if a file or folder exists; no text, however odd, raises."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, in an unreadable folder, with a NUL
        return False


def fit_size(width: int, height: int, max_pixels: int) -> tuple[int, int]:
    """Return the size, shrunk to at most ``max_pixels`` pixels in the same shape."""
    shrunk = max(1.0, math.sqrt(width * height / max_pixels))
    return max(1, int(width / shrunk)), max(1, int(height / shrunk))


def as_jpeg(image: Image.Image, new_size: NewSize) -> bytes:
    """Return an image as a JPEG: resized, upright, in RGB on white, and without metadata."""
    from PIL import Image, ImageOps

    image = on_white(ImageOps.exif_transpose(image))
    content = BytesIO()
    resized = image.resize(new_size(*image.size), Image.Resampling.BICUBIC)
    resized.save(content, "JPEG", quality=95, subsampling=0)
    return content.getvalue()


def on_white(image: Image.Image) -> Image.Image:
    """Return the image in RGB as people see it: on white, where it is transparent."""
    from PIL import Image

    check_depth(image)
    if image.mode.startswith("I;16"):
        image = image.point(lambda value: value / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def check_depth(image: Image.Image) -> None:
    """Raise ValueError for 32-bit samples, of which nobody knows what is white."""
    if image.mode in ("I", "F"):
        raise ValueError("its samples have 32 bits: convert it to 8 bits")
