"""Models' processors, Qwen's also without torchvision, and image resizing ahead of training.

Qwen's stock processor needs torchvision (``posh-reward[gpu]``), but only for video. Without it,
only the image and text parts are loaded. Other models' processors are loaded as they are.

A processor rounds an image to whole patches and shrinks it below a cap. The trainer's and vLLM's
may have different caps, and then disagree on an image's number of tokens. So images are resized
once, before training, to a size that both leave unchanged.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets import load_dataset
from posh_reward.datasets.images import (
    NewSize,
    find_defect,
    open_image,
    path_exists,
    resize_to_jpeg,
    stored_source,
)
from posh_reward.errors import ConfigError, MissingDependencyError, on_one_line
from posh_reward.models.prompt_images import SizeLimits, check_max_pixels, size_for_model

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase, ProcessorMixin
    from transformers.image_processing_utils import BaseImageProcessor

QWEN_IMAGE_PROCESSOR = "Qwen2VLImageProcessor"
"""Name of Qwen2-VL's, Qwen2.5-VL's and Qwen3-VL's image processors, without their backends'."""
PAD_TOKENS = ("<|image_pad|>", "<|video_pad|>")
"""Placeholder tokens of an image and of a video."""
RESIZE_THREADS = min(32, os.cpu_count() or 1)  # each holds a decoded image: 36 MB for 12 megapixels
IMAGES_PER_RESIZE_BATCH = 64
"""Images resized, and then written, at a time."""
ORIENTATION_TAG = 0x0112  # EXIF; 1 is upright


def has_torchvision() -> bool:
    """Return True if the stock processor can be built."""
    return importlib.util.find_spec("torchvision") is not None


def load_processor(
    name: str, revision: str = "main", max_pixels: int | None = None
) -> ProcessorMixin:
    """Load a model's processor, padding on the left.

    Args:
        name: on the hub, or a directory.
        revision: branch, tag or commit on the hub.
        max_pixels: larger images are shrunk to this many pixels, 28 x 28 per token. Uncapped, a
            museum photograph costs thousands of tokens, and their memory. Only Qwen's models have
            such a cap.

    Raises:
        InputError: ``max_pixels`` is less than one token's square.
        ConfigError: ``name`` is a folder that does not exist.
        MissingDependencyError: this processor needs a package that is not installed.
    """
    from transformers import AutoProcessor, AutoTokenizer, Qwen2VLImageProcessorPil

    if not Path(name).exists():
        load_dataset.check_name_of_hub(name)
    # The minimum is the model's own: Qwen3-VL's is larger than Qwen2.5-VL's.
    limits = {} if max_pixels is None else {"max_pixels": max_pixels}
    if has_torchvision() or not _is_qwens(name, revision):
        try:
            processor: ProcessorMixin = AutoProcessor.from_pretrained(
                name, revision=revision, padding_side="left", **limits
            )
        except ImportError as error:  # transformers' message names the package
            raise MissingDependencyError(f"{name}: {on_one_line(str(error))}") from None
        _check_cap(processor.image_processor, max_pixels)
        return processor
    images = Qwen2VLImageProcessorPil.from_pretrained(name, revision=revision, **limits)
    _check_cap(images, max_pixels)
    tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, padding_side="left")
    return image_processor_with(tokenizer, images)


def _is_qwens(name: str, revision: str) -> bool:
    from transformers.image_processing_base import ImageProcessingMixin

    settings, _ = ImageProcessingMixin.get_image_processor_dict(name, revision=revision)
    # Old checkpoints do not say.
    kind = str(settings.get("image_processor_type", QWEN_IMAGE_PROCESSOR))
    return kind.startswith(QWEN_IMAGE_PROCESSOR)


def _check_cap(images: Any, max_pixels: int | None) -> None:
    if max_pixels is not None and hasattr(images, "merge_size"):  # a processor of Qwen's
        check_max_pixels(max_pixels, images.patch_size * images.merge_size)


def image_processor_with(
    tokenizer: PreTrainedTokenizerBase, images: BaseImageProcessor
) -> ProcessorMixin:
    """Make a Qwen2.5-VL processor for images and text, without video."""
    from transformers import Qwen2_5_VLProcessor
    from transformers.processing_utils import ProcessorMixin

    class ImageTextProcessor(Qwen2_5_VLProcessor):  # type: ignore[misc]
        """Qwen's, without video: transformers takes a processor's parts from ``__init__``."""

        def __init__(
            self,
            image_processor: BaseImageProcessor,
            tokenizer: PreTrainedTokenizerBase,
            chat_template: str | None = None,
        ) -> None:
            self.image_token, self.video_token = PAD_TOKENS
            self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
            self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    # A saved processor is looked up by its class name.
    ImageTextProcessor.__name__ = "Qwen2_5_VLProcessor"
    return ImageTextProcessor(images, tokenizer, chat_template=tokenizer.chat_template)


def read_size_limits(processor: ProcessorMixin) -> SizeLimits | None:
    """Return the image sizes that a processor leaves unchanged; None if it is not one of Qwen's."""
    images: Any = processor.image_processor
    if not type(images).__name__.startswith(QWEN_IMAGE_PROCESSOR):
        return None
    limits = images.size["shortest_edge"], images.size["longest_edge"]
    return SizeLimits(images.patch_size * images.merge_size, *limits)


def settle_images(dataset: Dataset, processor: ProcessorMixin) -> Dataset:
    """Resize the images of a dataset's column ``image`` as the processor would, once per node.

    Raises:
        ConfigError: the processor is not Qwen2-VL's, Qwen2.5-VL's or Qwen3-VL's.
        InputError: an image is missing, broken, or too long and thin.
    """
    from accelerate import PartialState

    sizes = read_size_limits(processor)
    if sizes is None:
        raise ConfigError(
            f"{type(processor).__name__} is not a processor of Qwen2-VL, Qwen2.5-VL or Qwen3-VL, "
            "and into how many tokens vLLM cuts an image is known of these alone: train one of "
            "them, or generate without vLLM (--use_vllm false)"
        )
    with PartialState().local_main_process_first():  # the node's other ranks read its cache
        return resize_images(dataset, partial(size_for_model, **sizes._asdict()))


def training_images(
    name: str, split: str, reference_column: str, processor: ProcessorMixin | None
) -> Dataset:
    """Load a split as ``load_images`` does, with the images that Qwen's processor would make.

    A node's first rank prepares them, unless ``posh-reward fetch`` has. Without a processor they
    are as they were.
    """
    from accelerate import PartialState

    with PartialState().local_main_process_first():
        dataset = load_dataset.open_images(name, split, reference_column)
    if processor is None:
        return dataset
    return settle_images(dataset, processor)


def resize_images(dataset: Dataset, new_size: NewSize) -> Dataset:
    """Resize a dataset's images, in parallel, and cache the result next to the dataset's files.

    The cache is found again by the dataset, by ``new_size``, which is pickled, and by the times at
    which the images' files were written. The dataset itself is returned if every image has its size
    and is upright and in RGB; else the images that are not become JPEGs.
    """
    from datasets import Image
    from datasets.fingerprint import Hasher

    stored = dataset.cast_column("image", Image(decode=False))
    if all(_is_ready(item["image"], new_size) for item in stored.select_columns(["image"])):
        return dataset
    try:
        resized = stored.map(
            _resize_batch,
            batched=True,
            batch_size=IMAGES_PER_RESIZE_BATCH,
            fn_kwargs={"new_size": new_size},
            new_fingerprint=Hasher.hash([stored._fingerprint, new_size, _stat_image_files(stored)]),
            desc="resizing images, once (posh-reward fetch does it ahead of a run)",
        )
    except Exception as error:  # decoders raise many types of error
        # Names all broken images.
        load_dataset.without_broken(dataset, "the dataset", skip_broken=False)
        if isinstance(error, OSError):
            raise ConfigError(
                f"resized images cannot be cached: {error}; make room, or set HF_DATASETS_CACHE "
                "to a folder that you can write"
            ) from error
        raise
    return resized.cast_column("image", Image())


def _stat_image_files(dataset: Dataset) -> list[tuple[int, int]]:
    """Return size and time of each image file: the table has only its path, whatever is in it."""
    import pyarrow.compute as pc

    paths = pc.struct_field(dataset.data.column("image"), "path").to_pylist()
    files = (Path(path).stat() for path in paths if path and path_exists(path))
    return [(file.st_size, file.st_mtime_ns) for file in files]


def _is_ready(stored: Mapping[str, Any] | None, new_size: NewSize) -> bool:
    """Return True if an image can be decoded, is upright, in RGB and of its new size."""
    try:
        with open_image(stored_source(stored)) as image:
            as_it_is = image.mode == "RGB" and image.getexif().get(ORIENTATION_TAG, 1) == 1
            if not as_it_is or new_size(*image.size) != image.size:
                return False
    except Exception:  # decoders raise many types of error
        return False
    return find_defect(stored) is None


def _resize_batch(batch: Mapping[str, Any], new_size: NewSize) -> dict[str, Any]:
    # Threads, since Pillow releases the interpreter's lock, and a fork would copy locks that the
    # judge's threads hold.
    with ThreadPoolExecutor(RESIZE_THREADS) as pool:
        return {"image": list(pool.map(partial(_resize_stored, new_size=new_size), batch["image"]))}


def _resize_stored(stored: Mapping[str, Any] | None, new_size: NewSize) -> Mapping[str, Any] | None:
    if _is_ready(stored, new_size):
        return stored
    with open_image(stored_source(stored)) as image:
        return {"bytes": resize_to_jpeg(image, new_size), "path": None}
