"""What is read from a model's logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.models.packed.packing import on

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HEAD_CHUNK = 16384
"""Tokens of the vocabulary whose weights are cast to float32 at once."""
NOTHING = -1
"""In place of a token where logits are NaN."""


def log_probabilities(logits: torch.Tensor, tokens: Sequence[int], top: int = 0) -> torch.Tensor:
    """(prompts, tokens) log-probabilities of these tokens among the whole vocabulary.

    Args:
        logits: (prompts, vocabulary).
        tokens: ids.
        top: if not 0, only this many of the likeliest tokens count; others get minus infinity.
    """
    logits = logits.float()
    chosen = logits.index_select(-1, on(logits.device, np.asarray(tokens, np.int64)))
    wanted = chosen - logits.logsumexp(-1, keepdim=True)
    if not top:
        return wanted
    least = logits.topk(min(top, logits.shape[-1])).values[:, -1:]
    # A comparison with NaN is false, so NaN is not masked and stays NaN.
    return wanted.masked_fill(chosen < least, float("-inf"))


def likeliest(logits: torch.Tensor) -> torch.Tensor:
    """(prompts, 1) the token with the highest logit; ``NOTHING`` where some are NaN."""
    unsound = logits.isnan().any(-1)
    return torch.where(unsound, NOTHING, logits.argmax(-1))[:, None]


@contextmanager
def float32_head(model: PreTrainedModel) -> Iterator[None]:
    """In this context logits are computed in float32, whatever the weights are stored in.

    In bfloat16 a logit between 16 and 32 is a multiple of 1/8: too coarse for a mean of five.
    """
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or head.weight.dtype == torch.float32:
        yield
        return

    def in_float32(module: torch.nn.Linear, inputs: tuple[torch.Tensor], _: Any) -> torch.Tensor:
        hidden = inputs[0].float()
        chunks = torch.split(module.weight, HEAD_CHUNK)
        logits = torch.cat([hidden @ chunk.float().T for chunk in chunks], dim=-1)
        return logits if module.bias is None else logits + module.bias

    hook = head.register_forward_hook(in_float32)
    try:
        yield
    finally:
        hook.remove()
