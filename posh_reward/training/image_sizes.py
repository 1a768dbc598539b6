"""Image sizes settled before training, so that whoever reads an image sees the same pixels.

Qwen's processor rounds an image to whole patches and shrinks it below a cap. The trainer's
processor and vLLM's may have different caps, and then they disagree on how many tokens an image
is. An image of the right size is left alone by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.models.prompt_images import resize_for_model

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image
    from transformers import ProcessorMixin


@dataclass(frozen=True)
class Sizes:
    """Sizes that a Qwen2-VL, Qwen2.5-VL or Qwen3-VL processor leaves alone."""

    factor: int
    """Pixels of a token's side; sides are multiples of it."""
    min_pixels: int
    max_pixels: int

    def settled(self, image: Image) -> Image:
        """The image in RGB and in such a size."""
        return resize_for_model(image, self.factor, self.min_pixels, self.max_pixels)

    def tokens(self, image: Image) -> int:
        """How many tokens an image of a settled size is."""
        return image.width * image.height // self.factor**2


def sizes_of(processor: ProcessorMixin) -> Sizes | None:
    """The sizes of a processor's images; None if it is not one of Qwen's."""
    images: Any = processor.image_processor
    if not type(images).__name__.startswith("Qwen2VLImageProcessor"):
        return None
    limits = images.size["shortest_edge"], images.size["longest_edge"]
    return Sizes(images.patch_size * images.merge_size, *limits)


def settle_images(dataset: Dataset, processor: ProcessorMixin) -> Dataset:
    """The dataset with each image in the size that the processor would give it, once.

    Args:
        dataset: with a column ``image`` of PIL images.
        processor: a Qwen2-VL, Qwen2.5-VL or Qwen3-VL processor, with the caps that are wanted.

    Raises:
        ConfigError: it is another model's processor.
    """
    from accelerate import PartialState

    sizes = sizes_of(processor)
    if sizes is None:
        raise ConfigError(
            f"{type(processor).__name__} is not a processor of Qwen2-VL, Qwen2.5-VL or Qwen3-VL: "
            "only their image sizes can be settled"
        )
    with PartialState().main_process_first():  # the others then find it in the cache
        return dataset.map(
            lambda image: {"image": sizes.settled(image)},
            input_columns=["image"],
            desc="settling image sizes",
        )
