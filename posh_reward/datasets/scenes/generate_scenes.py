"""Synthetic paintings: what is in them, who belongs to which split, and the records.

A scene has three slots from left to right; two or three hold a person or a thing. The content
decides the split (a hash of it), so no scene of one split occurs in another, whatever the seed
or the count. ``drawing`` paints a scene, ``wording`` describes it as a museum would.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
    """Two or three subjects, the first drawn of them a person."""
    places = sorted(rng.sample(range(SLOTS), rng.choice((2, 3, 3))))
    figure = rng.choice(places)
    slots: list[Subject | None] = [None] * SLOTS
    for slot in places:
        human = slot == figure or rng.random() < 0.45
        slots[slot] = _person(rng, plain) if human else _thing(rng)
    return tuple(slots)


def split_of(slots: Slots) -> Split:
    """The one split that a content belongs to: a tenth each for validation and test."""
    bucket = zlib.crc32(repr(slots).encode()) % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"


def generate(split: Split, count: int, seed: int = 0, *, plain: bool = False) -> Iterator[Scene]:
    """Yield ``count`` different scenes of a split; more of them begin with the same ones.

    Another seed gives other scenes; ``plain`` ones have no hats and poses, which a tiny model can
    learn in minutes.

    Raises:
        InputError: the split is unknown or the count is negative.
    """
    if split not in SPLITS:
        raise InputError(f"no split {split!r}; use one of {', '.join(SPLITS)}")
    if count < 0:
        raise InputError(f"count is {count}; use a number of images from 0 up")
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
    """Each subject of a scene by itself, in its slot."""
    for place, subject in enumerate(scene.slots):
        if subject is not None:
            slots = tuple(subject if slot == place else None for slot in range(SLOTS))
            yield Scene(f"{scene.uid}-{place}", slots)


@dataclass(frozen=True, slots=True)
class SceneRow:
    """One row of the dataset: the columns of ``amitha/docent``, plus a uuid."""

    uuid: str
    image: bytes  # PNG
    reference: str


def rows(
    split: Split,
    count: int,
    *,
    seed: int = 0,
    plain: bool = False,
    uneven: bool = False,
    scale: int = 1,
) -> Iterator[SceneRow]:
    """Draw and describe ``count`` scenes of a split, at ``scale`` times 168 x 56 pixels.

    ``uneven`` describes as annotators of differing diligence do, details left out at random.
    """
    for scene in generate(split, count, seed, plain=plain):
        buffer = io.BytesIO()
        drawing.draw(scene, scale).save(buffer, "png", compress_level=1)
        text = scene_wording.uneven(scene) if uneven else scene_wording.reference(scene)
        yield SceneRow(scene.uid, buffer.getvalue(), text)
