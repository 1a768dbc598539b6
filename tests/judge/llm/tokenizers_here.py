"""The Qwen tokenizer from the shared data, with its chat markers added by hand."""

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


def qwen_tokenizer(shared: Path) -> PreTrainedTokenizerBase:
    """Qwen3's tokenizer: the published vocabulary, its markers and the form of its template."""
    from transformers import Qwen2TokenizerFast

    folder = shared / "data" / "qwen_tokenizer"
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    tokenizer: PreTrainedTokenizerBase = Qwen2TokenizerFast(
        vocab=json.loads((folder / "vocab.json").read_text(encoding="utf-8")),
        merges=[tuple(line.split(" ")) for line in lines if line and not line.startswith("#v")],
        additional_special_tokens=MARKERS,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
