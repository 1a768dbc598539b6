"""Drawn images by the digest of their pixels: each is drawn again, so nothing is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from posh_reward.datasets.load_dataset import scene_options
from posh_reward.datasets.scenes.drawing import draw
from posh_reward.datasets.scenes.generate_scenes import SPLITS, generate
from posh_reward.datasets.scenes.subjects import Scene
from posh_reward.errors import MissingDependencyError
from posh_reward.models.prompt_images import image_of
from posh_reward.types import Failure


@lru_cache(maxsize=4)
def album(dataset: str) -> Mapping[str, Scene]:
    """The scene of each image of a drawn dataset, in all its splits: a millisecond an image.

    Args:
        dataset: its name with its options, as ``datasets.load_dataset`` takes it.

    Raises:
        InputError: an option is unknown.
        MissingDependencyError: Pillow is not installed.
    """
    options = scene_options(dataset)
    scenes: dict[str, Scene] = {}
    for split in SPLITS:
        count = options.train if split == "train" else options.heldout
        for scene in generate(split, count, options.seed, plain=bool(options.plain)):
            image = image_of(draw(scene, options.scale))
            if isinstance(image, Failure):
                raise MissingDependencyError(str(image))
            scenes[image.digest] = scene
    return scenes
