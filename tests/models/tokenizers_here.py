"""Where the shared data have Qwen's tokenizer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench import qwen

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@cache
def qwen_tokenizer(shared: Path, unmarked: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """Qwen3's tokenizer: the published vocabulary, its markers and the form of its template.

    Args:
        shared: the shared data.
        unmarked: tokens that are added, but not as special ones.
    """
    return qwen.qwen_tokenizer(shared / "data" / "qwen_tokenizer", unmarked)
