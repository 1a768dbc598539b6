"""Qwen3 with random weights: the true shape, or a small one, on any device; nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

VOCABULARY = 151936

SHAPES: dict[str, dict[str, Any]] = {
    "Qwen3-14B": {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "small": {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "initializer_range": 0.2,  # narrow as it is, it answers differently to each question
    },
}


def random_model(
    shape: str, device: torch.device, dtype: torch.dtype, seed: int = 0
) -> PreTrainedModel:
    """A model of one of ``SHAPES``, made on its device: the same on each for the same seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        **SHAPES[shape],
        vocab_size=VOCABULARY,
        tie_word_embeddings=False,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None,
        eos_token_id=None,  # so every reply is as long as it may be
        dtype=dtype,
    )
    torch.manual_seed(seed)
    with torch.device(device):
        made = Qwen3ForCausalLM._from_config(config, dtype=dtype)
    return made.eval()
