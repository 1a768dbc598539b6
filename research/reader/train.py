"""Trains a reader on SNLI's development pairs, minimal pairs of captions, and scenes.

    python -m research.reader.train BASE OUT --scenes FILE... [--data ../shared/data]

BASE is the unpacked folder of all-MiniLM-L6-v2, or a folder that this program wrote.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import log_softmax, softplus

from research.reader.examples import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    READINGS,
    Example,
    read_scenes,
    read_snli,
    read_sugarcrepe,
    scene_examples,
)
from research.reader.network import Reader, Tokens

PAIRS_A_STEP = 48
CHARACTERS_A_STEP = 24_000
WARM_UP_SHARE = 0.06
MARGIN = 2.0  # log odds of an honest sentence over those of its falsifications
SMALLEST = 1e-6
Unit = list[Example]


@dataclass(frozen=True)
class LossWeights:
    """What losses weigh beside that of labels."""

    ranking: float
    tokens: float


def group(examples: Sequence[Example]) -> list[Unit]:
    """Examples of one group together, the others alone."""
    units: dict[str, Unit] = {}
    for number, example in enumerate(examples):
        units.setdefault(example.group or f"alone {number}", []).append(example)
    return list(units.values())


def batch(units: Sequence[Unit], draw: random.Random) -> Iterator[Unit]:
    """Units of like length together, as many as a step may hold."""
    order = sorted(units, key=lambda unit: unit_length(unit) * draw.uniform(0.8, 1.2))
    batches, some = [], []
    for unit in order:
        some += unit
        texts = [premise for example in some for premise in example.premises]
        if len(texts) >= PAIRS_A_STEP or sum(map(len, texts)) >= CHARACTERS_A_STEP:
            batches.append(some)
            some = []
    batches += [some] if some else []
    draw.shuffle(batches)
    yield from batches


def unit_length(unit: Unit) -> int:
    return max(len(premise) for example in unit for premise in example.premises)


def measure_loss(logits: torch.Tensor, examples: Sequence[Example], ranking: float) -> torch.Tensor:
    """Mean loss of examples; an example's windows are read together.

    Entailed: by its best window. Contradicted: by its best window, and entailed by none.
    Neutral: to each window. In a group, log odds of entailment are ranked besides.
    """
    losses, odds, start = [], [], 0
    for example in examples:
        log_shares = log_softmax(logits[start : start + len(example.premises)], -1)
        start += len(example.premises)
        entailed = log_shares[:, ENTAILMENT].max()
        refused = torch.log1p(-log_shares[:, ENTAILMENT].exp().clamp(max=1 - SMALLEST))
        odds.append(entailed - refused.min())
        if example.label == ENTAILMENT:
            losses.append(-entailed)
        elif example.label == CONTRADICTION:
            losses.append(-log_shares[:, CONTRADICTION].max() / 2 - refused.min() / 2)
        else:
            losses.append(-log_shares[:, NEUTRAL].mean())
    loss = torch.stack(losses).mean()
    ranked = list(rank(odds, examples))
    return loss + ranking * torch.stack(ranked).mean() if ranked and ranking else loss


def measure_token_loss(
    falsehoods: Sequence[torch.Tensor],
    pairs: Sequence[Tokens],
    examples: Sequence[Example],
) -> torch.Tensor:
    """Mean loss of the words that are known to be false or true, each kind half."""
    logits: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    owners = [example for example in examples for _ in example.premises]
    for row, pair, example in zip(falsehoods, pairs, owners, strict=True):
        if example.changed is not None:
            for index, (kind, (start, end)) in enumerate(
                zip(pair.types, pair.offsets, strict=True)
            ):
                if kind == 1 and start < end:
                    wrong = any(start < last and first < end for first, last in example.changed)
                    logits[wrong].append(row[index])
    losses = [softplus(-torch.stack(logits[True])).mean()] if logits[True] else []
    losses += [softplus(torch.stack(logits[False])).mean()] if logits[False] else []
    return torch.stack(losses).mean() if losses else torch.zeros(())


def rank(odds: Sequence[torch.Tensor], examples: Sequence[Example]) -> Iterator[torch.Tensor]:
    for one, honest in zip(odds, examples, strict=True):
        for other, false in zip(odds, examples, strict=True):
            same = honest.group and honest.group == false.group
            if same and honest.label == ENTAILMENT and false.label == CONTRADICTION:
                yield softplus(MARGIN - (one - other))


class Optimizer:
    """AdamW on float32 copies of the weights of the layers; word embeddings stay as they are."""

    def __init__(self, reader: Reader, rate: float, steps: int, frozen: int) -> None:
        body = reader.model.bert
        for part in (body.embeddings, *body.encoder.layer[:frozen]):
            part.requires_grad_(False)
        weights = (*reader.model.parameters(), *reader.falsehood.parameters())
        self.weights = [weight for weight in weights if weight.requires_grad]
        self.copies = [weight.detach().float().clone() for weight in self.weights]
        self.adam = torch.optim.AdamW(self.copies, lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
        self.plan = torch.optim.lr_scheduler.OneCycleLR(
            self.adam,
            rate,
            total_steps=steps + 1,
            pct_start=WARM_UP_SHARE,
            cycle_momentum=False,
        )

    def step(self) -> None:
        for copy, weight in zip(self.copies, self.weights, strict=True):
            copy.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self.copies, 1.0)
        self.adam.step()
        self.plan.step()
        with torch.no_grad():
            for copy, weight in zip(self.copies, self.weights, strict=True):
                weight.copy_(copy)


def fit(
    reader: Reader,
    epochs: Sequence[Sequence[Example]],
    weights: LossWeights,
    rate: float,
    frozen: int,
    seed: int,
) -> None:
    draw = random.Random(seed)
    planned = [list(batch(group(examples), draw)) for examples in epochs]
    optimizer = Optimizer(reader, rate, sum(map(len, planned)), frozen)
    reader.model.train()
    for number, batches in enumerate(planned, 1):
        started, cpu, total, tokens = time.time(), time.process_time(), 0.0, 0
        for examples in batches:
            pairs = [(text, one.hypothesis) for one in examples for text in one.premises]
            encoded = reader.tokenize(pairs)
            tokens += sum(len(pair.ids) for pair in encoded)
            logits, falsehoods = reader.read(encoded)
            loss = measure_loss(logits, examples, weights.ranking)
            if weights.tokens:
                loss = loss + weights.tokens * measure_token_loss(falsehoods, encoded, examples)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach())
        print(
            f"epoch {number}: loss {total / len(batches):.3f}, {len(batches)} steps, "
            f"{tokens} tokens, {time.time() - started:.0f} s, "
            f"CPU {time.process_time() - cpu:.0f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--scenes", type=Path, nargs="*", default=[])
    parser.add_argument("--most-scenes", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--snli", type=float, default=1.0, help="share of SNLI in each epoch")
    parser.add_argument("--sugarcrepe", type=float, default=0.0)
    parser.add_argument("--ranking", type=float, default=0.0)
    parser.add_argument("--tokens", type=float, default=0.0)
    parser.add_argument("--reading", choices=READINGS, default="three")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--frozen", type=int, default=0, help="lower layers that stay as they are")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    draw = random.Random(options.seed)
    scenes = read_scenes(options.scenes)
    draw.shuffle(scenes)
    scenes = scenes[: options.most_scenes]
    captions = read_snli(options.data, held_out=False)
    minimal = read_sugarcrepe(options.data)
    epochs = []
    for number in range(options.epochs):
        examples = scene_examples(scenes, options.seed + number, options.reading)
        examples += draw.sample(captions, int(options.snli * len(captions)))
        examples += draw.sample(minimal, int(options.sugarcrepe * len(minimal)))
        epochs.append(examples)
    print(f"{len(scenes)} scenes, {len(epochs[0])} examples an epoch", flush=True)
    reader = Reader(options.base)
    weights = LossWeights(options.ranking, options.tokens)
    fit(reader, epochs, weights, options.rate, options.frozen, options.seed)
    reader.save(options.out)


if __name__ == "__main__":
    main()
