"""Loads a Qwen2.5-VL processor, with or without torchvision.

The stock processor needs torchvision (``posh-reward[gpu]``), but only for video. Without it, the
image and text parts are loaded alone.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from posh_reward.models.prompt_images import check_max_pixels

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin
    from transformers.image_processing_utils import BaseImageProcessor

MIN_PIXELS = 56 * 56
PADS = ("<|image_pad|>", "<|video_pad|>")
"""The tokens of a prompt that an image and a video replace."""
PATCH = 28 * 28
"""Pixels behind one image token of Qwen2.5-VL."""


def has_torchvision() -> bool:
    """Whether the stock processor can be built."""
    return importlib.util.find_spec("torchvision") is not None


def load_processor(
    name: str, revision: str = "main", max_pixels: int | None = None
) -> ProcessorMixin:
    """The processor of a model, from the hub or a directory, padding on the left.

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
    """A Qwen2.5-VL processor of images and text, without video."""
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
