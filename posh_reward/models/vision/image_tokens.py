"""Prompts with images -> tokens and patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posh_reward.errors import InputError
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import (
    NO_PLACE,
    SizeLimits,
    check_max_pixels,
    image_failure,
    image_for_model,
    size_of,
)
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    import torch

Ids = tuple[int, ...]
REMEMBERED = 1024  # interned stems and prefixes; beyond that all are dropped


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """A tokenised prompt with images."""

    images: tuple[PromptImage, ...]
    stem: Ids  # up to the last image, with a placeholder for each image token
    prefix: Ids  # the following tokens that other prompts share
    own: Ids  # the rest; never empty, since a template ends the message

    def __len__(self) -> int:
        return len(self.stem) + len(self.prefix) + len(self.own)


class ImageEncoder:
    """Convert images to patches, and placeholders to as many tokens as an image has.

    Args:
        processor: the checkpoint's image processor, Qwen's.
        placeholder: id of the token that represents a part of an image.
        max_pixels: larger images are shrunk to this.

    Raises:
        InputError: ``max_pixels`` is less than one token's square.
    """

    def __init__(self, processor: Any, placeholder: int, max_pixels: int) -> None:
        factor = processor.patch_size * processor.merge_size
        check_max_pixels(max_pixels, factor)
        self.placeholder = placeholder
        least = min(processor.size["shortest_edge"], max_pixels)
        self.sizes = SizeLimits(factor, least, max_pixels)
        self._processor = processor
        self._unique: dict[Ids, Ids] = {}

    def tokens(self, prompt: Prompt, ids: Sequence[int], shared: int) -> ImageTokens | Failure:
        """Split a prompt's ids, the first ``shared`` its prefix; a failure for bad images."""
        places = [place for place, token in enumerate(ids) if token == self.placeholder]
        if len(places) != len(prompt.images) or places[-1] >= shared:
            return NO_PLACE
        try:
            counts = [self.sizes.tokens(*size_of(prompt_image)) for prompt_image in prompt.images]
        except InputError as error:
            return image_failure(error)
        end = places[-1] + 1
        stem = self._intern(tuple(expand(ids[:end], self.placeholder, counts)))
        prefix = self._intern(tuple(ids[end:shared]))
        return ImageTokens(prompt.images, stem, prefix, tuple(ids[shared:]))

    def patches(
        self, prompt_images: Sequence[PromptImage]
    ) -> tuple[torch.Tensor, torch.Tensor] | Failure:
        """Pixels (patches, values per patch) and grids (images, 3) of images, in order."""
        images = []
        for prompt_image in prompt_images:
            image = image_for_model(prompt_image, self.sizes)
            if isinstance(image, Failure):
                return image
            images.append(image)
        batch = self._processor(images, do_resize=False, return_tensors="pt")
        return batch["pixel_values"], batch["image_grid_thw"]

    def _intern(self, ids: Ids) -> Ids:
        """One object for equal tuples: thousands of questions share a thousand tokens."""
        if len(self._unique) >= REMEMBERED:
            self._unique.clear()
        return self._unique.setdefault(ids, ids)


def expand(ids: Sequence[int], placeholder: int, counts: Sequence[int]) -> Iterator[int]:
    """Repeat each placeholder as often as its image has tokens."""
    repeats = iter(counts)
    for token in ids:
        yield from [token] * (next(repeats) if token == placeholder else 1)
