"""Draw a scene with Pillow: three slots of 56 x 56 units, each with a different ground."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from posh_reward.datasets.scenes.subjects import SLOTS, Scene, Subject

if TYPE_CHECKING:
    from PIL.Image import Image

UNIT = 56  # width and height of a slot, in units (pixels at scale 1)
GROUND = 47  # top of the ground, in units from the top of the image
PAINT = {
    "red": (205, 35, 40),
    "blue": (40, 70, 200),
    "green": (30, 130, 50),
    "yellow": (245, 205, 40),
    "white": (250, 250, 250),
    "black": (25, 25, 30),
}
SKY = (190, 200, 205)
GROUNDS = ((120, 150, 80), (205, 175, 130), (110, 120, 140))
"""Meadow, path and stone, so that the ground identifies the slot."""
SKIN, HAIR, WOOD, LINE = (235, 190, 150), (90, 55, 30), (125, 85, 45), (60, 60, 60)

Color = tuple[int, int, int]


class Brush:
    """Draw shapes in units relative to a subject's foot: x to the right, y upwards.

    The foot is at (x, y) units of the image; ``size`` scales the subject.
    """

    def __init__(self, image: Image, scale: float, x: float, y: float, size: float) -> None:
        from PIL import ImageDraw

        self._draw = ImageDraw.Draw(image)
        self._scale, self._x, self._y, self._size = scale, x, y, size

    def _at(self, x: float, y: float) -> tuple[float, float]:
        s = self._scale
        return (self._x + x * self._size) * s, (self._y - y * self._size) * s

    def _box(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, ...]:
        return (*self._at(x0, y1), *self._at(x1, y0))

    def box(self, x0: float, y0: float, x1: float, y1: float, fill: Color) -> None:
        """Draw a rectangle from (x0, y0), bottom left, to (x1, y1), top right."""
        self._draw.rectangle(self._box(x0, y0, x1, y1), fill, LINE)

    def oval(self, x0: float, y0: float, x1: float, y1: float, fill: Color) -> None:
        """Draw an ellipse inside that rectangle."""
        self._draw.ellipse(self._box(x0, y0, x1, y1), fill, LINE)

    def shape(self, points: list[tuple[float, float]], fill: Color) -> None:
        """Draw a polygon."""
        self._draw.polygon([self._at(x, y) for x, y in points], fill, LINE)


def draw(scene: Scene, scale: int = 1) -> Image:
    """Return the image, RGB, ``scale`` times 168 x 56 pixels."""
    from PIL import Image

    rng = random.Random(f"{scene.uid}/brush")
    shade = rng.randint(-12, 12)
    sky = (SKY[0] + shade, SKY[1] + shade, SKY[2] + shade)
    image = Image.new("RGB", (SLOTS * UNIT * scale, UNIT * scale), sky)
    for slot, subject in enumerate(scene.slots):
        left = slot * UNIT * scale
        image.paste(GROUNDS[slot], (left, GROUND * scale, left + UNIT * scale, UNIT * scale))
        if subject is not None:
            _paint(image, subject, slot, scale, rng)
    return image


def _paint(image: Image, subject: Subject, slot: int, scale: int, rng: random.Random) -> None:
    x = (slot + 0.5) * UNIT + rng.uniform(-2.5, 2.5)
    y = GROUND + 5 + rng.uniform(-1.5, 1.5)
    size = rng.uniform(0.95, 1.05)
    if subject.noun in ("girl", "boy") or subject.size == "small":
        size *= 0.66
    brush = Brush(image, scale, x, y, size)
    if subject.behind is not None and subject.behind_color is not None:
        backdrop = Brush(image, scale, x + rng.choice((-5, 5)), GROUND + 1, 1.15)
        _THINGS[subject.behind](backdrop, Subject(subject.behind, subject.behind_color))
    if subject.person:
        _person(brush, subject)
        hand = Brush(image, scale, x + 13, y - 20 * max(size, 0.7), 1.0)
        if subject.held is not None and subject.held_color is not None:
            _belonging(hand, subject.held, PAINT[subject.held_color])
    else:
        _THINGS[subject.noun](brush, subject)


def _person(brush: Brush, subject: Subject) -> None:
    """Draw a person, 46 units tall; a seated one is on a stool with knees to the left."""
    paint = PAINT[subject.color]
    skirt = subject.noun in ("woman", "girl")
    low = 0.0
    if subject.pose == "sits":
        brush.box(-6, 0, 10, 11, WOOD)
        brush.box(-18, 0, -13, 16, paint if skirt else HAIR)
        brush.box(-18, 11, 6, 18, paint)
        low = -4.0
    elif skirt:
        brush.shape([(-13, 0), (13, 0), (4, 28), (-4, 28)], paint)
    else:
        brush.box(-7, 0, -1, 14, HAIR)
        brush.box(1, 0, 7, 14, HAIR)
        brush.box(-8, 12, 8, 30, paint)
    if subject.pose == "sits":
        brush.box(-5, 14, 7, 32 + low, paint)
    brush.box(5, 22 + low, 15, 26 + low, SKIN)
    _head(brush, subject, 30 + low, long_hair=skirt)


def _head(brush: Brush, subject: Subject, y: float, *, long_hair: bool) -> None:
    if long_hair:
        brush.box(-7, y - 5, 7, y + 13, HAIR)
    else:
        brush.oval(-6, y + 3, 6, y + 14, HAIR)
    brush.oval(-5, y, 5, y + 11, SKIN)
    if subject.hat is not None:
        brush.box(-11, y + 9, 11, y + 12, PAINT[subject.hat])
        brush.box(-6, y + 11, 6, y + 17, PAINT[subject.hat])


def _belonging(brush: Brush, noun: str, paint: Color) -> None:
    """Draw a held object, about 15 units: large enough to recognise in one image patch."""
    if noun == "basket":
        brush.oval(-6, -2, 6, 10, SKY)
        brush.shape([(-8, 3), (8, 3), (5, -9), (-5, -9)], paint)
    elif noun == "book":
        brush.box(-7, -6, 7, 8, paint)
        brush.box(-1, -6, 1, 8, LINE)
    elif noun == "flower":
        brush.box(-1, -12, 1, 4, PAINT["green"])
        for x, y in ((-4, 4), (4, 4), (0, 8), (0, 1)):
            brush.oval(x - 4, y - 3, x + 4, y + 5, paint)
    elif noun == "fan":
        brush.shape([(0, -8), (-9, 4), (-5, 9), (0, 11), (5, 9), (9, 4)], paint)
    else:
        brush.box(-4, -10, 4, 8, paint)
        brush.shape([(-6, 8), (6, 8), (0, 13)], LINE)
        brush.box(-6, -12, 6, -9, LINE)


def _house(brush: Brush, subject: Subject) -> None:
    brush.box(-17, 0, 17, 24, PAINT[subject.color])
    brush.shape([(-21, 24), (21, 24), (0, 42)], WOOD)
    brush.box(-4, 0, 4, 12, LINE)


def _tree(brush: Brush, subject: Subject) -> None:
    brush.box(-4, 0, 4, 18, WOOD)
    brush.oval(-18, 14, 18, 44, PAINT[subject.color])


def _vase(brush: Brush, subject: Subject) -> None:
    paint = PAINT[subject.color]
    brush.oval(-13, 0, 13, 28, paint)
    brush.box(-5, 26, 5, 36, paint)
    brush.box(-9, 35, 9, 39, paint)


def _dog(brush: Brush, subject: Subject) -> None:
    paint = PAINT[subject.color]
    brush.shape([(-14, 0), (10, 0), (6, 24), (-2, 26)], paint)
    brush.box(5, 0, 9, 18, paint)
    brush.oval(-3, 20, 14, 34, paint)
    brush.shape([(-2, 30), (4, 32), (-2, 41)], paint)
    brush.box(11, 23, 19, 28, paint)


def _birds(brush: Brush, subject: Subject) -> None:
    paint = PAINT[subject.color]
    for x, y in ((-9, 38), (9, 26), (-9, 14))[: subject.count]:
        brush.shape([(x - 14, y + 8), (x, y), (x + 14, y + 8), (x, y - 5)], paint)


_THINGS = {"house": _house, "tree": _tree, "vase": _vase, "dog": _dog, "bird": _birds}
