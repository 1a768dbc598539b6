"""Qwen's processors, with or without torchvision, and the image sizes that they leave alone.

The stock processor needs torchvision (``posh-reward[gpu]``), but only for video. Without it, the
image and text parts are loaded alone.

A processor rounds an image to whole patches and shrinks it below a cap. The trainer's and vLLM's
may have different caps, and then disagree on an image's number of tokens. So images are settled
before training: both leave an image of the right size alone.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.models.prompt_images import check_max_pixels, resize_for_model

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image
    from transformers import PreTrainedTokenizerBase, ProcessorMixin
    from transformers.image_processing_utils import BaseImageProcessor

MIN_PIXELS = 56 * 56
PADS = ("<|image_pad|>", "<|video_pad|>")
"""The tokens of a prompt that an image and a video replace."""
PATCH = 28 * 28  # pixels behind one image token of Qwen2.5-VL


def has_torchvision() -> bool:
    """True if the stock processor can be built."""
    return importlib.util.find_spec("torchvision") is not None


def load_processor(
    name: str, revision: str = "main", max_pixels: int | None = None
) -> ProcessorMixin:
    """Load the processor of a model, from the hub or a directory, padding on the left.

    Args:
        name: Model name on the hub, or a directory.
        revision: Branch, tag or commit on the hub.
        max_pixels: Larger images are shrunk to this many pixels: 28 x 28 of them cost one
            token. Uncapped, a museum photograph costs thousands and memory with them.

    Raises:
        InputError: ``max_pixels`` is less than one token's square.
    """
    from transformers import AutoProcessor, AutoTokenizer, Qwen2VLImageProcessorPil

    limits = {} if max_pixels is None else {"min_pixels": MIN_PIXELS, "max_pixels": max_pixels}
    if has_torchvision():
        processor: ProcessorMixin = AutoProcessor.from_pretrained(
            name, revision=revision, padding_side="left", **limits
        )
        _check_cap(processor.image_processor, max_pixels)
        return processor
    images = Qwen2VLImageProcessorPil.from_pretrained(name, revision=revision, **limits)
    _check_cap(images, max_pixels)
    tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, padding_side="left")
    return image_processor_with(tokenizer, images)


def _check_cap(images: Any, max_pixels: int | None) -> None:
    """Of another maker's processor the size of a token is not known."""
    if max_pixels is not None and hasattr(images, "merge_size"):
        check_max_pixels(max_pixels, images.patch_size * images.merge_size)


def image_processor_with(
    tokenizer: PreTrainedTokenizerBase, images: BaseImageProcessor
) -> ProcessorMixin:
    """Make a Qwen2.5-VL processor of images and text, without video."""
    from transformers import Qwen2_5_VLProcessor
    from transformers.processing_utils import ProcessorMixin

    class ImageTextProcessor(Qwen2_5_VLProcessor):  # type: ignore[misc]
        """A processor's parts are the parameters of its ``__init__``: here there is no video."""

        def __init__(
            self,
            image_processor: BaseImageProcessor,
            tokenizer: PreTrainedTokenizerBase,
            chat_template: str | None = None,
        ) -> None:
            self.image_token, self.video_token = PADS
            self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
            self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    # A saved processor is found again by the name of its class.
    ImageTextProcessor.__name__ = "Qwen2_5_VLProcessor"
    return ImageTextProcessor(images, tokenizer, chat_template=tokenizer.chat_template)


@dataclass(frozen=True)
class ImageSizes:
    """Sizes that a Qwen2-VL, Qwen2.5-VL or Qwen3-VL processor leaves alone."""

    factor: int
    """Pixels of a token's side; sides are multiples of it."""
    min_pixels: int
    max_pixels: int

    def settle(self, image: Image) -> Image:
        """Convert an image to RGB and to such a size."""
        return resize_for_model(image, self.factor, self.min_pixels, self.max_pixels)

    def tokens(self, image: Image) -> int:
        """Count the tokens of an image of such a size."""
        return image.width * image.height // self.factor**2


def sizes_of(processor: ProcessorMixin) -> ImageSizes | None:
    """Return the sizes of a processor's images; None if it is not one of Qwen's."""
    images: Any = processor.image_processor
    if not type(images).__name__.startswith("Qwen2VLImageProcessor"):
        return None
    limits = images.size["shortest_edge"], images.size["longest_edge"]
    return ImageSizes(images.patch_size * images.merge_size, *limits)


def settle_images(dataset: Dataset, processor: ProcessorMixin) -> Dataset:
    """Give each image of a dataset, once, the size that the processor would give it.

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
    with PartialState().local_main_process_first():  # the node's others find it in its cache
        return dataset.map(
            lambda image: {"image": sizes.settle(image)},
            input_columns=["image"],
            desc="settling image sizes",
        )
