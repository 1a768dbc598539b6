"""Prompts -> tokens with positions; images -> features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from posh_reward.errors import InputError
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import (
    NO_PLACE,
    SizeLimits,
    check_max_pixels,
    image_failure,
    image_for_model,
    size_for_model,
    size_of,
)
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Ints = npt.NDArray[np.int64]
TOKEN = np.dtype(">u8")  # big-endian, so that keys as bytes sort in token order
IMAGE_BIT = 1 << 63  # in the ids of image tokens, which makes them negative as int64


class PlacedImage(NamedTuple):
    """An image in a prompt: rows x columns tokens from ``start`` on."""

    image: PromptImage
    start: int
    rows: int
    columns: int

    @property
    def end(self) -> int:
        """The index after its last token."""
        return self.start + self.rows * self.columns


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A tokenised prompt, in two parts: the prefix that other prompts share, and the rest.

    All tokens of an image have one id, which is derived from its pixels. So prompts that begin with
    the same ids begin with the same images, and sharing prefixes shares images as well.
    """

    start: bytes  # ids, eight bytes each
    own: bytes
    images: tuple[PlacedImage, ...] = ()  # in order; all end in ``start``

    @property
    def key(self) -> bytes:
        """All ids as bytes, which sort in token order."""
        return self.start + self.own

    @property
    def ids(self) -> Ints:
        """(tokens,) ids; those of images are negative."""
        return np.frombuffer(self.key, TOKEN).astype(np.int64)

    @property
    def shared(self) -> int:
        """Tokens of ``start``."""
        return len(self.start) // TOKEN.itemsize

    def __len__(self) -> int:
        return (len(self.start) + len(self.own)) // TOKEN.itemsize

    def positions(self, first: int, end: int) -> Ints:
        """Positions (3, end - first) in time, height and width; ``end`` may lie beyond the prompt.

        An image takes as many positions as its longer side has tokens. For two tokens of text, an
        image of 2 rows and 3 columns, and two more tokens of text:

            time    0 1  2 2 2 2 2 2  5 6
            height  0 1  2 2 2 3 3 3  5 6
            width   0 1  2 3 4 2 3 4  5 6
        """
        if not self.images:
            return np.broadcast_to(np.arange(first, end), (3, end - first))
        positions = np.tile(np.arange(end), (3, 1))
        for image in self.images:
            grid = np.indices((1, image.rows, image.columns)).reshape(3, -1)
            positions[:, image.start : image.end] = positions[:, [image.start]] + grid
            positions[:, image.end :] += max(image.rows, image.columns) - grid.shape[1]
        return positions[:, first:]


def prompt_tokens(
    prompt: Prompt, ids: Sequence[int], shared: int, encoder: ImageEncoder | None
) -> PromptTokens | Failure:
    """A prompt's tokens; a failure for unusable images.

    ``ids`` have one placeholder per image; other prompts share the first ``shared`` of them.
    """
    whole = np.asarray(ids, np.uint64)
    images: list[PlacedImage] = []
    if prompt.images and encoder is not None:
        places = np.flatnonzero(whole == encoder.placeholder)
        if len(places) != len(prompt.images) or places[-1] >= shared:
            return NO_PLACE
        counts = np.ones(len(whole), np.int64)
        for place, image in zip(places.tolist(), prompt.images, strict=True):
            try:
                rows, columns = encoder.shape(image)
            except InputError as error:
                return image_failure(error)
            images.append(PlacedImage(image, int(counts[:place].sum()), rows, columns))
            counts[place] = rows * columns
            # 63 bits of a digest: among a million images, two are alike with probability 1e-7.
            digest = sha256(image.digest.encode()).digest()
            whole[place] = IMAGE_BIT | int.from_bytes(digest[:8], "big")
        whole, shared = whole.repeat(counts), int(counts[:shared].sum())
    key, at = whole.astype(TOKEN).tobytes(), shared * TOKEN.itemsize
    return PromptTokens(key[:at], key[at:], tuple(images))


class ImageEncoder:
    """The image processor and the vision tower of Qwen2.5-VL or Qwen3-VL."""

    def __init__(self, model: PreTrainedModel, processor: Any, max_pixels: int) -> None:
        factor = processor.patch_size * processor.merge_size
        check_max_pixels(max_pixels, factor)
        least = min(processor.size["shortest_edge"], max_pixels)
        self.sizes = SizeLimits(factor, least, max_pixels)
        self.placeholder: int = model.config.image_token_id
        self._model: Any = model
        self._processor = processor

    def shape(self, image: PromptImage) -> tuple[int, int]:
        """Rows and columns of an image's tokens; ``InputError`` if it cannot have any."""
        width, height = size_for_model(*size_of(image), *self.sizes)
        return height // self.sizes.factor, width // self.sizes.factor

    def patches(self, image: PromptImage) -> tuple[torch.Tensor, torch.Tensor] | Failure:
        """Pixels (patches, values per patch) of an image, and its grid (1, 3) of patches."""
        resized = image_for_model(image, self.sizes)
        if isinstance(resized, Failure):
            return resized
        batch = self._processor([resized], do_resize=False, return_tensors="pt")
        device = self._model.device
        return batch["pixel_values"].to(device), batch["image_grid_thw"].to(device)

    def features(self, images: Sequence[PromptImage]) -> torch.Tensor | Failure:
        """Embeddings (1 + layers, tokens, size) of images, one after the other.

        The first replaces token embeddings; Qwen3-VL adds others to its first layers' states.
        """
        found: dict[PromptImage, torch.Tensor] = {}
        for image in dict.fromkeys(images):
            patches = self.patches(image)
            if isinstance(patches, Failure):
                return patches
            pixels, grid = patches
            visual = self._model.base_model.visual
            seen = visual(pixels.to(visual.dtype), grid_thw=grid, return_dict=True)
            layers = [seen.pooler_output, *(getattr(seen, "deepstack_features", None) or ())]
            found[image] = torch.stack(layers)
        return torch.cat([found[image] for image in images], dim=1)
