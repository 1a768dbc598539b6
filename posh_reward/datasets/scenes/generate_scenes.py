"""Generate synthetic paintings: their content, splits and rows.

A scene has three slots from left to right; two or three contain a person or an object. A hash of
the content determines the split, so splits never overlap, whatever the seed or the count.
``drawing`` paints a scene, ``scene_wording`` describes it as a museum would.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from posh_reward.datasets.scenes import drawing, scene_wording
from posh_reward.datasets.scenes.subjects import (
    BACKDROPS,
    COLORS,
    HANDHELD,
    MAX_BIRDS,
    PEOPLE,
    POSES,
    SIZES,
    SLOTS,
    THINGS,
    Scene,
    Slots,
    Subject,
)
from posh_reward.errors import InputError

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
        if WORDS[0] <= len(scene_wording.reference(scene).split()) <= WORDS[1]:
            contents.add(slots)
            yield scene


def alone(scene: Scene) -> Iterator[Scene]:
    """Yield each subject of a scene by itself, in its slot."""
    for place, subject in enumerate(scene.slots):
        if subject is not None:
            slots = tuple(subject if slot == place else None for slot in range(SLOTS))
            yield Scene(f"{scene.uid}-{place}", slots)


def rows(
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
        drawing.draw(scene, scale).save(buffer, "png", compress_level=1)
        text = scene_wording.uneven(scene) if uneven else scene_wording.reference(scene)
        image = {"bytes": buffer.getvalue(), "path": None}
        yield {"uuid": scene.uid, "image": image, "reference": text}
