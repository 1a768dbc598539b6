"""Jinja2 templates -> HTML with every value escaped."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from posh_reward.datasets.images import encode_jpeg, open_image, upright_rgb
from posh_reward.tables.dataset_images import DatasetImages, parse_row_number

if TYPE_CHECKING:
    from PIL import Image


OWN_PACKAGE = "posh_reward.pages"


def render(name: str, package: str = OWN_PACKAGE, **values: Any) -> str:
    """Render a template of a package, or of this one; strings are escaped."""
    text = _make_environment(package).get_template(name).render(values)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair


@cache
def _make_environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(OWN_PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["source"] = partial(_read_sources, environment)
    filters = (number, image_uri, policy_hash, script_json)
    environment.filters.update((each.__name__, each) for each in filters)
    return environment


def _read_sources(environment: Environment, *names: str) -> Markup:
    """Return our own styles and scripts from ``templates/``, unescaped."""
    assert environment.loader is not None
    files = (environment.loader.get_source(environment, name)[0] for name in names)
    return Markup("".join(files))  # noqa: S704 - they ship with the package


def number(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def image_uri(content: bytes) -> str:
    """Return the data URI of a PNG, a JPEG or an SVG."""
    kind = "png"
    if content.startswith(b"\xff\xd8"):
        kind = "jpeg"
    elif content.lstrip().startswith(b"<"):
        kind = "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def policy_hash(text: str) -> str:
    """Return the hash by which a content policy allows a script or a style."""
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def script_json(data: object, element: str | None = None) -> Markup:
    """Dump JSON that cannot close its script element; with ``element``, inside one of that id."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair
    if element is None:
        return Markup(text)  # noqa: S704 - no < can be in it
    start = Markup('<script type="application/json" id="{}">').format(element)
    return start + Markup(text) + Markup("</script>")  # noqa: S704


THUMBNAIL_SIDE_PIXELS = 360  # the longer side: 20 to 40 kB each
MAX_THUMBNAILS = 500  # on one page
MAX_IMAGE_FILE_BYTES = 100_000_000  # larger files are not opened


class LocalImages:
    """Copies of rows' images, which are files or rows of a dataset; nothing is fetched."""

    def __init__(
        self, folders: Sequence[Path], side: int, dataset: DatasetImages | None = None
    ) -> None:
        self.dataset = dataset
        self._folders = (Path(), *folders)
        self._side = side

    def source(self, image: object, name: object, reference: object) -> Path | int | None:
        """Find an image by its path or number; None if there is none."""
        number = parse_row_number(image)
        if self.dataset is not None and number is not None:
            return self.dataset.row(number, name, reference)
        if not isinstance(image, str) or not image:
            return None
        for path in (folder / image for folder in self._folders):
            try:
                if path.is_file():
                    return path.resolve()
            except (OSError, ValueError):  # not a valid path
                continue
        return None

    def copy_as_jpeg(self, source: Path | int | bytes) -> bytes | None:
        """Copy an image: a file, a row of the dataset or a content; None if it is not one."""
        if isinstance(source, int):
            assert self.dataset is not None, "it numbered the row"
            return encode_thumbnail(self.dataset.image(source), self._side)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a damaged file
                with open_image(source) as image:
                    return encode_thumbnail(image, self._side)
        except Exception:  # Pillow may be missing, and its decoders raise many kinds of errors
            return None


class Thumbnails(LocalImages):
    """Small copies, each image once."""

    def __init__(
        self, *folders: Path, most: int = MAX_THUMBNAILS, dataset: DatasetImages | None = None
    ) -> None:
        super().__init__(folders, THUMBNAIL_SIDE_PIXELS, dataset)
        self._most = most
        self._places: dict[Path | int, int | None] = {}
        self.copies: list[str] = []
        """Data URIs."""
        self.left_out = 0
        """Images beyond ``most``."""
        self.missing: list[str] = []
        """Paths at which there is no file."""

    def place(self, image: object, name: object = None, reference: object = None) -> int | None:
        """Copy a row's image (path or number); return its index in ``copies``, None without one."""
        source = self.source(image, name, reference)
        if source is None:
            if isinstance(image, str) and image and parse_row_number(image) is None:
                self.missing.append(image)
            return None
        if source not in self._places:
            self._places[source] = self._add_copy(source)
        return self._places[source]

    def _add_copy(self, source: Path | int) -> int | None:
        if len(self.copies) == self._most:
            self.left_out += 1
            return None
        if isinstance(source, Path) and source.stat().st_size > MAX_IMAGE_FILE_BYTES:
            return None
        copy = self.copy_as_jpeg(source)
        if copy is None:
            return None
        self.copies.append(image_uri(copy))
        return len(self.copies) - 1


def encode_thumbnail(image: Image.Image, side: int) -> bytes:
    """Return a JPEG of at most ``side`` pixels a side, upright, without metadata."""
    small = image.copy()
    small.thumbnail((side, side))
    plain = upright_rgb(small)
    plain.info.clear()  # or Pillow would write the comments that it read
    return encode_jpeg(plain, quality=85)
