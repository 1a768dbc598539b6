"""Random language models and a tokenizer of bytes, small enough to be made in each test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.types import Verdict
from tests.models.tokenizers_here import qwen_tokenizer
from tools.bench.qwen import MARKERS, SHAPES, TEMPLATE

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def byte_tokenizer() -> PreTrainedTokenizerBase:
    """One token per byte, with Qwen's markers and template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast(
        tokenizer_object=bytewise, additional_special_tokens=MARKERS, eos_token="<|im_end|>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_model(tokenizer: PreTrainedTokenizerBase, **changes: Any) -> PreTrainedModel:
    """A random Qwen3 of 2 layers; heads share keys, as in the large ones."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = {
        **SHAPES["tiny"], "vocab_size": len(tokenizer), "max_position_embeddings": 4096,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
    }  # fmt: skip
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**{**shape, **changes})).eval()


def masses(verdicts: Sequence[Verdict]) -> torch.Tensor:
    """(verdicts, labels) probabilities as the model gave them."""
    import torch

    rows = []
    for verdict in verdicts:
        assert verdict.probabilities is not None, verdict.failure
        rows.append([p * verdict.mass for p in verdict.probabilities])
    return torch.tensor(rows)


def save_tiny_qwen3(folder: Path, shared: Path) -> Any:
    """Writes a model with Qwen3's tokenizer; returns it, in single precision.

    The weights are drawn wide enough that different prompts get different answers.
    """
    tokenizer = qwen_tokenizer(shared)
    model = tiny_model(
        tokenizer, vocab_size=-(-len(tokenizer) // 64) * 64, hidden_size=128,
        intermediate_size=256, head_dim=32, initializer_range=0.1, tie_word_embeddings=True,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
