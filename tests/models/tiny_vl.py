"""Random models that see, a tokenizer of bytes and an image processor, made in each test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

from posh_reward.models.prompt_images import load_prompt_image
from posh_reward.types import PromptImage
from tests.models.tiny import byte_tokenizer
from tools.bench.qwen import MARKERS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As those of Qwen2.5-VL and Qwen3-VL, without a system message."""
PATCH, MERGE = 4, 2
FACTOR = PATCH * MERGE
"""Pixels a side behind one token."""
LEAST = 2 * FACTOR**2
TEXT: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.2,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
SEEING: dict[str, Any] = {
    "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": PATCH,
    "spatial_merge_size": MERGE, "out_hidden_size": 64, "initializer_range": 0.2,
}  # fmt: skip
KINDS = ("qwen2_5_vl", "qwen3_vl")
MAX_PIXELS = 640


def seeing_tokenizer() -> PreTrainedTokenizerBase:
    """One token per byte, with the markers of models that see."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*MARKERS, *VISION]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def image_processor() -> Any:
    """Qwen's, for small patches."""
    from transformers import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=MERGE, min_pixels=LEAST, max_pixels=10**6
    )


def seeing_model(
    tokenizer: PreTrainedTokenizerBase, kind: str = "qwen2_5_vl", **changes: Any
) -> PreTrainedModel:
    """A random model of 3 layers that sees; ``changes`` are its text model's."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    start, end, image, video = tokenizer.convert_tokens_to_ids(VISION)
    qwen3 = kind == "qwen3_vl"
    shape = {**TEXT, "vocab_size": len(tokenizer), **changes}
    head = shape["hidden_size"] // shape["num_attention_heads"]
    shape |= {"head_dim": head} if qwen3 else {}
    side = 5 * head // 32
    section = [head // 2 - 2 * side, side, side]
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": section}
    rope |= {"mrope_interleaved": True} if qwen3 else {}
    own = {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64}
    other = {"window_size": 2 * FACTOR, "fullatt_block_indexes": [1]}
    config = AutoConfig.for_model(
        kind,
        text_config={**shape, "rope_parameters": rope},
        vision_config={**SEEING, **(own if qwen3 else other)},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForImageTextToText.from_config(config).eval()
    return model


def save_seeing(folder: Path, kind: str = "qwen2_5_vl", **changes: Any) -> PreTrainedModel:
    """Writes a model, its tokenizer and its processors, as the hub has them; returns the model."""
    tokenizer = seeing_tokenizer()
    model = seeing_model(tokenizer, kind, **changes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    image_processor().save_pretrained(folder)
    whose = {"qwen2_5_vl": "Qwen2VL", "qwen3_vl": "Qwen3VL"}[kind]
    video = {"video_processor_type": f"{whose}VideoProcessor", "patch_size": PATCH}
    video |= {"merge_size": MERGE, "temporal_patch_size": 2}
    path = folder / "video_preprocessor_config.json"
    path.write_text(json.dumps(video), encoding="utf-8")
    return model


def images_of_four_sizes() -> tuple[PromptImage, ...]:
    """With ``MAX_PIXELS`` the third is just as large as may be, and the last one is shrunk."""
    return (prompt_image(), prompt_image(color="blue"), prompt_image(40, 16, "green"),
            prompt_image(16, 48))  # fmt: skip


def prompt_image(width: int = 24, height: int = 16, color: str = "red") -> PromptImage:
    """A square on white, no two of which look the same to a model."""
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).rectangle((2, 3, width // 2, height // 2), fill=color)
    found = load_prompt_image(image)
    assert isinstance(found, PromptImage)
    return found
