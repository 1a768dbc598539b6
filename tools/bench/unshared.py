"""The same questions without sharing anything: what packed prompts are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posh_reward.models.base import Model, Prompt
from posh_reward.models.chat import Chat
from posh_reward.models.labels import label_tokens
from posh_reward.models.packed import TransformersModel
from tools.bench.forwarding import clock_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DIGITS = ("1", "2", "3", "4", "5")
BATCH = 8192
"""Tokens of a padded batch, as many as of a pass."""


def alone(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> torch.Tensor:
    """(prompts, vocabulary) log-probabilities after each prompt, in a forward pass of its own."""
    import torch

    told = []
    with torch.inference_mode():
        for each in ids:
            tokens = torch.tensor([each], device=model.device)
            logits = model(tokens, use_cache=False, logits_to_keep=1).logits[0, -1].float()
            told.append(logits.log_softmax(-1).cpu())
    return torch.stack(told)


def padded(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> None:
    """All prompts in padded batches of like lengths, nothing shared; computes all, reads one."""
    import torch

    batches: list[list[Sequence[int]]] = [[]]
    for each in sorted(ids, key=len):
        if len(each) * (len(batches[-1]) + 1) > BATCH:
            batches.append([])
        batches[-1].append(each)
    with torch.inference_mode():
        for batch in filter(None, batches):
            longest = len(batch[-1])
            rows = [[0] * (longest - len(each)) + [*each] for each in batch]
            seen = [[0] * (longest - len(each)) + [1] * len(each) for each in batch]
            tokens, mask = (torch.tensor(t, device=model.device) for t in (rows, seen))
            logits = model(tokens, attention_mask=mask, use_cache=False, logits_to_keep=1).logits
            logits[:, -1].float().log_softmax(-1).cpu()


@dataclass(frozen=True, slots=True)
class Difference:
    """Of a judge's grades from those of a model that is asked each prompt alone."""

    largest: float
    spread: float
    """How far apart the grades alone are: if they were all the same, nothing would be shown."""
    bound: float
    """What the largest may be."""

    @property
    def sound(self) -> bool:
        """Whether the grades agree."""
        return self.largest <= self.bound


def difference(
    judge: Model,
    reference: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    bound: float,
) -> Difference:
    """Compares a judge with a model that is asked each prompt alone."""
    import torch

    tokens = [of[0] for of in label_tokens(tokenizer, DIGITS)]
    whole = alone(reference, Chat(tokenizer).encode(prompts))
    plain = whole[:, tokens].softmax(-1) @ torch.arange(1.0, 6.0)
    grades = [verdict.grade for verdict in judge.choose(prompts, DIGITS)]
    assert None not in grades, "a judgment failed"
    largest = float((torch.tensor(grades) - plain).abs().max())
    return Difference(largest, float(plain.max() - plain.min()), bound)


def ratios(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    waves: Sequence[Sequence[Prompt]],
) -> dict[str, float]:
    """Seconds for the same questions: packed call by call, each alone, and in padded batches."""
    ids = Chat(tokenizer).encode([prompt for wave in waves for prompt in wave])
    clock = clock_of(model)
    judge = TransformersModel.of(model, tokenizer, "bench")
    judge.choose(waves[0][:4], DIGITS)
    judge.sleep()
    judge.wake()
    start = clock()
    for wave in waves:
        judge.choose(wave, DIGITS)
    packed = clock()
    padded(model, ids)
    batched = clock()
    alone(model, ids)
    end = clock()
    return {"packed": packed - start, "padded": batched - packed, "alone": end - batched}
