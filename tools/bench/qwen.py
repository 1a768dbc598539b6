"""Qwen3 without its weights: the published tokenizer, and random models of its shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MARKERS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)
"""Like Qwen3's own: the model thinks unless told not to."""
VOCABULARY_SIZE = 151936
SHAPES: dict[str, dict[str, Any]] = {
    "Qwen3-14B": {
        "hidden_size": 5120, "intermediate_size": 17408, "head_dim": 128, "num_hidden_layers": 40,
        "num_attention_heads": 40, "num_key_value_heads": 8,
    },
    "Qwen3-4B": {
        "hidden_size": 2560, "intermediate_size": 9728, "head_dim": 128, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True,
    },
    "Qwen3-1.7B": {
        "hidden_size": 2048, "intermediate_size": 6144, "head_dim": 128, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": True,
    },
    "small": {
        "hidden_size": 512, "intermediate_size": 1536, "head_dim": 64, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2,
    },
    "tiny": {
        "hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "initializer_range": 0.2,  # wide, so that the narrow model distinguishes questions
    },
}  # fmt: skip


def qwen_tokenizer(folder: Path, unmarked: Sequence[str] = ()) -> PreTrainedTokenizerBase:
    """Load a tokenizer: a complete one, or only ``vocab.json`` and ``merges.txt``."""
    from transformers import AddedToken, AutoTokenizer, Qwen2TokenizerFast

    tokenizer: PreTrainedTokenizerBase
    if (folder / "tokenizer_config.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return tokenizer
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    tokenizer = Qwen2TokenizerFast(
        vocab=json.loads((folder / "vocab.json").read_text(encoding="utf-8")),
        merges=[tuple(line.split(" ")) for line in lines if line and not line.startswith("#v")],
        additional_special_tokens=[marker for marker in MARKERS if marker not in unmarked],
    )
    tokenizer.add_tokens([AddedToken(each, special=False, normalized=False) for each in unmarked])
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def random_model(shape: str, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Make a random model of one of ``SHAPES``, always the same on a device."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        **{"tie_word_embeddings": False, **SHAPES[shape]},
        vocab_size=VOCABULARY_SIZE,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None,
        eos_token_id=None,  # so that every reply has the greatest length
        dtype=dtype,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = Qwen3ForCausalLM._from_config(config, dtype=dtype)
    return model.eval()
