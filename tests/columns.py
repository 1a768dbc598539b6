"""Columns of images as data sets have them."""

from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image


class LazyColumn(Sequence[Any]):
    """Makes its images whenever it is asked for some, and notes the most at one time."""

    def __init__(self, colors: Sequence[str]) -> None:
        self.most = 0
        self._colors = colors

    def __len__(self) -> int:
        return len(self._colors)

    def __getitem__(self, place: Any) -> Any:
        colors = self._colors[place]
        if isinstance(colors, str):
            return Image.new("RGB", (8, 8), colors)
        self.most = max(self.most, len(colors))
        return [Image.new("RGB", (8, 8), color) for color in colors]

    def __iter__(self) -> Iterator[Any]:
        self.most = len(self)
        return iter(self[:])
