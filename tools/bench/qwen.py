"""Qwen3's tokenizer from its two published files, its chat markers and template added by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARKERS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)
"""As Qwen3's: it thinks unless it is told not to."""


def qwen_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder: a whole one, or ``vocab.json`` and ``merges.txt`` alone."""
    from transformers import AutoTokenizer, Qwen2TokenizerFast

    if (folder / "tokenizer_config.json").exists():
        whole: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False
        )
        return whole
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    tokenizer: PreTrainedTokenizerBase = Qwen2TokenizerFast(
        vocab=json.loads((folder / "vocab.json").read_text(encoding="utf-8")),
        merges=[tuple(line.split(" ")) for line in lines if line and not line.startswith("#v")],
        additional_special_tokens=MARKERS,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
