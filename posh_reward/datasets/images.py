"""Images of datasets, prompts and pages: opened within bounds, checked, and shown alike.

Files are untrusted: only those in image formats are opened, and only up to a size. Whatever is made
of an image, people and models see it ``upright_rgb``. Pillow is imported when it is used.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM")
"""Accepted formats. Pillow has forty more; for EPS it would run another program."""
MAX_FILE_BYTES = 100_000_000
MAX_JPEG_SCANS = 64
"""Of a progressive JPEG. Ten are usual; a million empty ones would take hours."""
JPEG_SCAN_MARKER = b"\xff\xda"
NewSize = Callable[[int, int], tuple[int, int]]
"""An image's new width and height by its old ones."""
OBJECT_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>", re.IGNORECASE)


@contextmanager
def open_image(source: bytes | str | Path) -> Iterator[Image.Image]:
    """Open an image from a file's content or path, without decoding it yet.

    Raises OSError or ValueError; decoding may raise whatever else Pillow's decoders do.
    """
    from PIL import Image

    content = source if isinstance(source, bytes) else _read_content(Path(source))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(BytesIO(content), formats=IMAGE_FORMATS) as image:
            is_jpeg = image.format in ("JPEG", "MPO")
            if is_jpeg and content.count(JPEG_SCAN_MARKER) > MAX_JPEG_SCANS:
                raise ValueError(f"a JPEG of more than {MAX_JPEG_SCANS} scans")
            yield image


def _read_content(path: Path) -> bytes:
    if not path.is_file() and path.exists():
        raise OSError(f"{path} is not a file")  # reading a pipe, say, would block
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"a file of more than {MAX_FILE_BYTES / 1e6:.0f} MB")
    return path.read_bytes()


def stored_source(stored: Mapping[str, Any] | None) -> Any:
    """Return the content or path of an image as ``datasets`` stores it, or nothing."""
    return stored and (stored["bytes"] or stored["path"])


def find_defect(stored: Mapping[str, Any] | None) -> str | None:
    """Return the reason why a stored image cannot be decoded, if it cannot."""
    source = stored_source(stored)
    if not source:
        return "there is none"
    try:
        with open_image(source) as image:
            image.draft("RGB", (64, 64))  # reads a JPEG to its end, but decodes it small: fast
            image.load()
            check_depth(image)
    except Exception as error:  # decoders raise many types of error
        return decoding_error(error)
    return None


def decoding_error(error: Exception) -> str:
    """Describe why an image cannot be decoded, identically for equal bytes in every process.

    Pillow's messages have addresses (``<_io.BytesIO object at 0x7f...>``), by which equal reasons
    would be counted, and stored, separately.
    """
    words = " ".join(OBJECT_ADDRESS.sub("", str(error)).split())
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


def resize_to_jpeg(image: Image.Image, new_size: NewSize) -> bytes:
    """Return an image as a JPEG for training: ``upright_rgb``, resized, hardly compressed."""
    from PIL import Image

    upright = upright_rgb(image)
    resized = upright.resize(new_size(*upright.size), Image.Resampling.BICUBIC)
    return encode_jpeg(resized, quality=95, subsampling=0)


def encode_jpeg(image: Image.Image, **options: Any) -> bytes:
    """Encode an image as a JPEG, with Pillow's options, such as ``quality``."""
    content = BytesIO()
    image.save(content, "JPEG", **options)
    return content.getvalue()


def upright_rgb(image: Image.Image) -> Image.Image:
    """Return the image as people see it: turned as its EXIF says, in RGB, on white.

    Raises:
        ValueError: its samples have 32 bits.
    """
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
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
