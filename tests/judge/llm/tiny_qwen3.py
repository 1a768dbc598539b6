"""A Qwen3 of two layers with random weights, and Qwen3's tokenizer, as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.judge.llm.tokenizers_here import qwen_tokenizer


def save_tiny_qwen3(folder: Path, shared: Path) -> Any:
    """Writes the folder; the model in single precision, ready to be asked.

    The weights are drawn wide enough that different prompts get different answers.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = qwen_tokenizer(shared)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        initializer_range=0.1,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    model = Qwen3ForCausalLM(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
