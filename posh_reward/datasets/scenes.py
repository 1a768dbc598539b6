"""Generate synthetic paintings: their content, splits and rows.

A scene has three slots from left to right; two or three contain a person or an object. A hash of
the content determines the split, so splits never overlap, whatever the seed or the count.
``draw_scene`` paints a scene, ``caption`` describes it as a museum would.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posh_reward.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

SLOTS_PER_SCENE = 3
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

# Shares of subjects, by which contents are drawn.
PERSON_SHARE = 0.45  # of the subjects besides the one that is always a person
HELD_SHARE = 0.65  # of people, with an object in their hands
HAT_SHARE = 0.35  # of people in scenes that are not plain
BACKDROP_SHARE = 0.5  # of people with free hands in scenes that are not plain


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or an object in one slot.

    Its ``repr`` determines the split (``assign_split``), so no field may be renamed.
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
    def is_person(self) -> bool:
        """True for a human figure."""
        return self.noun in GARMENTS


Slots = tuple[Subject | None, ...]
"""The subject of each slot, left to right; None for an empty slot."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Content of one image; ``uid`` also seeds its drawing and its wording."""

    uid: str
    slots: Slots


Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

MIN_REFERENCE_WORDS, MAX_REFERENCE_WORDS = 20, 38


def _sample_if(wanted: bool, options: Sequence[str], rng: random.Random) -> str | None:
    return rng.choice(options) if wanted else None


def _sample_person(rng: random.Random, plain: bool) -> Subject:
    # The order of the draws is part of a seed's meaning.
    color = rng.choice(COLORS)
    item = _sample_if(rng.random() < HELD_SHARE, HANDHELD, rng)
    hatted = not plain and rng.random() < HAT_SHARE
    others = [other for other in COLORS if other != color]
    has_backdrop = not (plain or item) and rng.random() < BACKDROP_SHARE
    behind = _sample_if(has_backdrop, BACKDROPS, rng)
    return Subject(
        noun=rng.choice(PEOPLE),
        color=color,
        pose=_sample_if(not plain, POSES, rng),
        hat=_sample_if(hatted, others, rng),
        held=item,
        held_color=_sample_if(item is not None, others, rng),
        behind=behind,
        behind_color=rng.choice(THINGS[behind]) if behind else None,
    )


def _sample_object(rng: random.Random) -> Subject:
    noun = rng.choice(tuple(THINGS))
    color = rng.choice(THINGS[noun])
    if noun == "bird":
        return Subject(noun=noun, color=color, count=rng.randint(1, MAX_BIRDS))
    return Subject(noun=noun, color=color, size=rng.choice(SIZES))


def _sample_slots(rng: random.Random, plain: bool) -> Slots:
    """Draw two or three subjects, at least one of them a person."""
    places = sorted(rng.sample(range(SLOTS_PER_SCENE), rng.choice((2, 3, 3))))
    figure = rng.choice(places)
    slots: list[Subject | None] = [None] * SLOTS_PER_SCENE
    for slot in places:
        if slot == figure or rng.random() < PERSON_SHARE:
            slots[slot] = _sample_person(rng, plain)
        else:
            slots[slot] = _sample_object(rng)
    return tuple(slots)


def assign_split(slots: Slots) -> Split:
    """Return the split of a content: a tenth each are validation and test."""
    bucket = zlib.crc32(repr(slots).encode()) % 10
    if bucket == 0:
        return "test"
    if bucket == 1:
        return "validation"
    return "train"


def generate_scenes(
    split: Split, count: int, seed: int = 0, *, plain: bool = False
) -> Iterator[Scene]:
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
        slots = _sample_slots(rng, plain)
        if slots in contents or assign_split(slots) != split:
            continue
        scene = Scene(f"{split}-{seed}-{len(contents):05d}", slots)
        if MIN_REFERENCE_WORDS <= len(caption(scene).split()) <= MAX_REFERENCE_WORDS:
            contents.add(slots)
            yield scene


def isolate_subjects(scene: Scene) -> Iterator[Scene]:
    """Yield each subject of a scene by itself, in its slot."""
    for place, subject in enumerate(scene.slots):
        if subject is not None:
            slots: list[Subject | None] = [None] * SLOTS_PER_SCENE
            slots[place] = subject
            yield Scene(f"{scene.uid}-{place}", tuple(slots))


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
    for scene in generate_scenes(split, count, seed, plain=plain):
        buffer = io.BytesIO()
        draw_scene(scene, scale).save(buffer, "png", compress_level=1)
        text = uneven_caption(scene) if uneven else caption(scene)
        image = {"bytes": buffer.getvalue(), "path": None}
        yield {"uuid": scene.uid, "image": image, "reference": text}


# The drawing.

UNITS_PER_SLOT = 56  # its width and height; a unit is a pixel at scale 1
GROUND_TOP_UNITS = 47  # below the top of the image
PAINT = {
    "red": (205, 35, 40),
    "blue": (40, 70, 200),
    "green": (30, 130, 50),
    "yellow": (245, 205, 40),
    "white": (250, 250, 250),
    "black": (25, 25, 30),
}
SKY = (190, 200, 205)
GROUND_COLORS = ((120, 150, 80), (205, 175, 130), (110, 120, 140))
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


SHAPES_BY_NOUN: dict[str, list[Shape]] = {
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
    if skirt:
        shapes.append(_box(-7, head - 5, 7, head + 13, color=HAIR))  # long hair
    else:
        shapes.append(_oval(-6, head + 3, 6, head + 14, color=HAIR))
    shapes.append(_oval(-5, head, 5, head + 11, color=SKIN))
    if subject.hat is not None:
        paint = PAINT[subject.hat]
        shapes.append(_box(-11, head + 9, 11, head + 12, color=paint))
        shapes.append(_box(-6, head + 11, 6, head + 17, color=paint))
    return shapes


def draw_scene(scene: Scene, scale: int = 1) -> Image:
    """Return the image, RGB, ``scale`` times 168 x 56 pixels."""
    from PIL import Image

    rng = random.Random(f"{scene.uid}/brush")
    shade = rng.randint(-12, 12)
    sky = (SKY[0] + shade, SKY[1] + shade, SKY[2] + shade)
    side, ground = UNITS_PER_SLOT * scale, GROUND_TOP_UNITS * scale
    image = Image.new("RGB", (SLOTS_PER_SCENE * side, side), sky)
    for slot, subject in enumerate(scene.slots):
        left = slot * side
        image.paste(GROUND_COLORS[slot], (left, ground, left + side, side))
        if subject is not None:
            _paint_subject(image, subject, slot, scale, rng)
    return image


def _paint_subject(
    image: Image, subject: Subject, slot: int, scale: int, rng: random.Random
) -> None:
    from PIL import ImageDraw

    canvas = ImageDraw.Draw(image)

    def paint_shapes(shapes: list[Shape], color: str, x: float, y: float, size: float) -> None:
        """Paint shapes whose foot is at (x, y) units of the image."""
        for method, units, paint in shapes:
            at = [
                ((x + across * size) * scale, (y - up * size) * scale)
                for across, up in zip(units[::2], units[1::2], strict=True)
            ]
            if method != "polygon":  # from the upper left corner to the lower right
                (left, bottom), (right, top) = at
                at = [(left, top), (right, bottom)]
            getattr(canvas, method)(at, paint or PAINT[color], LINE)

    x = (slot + 0.5) * UNITS_PER_SLOT + rng.uniform(-2.5, 2.5)
    y = GROUND_TOP_UNITS + 5 + rng.uniform(-1.5, 1.5)
    size = rng.uniform(0.95, 1.05)
    if subject.noun in ("girl", "boy") or subject.size == "small":
        size *= 0.66
    if subject.behind and subject.behind_color:
        place = x + rng.choice((-5, 5))
        shapes = SHAPES_BY_NOUN[subject.behind]
        paint_shapes(shapes, subject.behind_color, place, GROUND_TOP_UNITS + 1, 1.15)
    if not subject.is_person:
        shapes = SHAPES_BY_NOUN[subject.noun]
        if subject.noun == "bird":
            shapes = shapes[: subject.count]
        paint_shapes(shapes, subject.color, x, y, size)
        return
    paint_shapes(_person_shapes(subject), subject.color, x, y, size)
    if subject.held and subject.held_color:
        hand = y - 20 * max(size, 0.7)
        paint_shapes(SHAPES_BY_NOUN[subject.held], subject.held_color, x + 13, hand, 1.0)


# The wording.

PLACE_PHRASES = (
    ("To our left", "On the left"),
    ("At the center", "In the middle"),
    ("To our right", "On the right"),
)
NUMBER_WORDS = {1: "a", 2: "two", 3: "three"}
THING_VERBS = {"house": "stands", "tree": "stands", "vase": "stands", "dog": "sits"}
PRONOUNS = {"woman": ("She", "her"), "girl": ("She", "her"), "man": ("He", "his"),
            "boy": ("He", "his")}  # fmt: skip
BESIDE_SHARE = 0.2  # share of places relative to the previous person: "To her right"
NEW_SENTENCE_SHARE = 0.4
"""Share of held objects with a separate sentence: "She holds a blue fan."."""
THOROUGH_SHARE = 0.45  # share of thorough annotators; the others are hasty
THOROUGH_MENTION_SHARE, HASTY_MENTION_SHARE = 0.95, 0.1
"""Shares of the details that an annotator of either kind mentions."""
THERE_IS_SHARE = 0.5  # share of objects introduced by "there is", rather than with a verb

Keep = Callable[[], bool]  # draws True to mention the next detail


def caption(scene: Scene) -> str:
    """Return the full description, 20 to 38 words."""
    return _describe_scene(scene, lambda: True)


def uneven_caption(scene: Scene) -> str:
    """Return the same description by an annotator who may omit details."""
    rng = random.Random(f"{scene.uid}/diligence")
    mention_share = HASTY_MENTION_SHARE
    if rng.random() < THOROUGH_SHARE:
        mention_share = THOROUGH_MENTION_SHARE
    return _describe_scene(scene, lambda: rng.random() < mention_share)


def _describe_scene(scene: Scene, keep: Keep) -> str:
    rng = random.Random(f"{scene.uid}/wording")
    sentences = []
    nouns: set[str] = set()
    before: Subject | None = None
    for slot, subject in enumerate(scene.slots):
        if subject is not None:
            # Draw both even if unused, so that later draws do not depend on the previous slot.
            place, beside = rng.choice(PLACE_PHRASES[slot]), rng.random() < BESIDE_SHARE
            if beside and before is not None and before.is_person:
                place = f"To {PRONOUNS[before.noun][1]} right"
            article = "another" if subject.noun in nouns else "a"
            describe = _say_person if subject.is_person else _say_thing
            sentences.append(f"{place}, {describe(subject, article, rng, keep)}")
            nouns.add(subject.noun)
        before = subject
    return " ".join(sentences)


def _name_with_color(color: str | None, noun: str, keep: Keep) -> str:
    """E.g. "a red dress", or "a dress" without its colour."""
    return f"a {color} {noun}" if color and keep() else f"a {noun}"


def _say_person(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a woman in a red dress and a white hat stands, holding a blue fan."."""
    new_sentence = rng.random() < NEW_SENTENCE_SHARE
    worn = []
    if keep():
        worn.append(_name_with_color(subject.color, GARMENTS[subject.noun], keep))
    if subject.hat and keep():
        worn.append(_name_with_color(subject.hat, "hat", keep))
    person = f"{article} {subject.noun}"
    if worn:
        person += f" in {' and '.join(worn)}"
    posed = subject.pose is not None and keep()
    if subject.behind and keep():
        backdrop = _name_with_color(subject.behind_color, subject.behind, keep)
        verb = subject.pose if posed else "is"
        return f"{person} {verb} in front of {backdrop}."
    if not (subject.held and keep()):
        return f"{person} {subject.pose}." if posed else f"there is {person}."
    item = _name_with_color(subject.held_color, subject.held, keep)
    if not posed:
        return f"{person} holds {item}."
    if new_sentence:
        return f"{person} {subject.pose}. {PRONOUNS[subject.noun][0]} holds {item}."
    return f"{person} {subject.pose}, holding {item}."


def _say_thing(subject: Subject, article: str, rng: random.Random, keep: Keep) -> str:
    """E.g. "a small red house stands.", "there is a small red house.", "two birds fly."."""
    there_is = rng.random() < THERE_IS_SHARE
    if subject.noun == "bird":
        return _say_birds(subject, article, there_is, keep)
    words = [article]
    if subject.size and keep():
        words.append(subject.size)
    if keep():
        words.append(subject.color)
    thing = " ".join([*words, subject.noun])
    return f"there is {thing}." if there_is else f"{thing} {THING_VERBS[subject.noun]}."


def _say_birds(subject: Subject, article: str, there_is: bool, keep: Keep) -> str:
    color = f"{subject.color} " if keep() else ""
    if subject.count == 1:
        bird = f"{article} {color}bird"
        return f"there is {bird}." if there_is else f"{bird} flies."
    birds = f"{color}birds"
    if keep():
        birds = f"{NUMBER_WORDS[subject.count]} {birds}"
    return f"there are {birds}." if there_is else f"{birds} fly."


# What a drawing shows, for the oracle.

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


def list_things(scene: Scene) -> tuple[Thing, ...]:
    """List the people and objects in the scene's drawing, from left to right."""
    result: list[Thing] = []
    for slot, subject in enumerate(scene.slots):
        if subject is not None and subject.is_person:
            result += _with_belongings(subject, slot, len(result))
        elif subject is not None:
            result.append(Thing(subject.noun, "object", slot, subject.color, subject.size,
                                subject.count, POSTURES[subject.noun]))  # fmt: skip
    return tuple(result)


def _with_belongings(person: Subject, slot: int, owner: int) -> Iterator[Thing]:
    """Yield a figure, what it wears and holds, and its backdrop."""
    # A drawing shows everyone who does not sit as standing, whether described so or not.
    posture: Posture = "sits" if person.pose == "sits" else "stands"
    yield Thing(person.noun, "figure", slot, posture=posture)
    yield Thing(GARMENTS[person.noun], "worn", slot, person.color, owner=owner)
    if person.hat:
        yield Thing("hat", "worn", slot, person.hat, owner=owner)
    if person.held:
        yield Thing(person.held, "held", slot, person.held_color, owner=owner)
    if person.behind:
        yield Thing(person.behind, "backdrop", slot, person.behind_color,
                    posture=POSTURES[person.behind], owner=owner)  # fmt: skip
