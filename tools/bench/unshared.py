"""Baselines for packed prompts: the same questions without sharing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posh_reward.models.chat import Chat
from posh_reward.models.model import Model, Prompt, label_tokens
from posh_reward.models.packed import TransformersModel
from tools.bench.qwen import random_model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DIGITS = ("1", "2", "3", "4", "5")
TOKENS_PER_BATCH = 8192  # with padding; as many as of a packed pass
FLOAT32_TOLERANCE = 1e-4
"""Largest allowed difference of a grade from that of the prompt alone, in float32."""
BFLOAT16_TOLERANCE = 0.1  # the same in bfloat16
COMPARED_PROMPTS = 24


def clock_of(model: PreTrainedModel) -> Callable[[], float]:
    """Return a wall clock for a GPU; for the CPU, which is shared, processor time."""
    return time.perf_counter if model.device.type == "cuda" else time.process_time


def alone(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return (prompts, vocabulary) log-probabilities, by one forward pass per prompt."""
    import torch

    rows = []
    with torch.inference_mode():
        for each in ids:
            tokens = torch.tensor([each], device=model.device)
            logits = model(tokens, use_cache=False, logits_to_keep=1).logits[0, -1].float()
            rows.append(logits.log_softmax(-1).cpu())
    return torch.stack(rows)


def pad(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> None:
    """Compute all prompts in padded batches of similar lengths; drop the answers."""
    import torch

    batches: list[list[Sequence[int]]] = [[]]
    for each in sorted(ids, key=len):
        if len(each) * (len(batches[-1]) + 1) > TOKENS_PER_BATCH:
            batches.append([])
        batches[-1].append(each)
    with torch.inference_mode():
        for batch in filter(None, batches):
            longest = len(batch[-1])
            rows = [[0] * (longest - len(each)) + [*each] for each in batch]
            real = [[0] * (longest - len(each)) + [1] * len(each) for each in batch]
            tokens, mask = (torch.tensor(t, device=model.device) for t in (rows, real))
            logits = model(tokens, attention_mask=mask, use_cache=False, logits_to_keep=1).logits
            logits[:, -1].float().log_softmax(-1).cpu()


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of a model's grades from those of each prompt alone."""

    largest: float
    spread: float  # range of the plain model's grades: equal ones would prove nothing
    bound: float  # allowed ``largest``

    @property
    def agrees(self) -> bool:
        """True if the grades agree."""
        return self.largest <= self.bound


def difference(
    model: Model,
    plain: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    bound: float,
) -> Difference:
    """Compare a model's grades with those of a plain model that gets each prompt alone."""
    import torch

    tokens = [of[0] for of in label_tokens(tokenizer, DIGITS)]
    whole = alone(plain, Chat(tokenizer).encode(prompts))
    expected = whole[:, tokens].softmax(-1) @ torch.arange(1.0, 6.0)
    grades = [verdict.grade for verdict in model.choose(prompts, DIGITS)]
    assert None not in grades, "a judgment failed"
    largest = float((torch.tensor(grades) - expected).abs().max())
    return Difference(largest, float(expected.max() - expected.min()), bound)


def compare(
    setting: str,
    judge: Model,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    waves: Sequence[Sequence[Prompt]],
) -> dict[str, Difference]:
    """Compare a judge's grades with those of each prompt alone, and print the differences."""
    import torch

    prompts = [each for wave in waves for each in wave]
    sample = prompts[:: max(len(prompts) // COMPARED_PROMPTS, 1)]
    tolerance = BFLOAT16_TOLERANCE if model.dtype == torch.bfloat16 else FLOAT32_TOLERANCE
    plain = random_model("tiny", torch.device("cpu"), torch.float32)
    # Copied, since the same seed gives different numbers on another device.
    here = random_model("tiny", torch.device("cpu"), torch.float32).to(model.device)
    packed = TransformersModel.of(here, tokenizer, "bench", memory_gb=0.5)
    differences = {
        "a tiny model in float32, packed here and alone on the CPU": difference(
            packed, plain, tokenizer, sample, FLOAT32_TOLERANCE
        ),
        f"{setting}, by the judge and alone": difference(
            judge, model, tokenizer, sample, tolerance
        ),
    }
    for what, each in differences.items():
        print(
            f"largest difference of a grade, {what}: {each.largest:.1e} "
            f"(bound {each.bound}, grades {each.spread:.1g} apart)",
            flush=True,
        )
    return differences


def ratios(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, waves: Sequence[Sequence[Prompt]]
) -> dict[str, float]:
    """Measure seconds for the same questions: packed, in padded batches, and each alone."""
    ids = Chat(tokenizer).encode([prompt for wave in waves for prompt in wave])
    clock = clock_of(model)
    judge = TransformersModel.of(model, tokenizer, "bench", sleep=False)
    judge.choose(waves[0][:4], DIGITS)
    judge.sleep()  # drops what is cached
    judge.wake()
    start = clock()
    for wave in waves:
        judge.choose(wave, DIGITS)
    packed = clock()
    pad(model, ids)
    batched = clock()
    alone(model, ids)
    return {"packed": packed - start, "padded": batched - packed, "alone": clock() - batched}
