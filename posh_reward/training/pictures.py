"""Picture sizes settled before training, so that whoever reads a picture sees the same pixels.

Qwen's processor rounds a picture to whole patches and shrinks it below a cap. The trainer's
processor and vLLM's may have different caps, and then they disagree on how many tokens a picture
is. A picture of the right size is left alone by both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posh_reward.models.pictures import settled

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import ProcessorMixin


def settle_pictures(dataset: Dataset, processor: ProcessorMixin) -> Dataset:
    """The dataset with each picture in the size that the processor would give it, once.

    Args:
        dataset: with a column ``image`` of PIL pictures.
        processor: a Qwen2-VL, Qwen2.5-VL or Qwen3-VL processor, with the caps that are wanted.
    """
    from accelerate import PartialState

    images: Any = processor.image_processor
    factor = images.patch_size * images.merge_size
    limits = images.size["shortest_edge"], images.size["longest_edge"]
    with PartialState().main_process_first():  # the others then find it in the cache
        return dataset.map(
            lambda image: {"image": settled(image, factor, *limits)},
            input_columns=["image"],
            desc="settling picture sizes",
        )
