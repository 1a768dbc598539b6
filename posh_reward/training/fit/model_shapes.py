"""Sizes of models, from their configurations, and the bytes of their training state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.training.processes import Processes

if TYPE_CHECKING:
    from peft import PeftConfig


def _qwen3(width: int, inner: int, *, layers: int, heads: int, tied: bool) -> dict[str, Any]:
    """Return a configuration as in huggingface.co/Qwen/Qwen3-*, config.json."""
    return {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": tied,
    }


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
    "Qwen/Qwen3-0.6B": _qwen3(1024, 3072, layers=28, heads=16, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(2048, 6144, layers=28, heads=16, tied=True),
    "Qwen/Qwen3-4B": _qwen3(2560, 9728, layers=36, heads=32, tied=True),
    "Qwen/Qwen3-14B": _qwen3(5120, 17408, layers=40, heads=40, tied=False),
}
"""Sizes of the models of the shipped configurations."""

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2, None: 4}
"""Bytes of a number, by dtype. Published checkpoints are in bfloat16."""


FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "mlp", "up_proj": "mlp"}
"""Matrices that vLLM fuses into one."""
MASTER, MOMENTS = 4, 8
"""Bytes per trained parameter that DeepSpeed keeps in float32: a copy, and Adam's two moments."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model that its memory depends on."""

    parameters: int
    adapters: int  # parameters of its LoRA adapters; 0 without
    layers: int
    width: int
    inner: int  # width of the feed-forward network inside a layer
    cached: int  # numbers per token in the cache of keys and values
    vision_layers: int
    vision_width: int
    pinned: int  # numbers in the host's memory while asleep: see ``pinned_numbers``


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of a model's parameters, and the bytes of each."""

    trained: int
    trained_bytes: int
    frozen: int = 0
    frozen_bytes: int = 2


@dataclass(frozen=True, slots=True)
class ModelState:
    """Bytes of one process's training state, on its GPU and in the host's memory."""

    parameters: float
    gradients: float
    optimizer: float  # Adam's moments; under DeepSpeed also its copy of the parameters in float32
    on_host: float = 0.0

    @property
    def on_gpu(self) -> float:
        """Bytes on the GPU."""
        return self.parameters + self.gradients + self.optimizer


def model_state(model: Parameters, layout: Processes) -> ModelState:
    """Estimate the training state of a model under Adam, in one process.

    Without DeepSpeed Adam's moments have the type of their parameters (``torch.optim.AdamW``).
    Neglected: Adam's step counters, 4 bytes a tensor, and padding of partitions, below 1 kB.
    """
    own = model.trained * model.trained_bytes + model.frozen * model.frozen_bytes
    gradients = model.trained * model.trained_bytes
    if not layout.zero_stage:
        return ModelState(own, gradients, 2 * gradients)
    share = layout.processes
    parameters = own / share if layout.zero_stage == 3 else own
    optimizer = model.trained * (MASTER + MOMENTS) / share
    on_host = 0.0
    if layout.offloads_optimizer:
        optimizer, on_host = 0.0, optimizer
    if layout.offloads_parameters:
        parameters, on_host = 0.0, on_host + parameters
    return ModelState(
        parameters=parameters,
        gradients=gradients / share if layout.zero_stage >= 2 else gradients,
        optimizer=optimizer,
        on_host=on_host,
    )


def shape_of(name: str, peft: PeftConfig | None = None) -> ModelShape:
    """Return the sizes of a model: one of ``PUBLISHED``, a local folder, or a name on the hub.

    Raises:
        ConfigError: its configuration cannot be read.
    """
    config = _config_of(name)
    model = on_meta(config)
    text, vision = config.get_text_config(), getattr(config, "vision_config", None)
    parameters = sum(each.numel() for each in model.parameters())  # shared ones once
    pinned, adapters = pinned_numbers(model), 0  # before peft changes the model
    if peft is not None:
        from peft import get_peft_model

        adapted = get_peft_model(model, peft, low_cpu_mem_usage=True)
        adapters = sum(each.numel() for each in adapted.parameters() if each.requires_grad)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        parameters=parameters,
        pinned=pinned,
        adapters=adapters,
        layers=text.num_hidden_layers,
        width=text.hidden_size,
        inner=text.intermediate_size,
        cached=2 * text.num_hidden_layers * text.num_key_value_heads * head,
        vision_layers=vision.depth if vision else 0,
        vision_width=vision.hidden_size if vision else 0,
    )


def pinned_numbers(model: Any) -> int:
    """Sum the sizes of a model's tensors, fused as in vLLM, each rounded up to a power of two.

    A sleeping engine's weights are in one pinned buffer per allocation, and torch's allocator of
    pinned memory rounds each up (vllm#53042, #56410): Qwen3-14B takes 41.5 GiB, not 27.5.
    """
    tensors: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        tensors[".".join(FUSED.get(part, part) for part in name.split("."))] += parameter.numel()
    return sum(1 << (size - 1).bit_length() for size in tensors.values())


@lru_cache(maxsize=8)
def _config_of(name: str) -> Any:
    from transformers import AutoConfig

    if name in PUBLISHED:
        return AutoConfig.for_model(**PUBLISHED[name])
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the shape of {name!r} is unknown: name a folder with its config.json, or "
            f"a model of {', '.join(PUBLISHED)} ({str(error).splitlines()[0]})"
        ) from None


def on_meta(config: Any) -> Any:
    """Make a model without memory for its parameters."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    sees = getattr(config, "vision_config", None) is not None
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config)
