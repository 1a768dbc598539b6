"""Drawn pictures by the digest of their pixels: each is drawn again, so nothing is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from posh_reward.datasets.load import scene_options
from posh_reward.datasets.scenes.drawing import draw
from posh_reward.datasets.scenes.scene import SPLITS, generate
from posh_reward.datasets.scenes.subjects import Scene
from posh_reward.errors import MissingDependencyError
from posh_reward.models.pictures import picture_of
from posh_reward.types import Failure


@lru_cache(maxsize=4)
def album(dataset: str) -> Mapping[str, Scene]:
    """The scene of each picture of a drawn dataset, in all its splits: a millisecond a picture.

    Args:
        dataset: its name with its options, as ``datasets.load`` takes it.

    Raises:
        InputError: an option is unknown.
        MissingDependencyError: Pillow is not installed.
    """
    options = scene_options(dataset)
    scenes: dict[str, Scene] = {}
    for split in SPLITS:
        count = options.train if split == "train" else options.heldout
        for scene in generate(split, count, options.seed, plain=bool(options.plain)):
            picture = picture_of(draw(scene, options.scale))
            if isinstance(picture, Failure):
                raise MissingDependencyError(str(picture))
            scenes[picture.digest] = scene
    return scenes
