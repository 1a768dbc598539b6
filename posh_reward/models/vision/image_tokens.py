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
REMEMBERED = 1024  # stems and prefixes that are remembered; beyond that all are forgotten


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """A prompt with images, in tokens."""

    images: tuple[PromptImage, ...]
    stem: Ids  # up to the last image, with as many placeholders as each image has tokens
    prefix: Ids  # the following tokens that other prompts share
    own: Ids  # the rest; never empty, since a template ends the message

    def __len__(self) -> int:
        return len(self.stem) + len(self.prefix) + len(self.own)


class ImageEncoder:
    """Images -> patches, placeholders -> as many tokens as an image has.

    Args:
        processor: the checkpoint's image processor, Qwen's.
        placeholder: the token that stands for a part of an image.
        max_pixels: larger images are shrunk to this.

    Raises:
        InputError: ``max_pixels`` is less than one token's square.
    """

    def __init__(self, processor: Any, placeholder: int, max_pixels: int) -> None:
        factor = processor.patch_size * processor.merge_size
        check_max_pixels(max_pixels, factor)
        self.placeholder = placeholder
        self.sizes = SizeLimits(
            factor,
            min(processor.size["shortest_edge"], max_pixels),
            max_pixels,
        )
        self._processor = processor
        self._unique: dict[Ids, Ids] = {}

    def tokens(self, prompt: Prompt, ids: Sequence[int], shared: int) -> ImageTokens | Failure:
        """A prompt's tokens, ``shared`` of them before its own part; a failure for a bad image."""
        places = [place for place, token in enumerate(ids) if token == self.placeholder]
        if len(places) != len(prompt.images) or places[-1] >= shared:
            return NO_PLACE
        try:
            counts = [self.sizes.tokens(*size_of(prompt_image)) for prompt_image in prompt.images]
        except InputError as error:
            return image_failure(error)
        end = places[-1] + 1
        stem = self._one(tuple(expand(ids[:end], self.placeholder, counts)))
        prefix = self._one(tuple(ids[end:shared]))
        return ImageTokens(prompt.images, stem, prefix, tuple(ids[shared:]))

    def patches(
        self, prompt_images: Sequence[PromptImage]
    ) -> tuple[torch.Tensor, torch.Tensor] | Failure:
        """Pixels (patches, values of a patch) and grids (images, 3) of images, in order."""
        images = []
        for prompt_image in prompt_images:
            image = image_for_model(prompt_image, self.sizes)
            if isinstance(image, Failure):
                return image
            images.append(image)
        batch = self._processor(images, do_resize=False, return_tensors="pt")
        return batch["pixel_values"], batch["image_grid_thw"]

    def _one(self, ids: Ids) -> Ids:
        """The one object for equal tokens: thousands of questions share a thousand of them."""
        if len(self._unique) >= REMEMBERED:
            self._unique.clear()
        return self._unique.setdefault(ids, ids)


def expand(ids: Sequence[int], placeholder: int, counts: Sequence[int]) -> Iterator[int]:
    """The ids with each placeholder in turn repeated as often as its image has tokens."""
    repeats = iter(counts)
    for token in ids:
        yield from [token] * (next(repeats) if token == placeholder else 1)
