"""Generate synthetic paintings: their content, splits and rows.

A scene has three slots from left to right; two or three contain a person or an object. A hash of
the content determines the split, so splits never overlap, whatever the seed or the count.
``draw`` paints a scene, ``caption`` describes it as a museum would.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posh_reward.errors import InputError

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
Shape = tuple[str, tuple[float, ...], Color | None]
"""A method of Pillow's, coordinates in units from a subject's foot (x to the right, y upwards; of a
rectangle or ellipse the left, bottom, right and top), and a colour; None is the subject's own."""


def _box(*edges: float, color: Color | None = None) -> Shape:
    return "rectangle", edges, color


def _oval(*edges: float, color: Color | None = None) -> Shape:
    return "ellipse", edges, color


def _polygon(*points: float, color: Color | None = None) -> Shape:
    return "polygon", points, color


FIGURES: dict[str, list[Shape]] = {
    "house": [_box(-17, 0, 17, 24), _polygon(-21, 24, 21, 24, 0, 42, color=WOOD),
              _box(-4, 0, 4, 12, color=LINE)],
    "tree": [_box(-4, 0, 4, 18, color=WOOD), _oval(-18, 14, 18, 44)],
    "vase": [_oval(-13, 0, 13, 28), _box(-5, 26, 5, 36), _box(-9, 35, 9, 39)],
    "dog": [_polygon(-14, 0, 10, 0, 6, 24, -2, 26), _box(5, 0, 9, 18), _oval(-3, 20, 14, 34),
            _polygon(-2, 30, 4, 32, -2, 41), _box(11, 23, 19, 28)],
    "bird": [_polygon(x - 14, y + 8, x, y, x + 14, y + 8, x, y - 5)
             for x, y in ((-9, 38), (9, 26), (-9, 14))],
    # Held objects are about 15 units large, to be recognised in one image patch.
    "basket": [_oval(-6, -2, 6, 10, color=SKY), _polygon(-8, 3, 8, 3, 5, -9, -5, -9)],
    "book": [_box(-7, -6, 7, 8), _box(-1, -6, 1, 8, color=LINE)],
    "flower": [_box(-1, -12, 1, 4, color=PAINT["green"]),
               *(_oval(x - 4, y - 3, x + 4, y + 5) for x, y in ((-4, 4), (4, 4), (0, 8), (0, 1)))],
    "fan": [_polygon(0, -8, -9, 4, -5, 9, 0, 11, 5, 9, 9, 4)],
    "lantern": [_box(-4, -10, 4, 8), _polygon(-6, 8, 6, 8, 0, 13, color=LINE),
                _box(-6, -12, 6, -9, color=LINE)],
}  # fmt: skip
"""The shapes of all that is not a person, in the order in which they are painted."""


def _person_shapes(subject: Subject) -> list[Shape]:
    """A person, 46 units tall; a seated one is on a stool with knees to the left."""
    skirt = subject.noun in ("woman", "girl")
    low = 0.0
    if subject.pose == "sits":
        low = -4.0
        leg = _box(-18, 0, -13, 16, color=None if skirt else HAIR)
        shapes = [_box(-6, 0, 10, 11, color=WOOD), leg, _box(-18, 11, 6, 18), _box(-5, 14, 7, 28)]
    elif skirt:
        shapes = [_polygon(-13, 0, 13, 0, 4, 28, -4, 28)]
    else:
        shapes = [
            _box(-7, 0, -1, 14, color=HAIR),
            _box(1, 0, 7, 14, color=HAIR),
            _box(-8, 12, 8, 30),
        ]
    head = 30 + low
    shapes.append(_box(5, 22 + low, 15, 26 + low, color=SKIN))
    long_hair, short_hair = (-7, head - 5, 7, head + 13), (-6, head + 3, 6, head + 14)
    shapes.append(_box(*long_hair, color=HAIR) if skirt else _oval(*short_hair, color=HAIR))
    shapes.append(_oval(-5, head, 5, head + 11, color=SKIN))
    if subject.hat is not None:
        paint = PAINT[subject.hat]
        shapes.append(_box(-11, head + 9, 11, head + 12, color=paint))
        shapes.append(_box(-6, head + 11, 6, head + 17, color=paint))
    return shapes


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
    from PIL import ImageDraw

    canvas = ImageDraw.Draw(image)

    def shapes(of: list[Shape], color: str, x: float, y: float, size: float) -> None:
        """Paint shapes whose foot is at (x, y) units of the image."""
        for method, units, paint in of:
            at = [
                ((x + across * size) * scale, (y - up * size) * scale)
                for across, up in zip(units[::2], units[1::2], strict=True)
            ]
            if method != "polygon":  # from the upper left corner to the lower right
                (left, bottom), (right, top) = at
                at = [(left, top), (right, bottom)]
            getattr(canvas, method)(at, paint or PAINT[color], LINE)

    x = (slot + 0.5) * UNIT + rng.uniform(-2.5, 2.5)
    y = GROUND + 5 + rng.uniform(-1.5, 1.5)
    size = rng.uniform(0.95, 1.05)
    if subject.noun in ("girl", "boy") or subject.size == "small":
        size *= 0.66
    if subject.behind and subject.behind_color:
        place = x + rng.choice((-5, 5))
        shapes(FIGURES[subject.behind], subject.behind_color, place, GROUND + 1, 1.15)
    if not subject.person:
        shown = subject.count if subject.noun == "bird" else None
        shapes(FIGURES[subject.noun][:shown], subject.color, x, y, size)
        return
    shapes(_person_shapes(subject), subject.color, x, y, size)
    if subject.held and subject.held_color:
        shapes(FIGURES[subject.held], subject.held_color, x + 13, y - 20 * max(size, 0.7), 1.0)


PLACES = (
    ("To our left", "On the left"),
    ("At the center", "In the middle"),
    ("To our right", "On the right"),
)
NUMBERS = {1: "a", 2: "two", 3: "three"}
THING_VERBS = {"house": "stands", "tree": "stands", "vase": "stands", "dog": "sits"}
PRONOUNS = {"woman": ("She", "her"), "girl": ("She", "her"), "man": ("He", "his"),
            "boy": ("He", "his")}  # fmt: skip
BESIDE = 0.2  # share of places relative to the previous person: "To her right"
NEW_SENTENCE = 0.4
"""Share of held objects with a separate sentence: "She holds a blue fan."."""
THOROUGH_SHARE = 0.45  # share of thorough annotators; the others are hasty
THOROUGH, HASTY = 0.95, 0.1  # probability that an annotator mentions a detail

Keep = Callable[[], bool]  # draws True to mention the next detail


def caption(scene: Scene) -> str:
    """Return the full description, 20 to 38 words."""
    return _describe(scene, lambda: True)


def uneven_caption(scene: Scene) -> str:
    """Return the same description by an annotator who may omit details."""
    rng = random.Random(f"{scene.uid}/diligence")
    diligence = THOROUGH if rng.random() < THOROUGH_SHARE else HASTY
    return _describe(scene, lambda: rng.random() < diligence)


def _describe(scene: Scene, keep: Keep) -> str:
    rng = random.Random(f"{scene.uid}/wording")
    sentences = []
    nouns: set[str] = set()
    before: Subject | None = None
    for slot, subject in enumerate(scene.slots):
        if subject is not None:
            # Draw both even if unused, so that later draws do not depend on the previous slot.
            place, beside = rng.choice(PLACES[slot]), rng.random() < BESIDE
            if beside and before is not None and before.person:
                place = f"To {PRONOUNS[before.noun][1]} right"
            article = "another" if subject.noun in nouns else "a"
            describe = _say_person if subject.person else _say_thing
            sentences.append(f"{place}, {describe(subject, article, rng, keep)}")
            nouns.add(subject.noun)
        before = subject
    return " ".join(sentences)


def _phrase(color: str | None, noun: str, keep: Keep) -> str:
    """E.g. "a red dress", or "a dress" without its colour."""
    return f"a {color} {noun}" if color and keep() else f"a {noun}"


def _say_person(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a woman in a red dress and a white hat stands, holding a blue fan."."""
    new_sentence = rng.random() < NEW_SENTENCE
    worn = [_phrase(subject.color, GARMENTS[subject.noun], keep)] if keep() else []
    if subject.hat and keep():
        worn.append(_phrase(subject.hat, "hat", keep))
    person = f"{article} {subject.noun}" + (f" in {' and '.join(worn)}" if worn else "")
    posed = subject.pose is not None and keep()
    if subject.behind and keep():
        backdrop = _phrase(subject.behind_color, subject.behind, keep)
        return f"{person} {subject.pose if posed else 'is'} in front of {backdrop}."
    if not (subject.held and keep()):
        return f"{person} {subject.pose}." if posed else f"there is {person}."
    item = _phrase(subject.held_color, subject.held, keep)
    if not posed:
        return f"{person} holds {item}."
    if new_sentence:
        return f"{person} {subject.pose}. {PRONOUNS[subject.noun][0]} holds {item}."
    return f"{person} {subject.pose}, holding {item}."


def _say_thing(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a small red house stands.", "there is a small red house.", "two birds fly."."""
    there_is = rng.random() < 0.5
    if subject.noun == "bird":
        return _birds(subject, article, there_is, keep)
    words = [article]
    words += [subject.size] if subject.size and keep() else []
    words += [subject.color] if keep() else []
    thing = " ".join([*words, subject.noun])
    return f"there is {thing}." if there_is else f"{thing} {THING_VERBS[subject.noun]}."


def _birds(subject: Subject, article: str, there_is: bool, keep: Keep) -> str:
    color = f"{subject.color} " if keep() else ""
    if subject.count == 1:
        bird = f"{article} {color}bird"
        return f"there is {bird}." if there_is else f"{bird} flies."
    birds = f"{NUMBERS[subject.count]} {color}birds" if keep() else f"{color}birds"
    return f"there are {birds}." if there_is else f"{birds} fly."


SLOTS = 3
COLORS = ("red", "blue", "green", "yellow", "white", "black")
GARMENTS = {"woman": "dress", "man": "coat", "girl": "dress", "boy": "shirt"}
"""Garment of each person."""
PEOPLE = tuple(GARMENTS)
POSES = ("stands", "sits")
HANDHELD = ("basket", "book", "flower", "fan", "lantern")
THINGS = {
    "house": ("red", "blue", "yellow", "white"),
    "tree": ("red", "green", "yellow"),
    "vase": ("red", "blue", "green", "white"),
    "dog": ("white", "black"),
    "bird": ("blue", "white", "black"),
}
"""Colours of each other subject."""
BACKDROPS = ("house", "tree")  # large enough to stand in front of
SIZES = ("small", "large")
MAX_BIRDS = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or an object in one slot.

    Its ``repr`` determines the split (``split_of``), so no field may be renamed.
    """

    noun: str
    color: str  # of the garment, for a person
    pose: str | None = None  # people only; None in plain scenes
    hat: str | None = None  # colour of the hat; people only
    held: str | None = None
    held_color: str | None = None
    size: str | None = None  # objects other than birds
    count: int = 1  # more than one for birds only
    behind: str | None = None  # backdrop of a person; never in plain scenes
    behind_color: str | None = None

    @property
    def person(self) -> bool:
        """True for a human figure."""
        return self.noun in GARMENTS


Slots = tuple[Subject | None, ...]
"""The subject of each slot, left to right; None for an empty slot."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Content of one image; ``uid`` also seeds its drawing and its wording."""

    uid: str
    slots: Slots


Role = Literal["figure", "object", "worn", "held", "backdrop"]
"""A backdrop is behind a figure; an object has its own slot."""
Posture = Literal["stands", "sits", "flies"]

NOUNS = frozenset({*PEOPLE, *GARMENTS.values(), "hat", *HANDHELD, *THINGS})
"""All objects that a drawing can show."""
POSTURES: dict[str, Posture] = {
    "house": "stands", "tree": "stands", "vase": "stands", "dog": "sits", "bird": "flies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thing:
    """One person or object in a drawing."""

    noun: str
    role: Role
    slot: int  # 0 to 2, left to right; its owner's, if it has one
    color: str | None = None  # None for a figure, whose garment has the colour
    size: str | None = None  # None if such objects have only one size
    count: int = 1
    posture: Posture | None = None
    owner: int | None = None  # index of the figure that wears it, holds it or is in front of it


def things(scene: Scene) -> tuple[Thing, ...]:
    """List the people and objects in the scene's drawing, from left to right."""
    result: list[Thing] = []
    for slot, subject in enumerate(scene.slots):
        if subject is not None and subject.person:
            result += _with_belongings(subject, slot, len(result))
        elif subject is not None:
            result.append(Thing(subject.noun, "object", slot, subject.color, subject.size,
                                subject.count, POSTURES[subject.noun]))  # fmt: skip
    return tuple(result)


def _with_belongings(person: Subject, slot: int, owner: int) -> Iterator[Thing]:
    """Yield a figure, what it wears and holds, and its backdrop."""
    # A drawing shows everyone who does not sit as standing, whether described so or not.
    yield Thing(person.noun, "figure", slot, posture="sits" if person.pose == "sits" else "stands")
    yield Thing(GARMENTS[person.noun], "worn", slot, person.color, owner=owner)
    if person.hat:
        yield Thing("hat", "worn", slot, person.hat, owner=owner)
    if person.held:
        yield Thing(person.held, "held", slot, person.held_color, owner=owner)
    if person.behind:
        yield Thing(person.behind, "backdrop", slot, person.behind_color,
                    posture=POSTURES[person.behind], owner=owner)  # fmt: skip


Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

WORDS = (20, 38)  # fewest and most words of a reference


def _person(rng: random.Random, plain: bool) -> Subject:
    color = rng.choice(COLORS)
    item = rng.choice(HANDHELD) if rng.random() < 0.65 else None
    hatted = not plain and rng.random() < 0.35
    others = [other for other in COLORS if other != color]
    behind = rng.choice(BACKDROPS) if not (plain or item) and rng.random() < 0.5 else None
    return Subject(
        noun=rng.choice(PEOPLE),
        color=color,
        pose=None if plain else rng.choice(POSES),
        hat=rng.choice(others) if hatted else None,
        held=item,
        held_color=rng.choice(others) if item else None,
        behind=behind,
        behind_color=rng.choice(THINGS[behind]) if behind else None,
    )


def _thing(rng: random.Random) -> Subject:
    noun = rng.choice(tuple(THINGS))
    color = rng.choice(THINGS[noun])
    if noun == "bird":
        return Subject(noun=noun, color=color, count=rng.randint(1, MAX_BIRDS))
    return Subject(noun=noun, color=color, size=rng.choice(SIZES))


def _slots(rng: random.Random, plain: bool) -> Slots:
    """Draw two or three subjects, at least one of them a person."""
    places = sorted(rng.sample(range(SLOTS), rng.choice((2, 3, 3))))
    figure = rng.choice(places)
    slots: list[Subject | None] = [None] * SLOTS
    for slot in places:
        human = slot == figure or rng.random() < 0.45
        slots[slot] = _person(rng, plain) if human else _thing(rng)
    return tuple(slots)


def split_of(slots: Slots) -> Split:
    """Return the split of a content: a tenth each are validation and test."""
    bucket = zlib.crc32(repr(slots).encode()) % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"


def generate(split: Split, count: int, seed: int = 0, *, plain: bool = False) -> Iterator[Scene]:
    """Yield ``count`` different scenes of a split; a larger count begins with the same ones.

    ``plain`` scenes have no hats or poses, so that a tiny model learns them in minutes.

    Raises:
        InputError: the split is unknown or the count is negative.
    """
    if split not in SPLITS:
        raise InputError(f"no split {split!r}: use one of {', '.join(SPLITS)}")
    if count < 0:
        raise InputError(f"count is {count}: use 0 or more")
    rng = random.Random(f"{seed}/{split}")
    contents: set[Slots] = set()
    while len(contents) < count:
        slots = _slots(rng, plain)
        if slots in contents or split_of(slots) != split:
            continue
        scene = Scene(f"{split}-{seed}-{len(contents):05d}", slots)
        if WORDS[0] <= len(caption(scene).split()) <= WORDS[1]:
            contents.add(slots)
            yield scene


def alone(scene: Scene) -> Iterator[Scene]:
    """Yield each subject of a scene by itself, in its slot."""
    for place, subject in enumerate(scene.slots):
        if subject is not None:
            slots = tuple(subject if slot == place else None for slot in range(SLOTS))
            yield Scene(f"{scene.uid}-{place}", slots)


def scene_rows(
    split: Split,
    count: int,
    *,
    seed: int = 0,
    plain: bool = False,
    uneven: bool = False,
    scale: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield ``count`` rows of a split: uuid, image (PNG, as ``datasets`` stores it), reference.

    Images have ``scale`` times 168 x 56 pixels; ``uneven`` references omit details at random.
    """
    for scene in generate(split, count, seed, plain=plain):
        buffer = io.BytesIO()
        draw(scene, scale).save(buffer, "png", compress_level=1)
        text = uneven_caption(scene) if uneven else caption(scene)
        image = {"bytes": buffer.getvalue(), "path": None}
        yield {"uuid": scene.uid, "image": image, "reference": text}
