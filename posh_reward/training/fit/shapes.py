"""Shapes of models, from their published configurations; no weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError

if TYPE_CHECKING:
    from peft import PeftConfig

PUBLISHED: dict[str, dict[str, Any]] = {
    # huggingface.co/Qwen/Qwen2.5-VL-7B-Instruct, config.json
    "Qwen/Qwen2.5-VL-7B-Instruct": {
        "model_type": "qwen2_5_vl",
        "tie_word_embeddings": False,
        "text_config": {
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "patch_size": 14,
            "spatial_merge_size": 2,
        },
    },
    # huggingface.co/Qwen/Qwen3-14B, config.json
    "Qwen/Qwen3-14B": {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": False,
    },
}
"""What decides the number of parameters, for the models of the shipped configurations."""

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2, None: 4}
"""Of one number, by the name of its type. Published checkpoints are in bfloat16."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What memory depends on."""

    parameters: int
    adapters: int
    """Parameters of its LoRA adapters; 0 without."""
    layers: int
    width: int
    inner: int
    """Width inside the feed-forward part of a layer."""
    cached: int
    """Numbers that the cache of keys and values has for one token."""
    vision_layers: int
    vision_width: int


def shape_of(name: str, peft: PeftConfig | None = None) -> Shape:
    """The shape of a model: one of ``PUBLISHED``, a local folder, or a name on the hub.

    Args:
        name: of the model.
        peft: adapters that it is to have.

    Raises:
        ConfigError: its configuration cannot be read.
    """
    config = config_of(name)
    model = on_meta(config)
    text, vision = config.get_text_config(), getattr(config, "vision_config", None)
    heads = text.num_attention_heads
    head = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Shape(
        parameters=count(model),
        adapters=count_adapters(model, peft) if peft is not None else 0,
        layers=text.num_hidden_layers,
        width=text.hidden_size,
        inner=text.intermediate_size,
        cached=2 * text.num_hidden_layers * text.num_key_value_heads * head,
        vision_layers=vision.depth if vision else 0,
        vision_width=vision.hidden_size if vision else 0,
    )


@lru_cache(maxsize=8)
def config_of(name: str) -> Any:
    """The configuration of a model.

    Raises:
        ConfigError: there is none of that name.
    """
    from transformers import AutoConfig

    if name in PUBLISHED:
        return AutoConfig.for_model(**PUBLISHED[name])
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the shape of {name!r} cannot be found out: give a folder with its config.json, or "
            f"a model of {', '.join(PUBLISHED)} ({str(error).splitlines()[0]})"
        ) from None


def on_meta(config: Any) -> Any:
    """A model without memory for its parameters."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    sees = getattr(config, "vision_config", None) is not None
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config)


def count(model: Any) -> int:
    """Parameters; shared ones once."""
    return sum(each.numel() for each in model.parameters())


def count_adapters(model: Any, peft: PeftConfig) -> int:
    """Parameters of the adapters that peft puts into a model; the model has them afterwards."""
    from peft import get_peft_model

    adapted = get_peft_model(model, peft, low_cpu_mem_usage=True)
    return sum(each.numel() for each in adapted.parameters() if each.requires_grad)
