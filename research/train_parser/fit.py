"""Training of the network on trees: batches, word dropout, schedule, averaged weights."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from posh_reward.graph.biaffine import Parameters, feature_rows
from research.train_parser.conllu import ROOT, Word
from research.train_parser.network import Network, average_weights, pad

WORDS_PER_BATCH = 800
RARE = 0.4  # a word seen n times in training loses its form with probability RARE / (RARE + n)

Sentence = Sequence[Word]


@dataclass(frozen=True)
class TrainingRow:
    """One sentence as indices; heads count from 1, 0 is the root."""

    rows: list[tuple[int, ...]]
    words: list[str]
    heads: list[int]
    deps: list[int]
    tags: list[int]


def outputs(sentences: Sequence[Sentence]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the (part of speech, fine tag) pairs and the labels to predict, sorted."""
    pairs = Counter((word.upos, word.tag) for sentence in sentences for word in sentence)
    labels = {word.dep for sentence in sentences for word in sentence}
    return sorted(pair for pair, count in pairs.items() if count > 2), sorted(labels)


def examples(
    sentences: Sequence[Sentence], tags: Sequence[tuple[str, str]], labels: Sequence[str]
) -> list[TrainingRow]:
    """Convert sentences to indices. A pair that is too rare to learn counts as a noun."""
    tag_index = {pair: i for i, pair in enumerate(tags)}
    label_index = {label: i for i, label in enumerate(labels)}
    noun = tag_index[("NOUN", "NN")]
    return [
        TrainingRow(
            [feature_rows(word.form, i == 0) for i, word in enumerate(sentence)],
            [word.form.lower() for word in sentence],
            [0 if word.head == ROOT else word.head + 1 for word in sentence],
            [label_index[word.dep] for word in sentence],
            [tag_index.get((word.upos, word.tag), noun) for word in sentence],
        )
        for sentence in sentences
    ]


def batches(data: Sequence[TrainingRow], rng: random.Random) -> Iterator[list[TrainingRow]]:
    """Yield batches of sentences of similar length, longest first in each, in random order."""
    # With noise of four words on the lengths, batches differ between epochs but need little
    # padding.
    order = sorted(data, key=lambda example: len(example.rows) + rng.random() * 4, reverse=True)
    groups: list[list[TrainingRow]] = []
    current: list[TrainingRow] = []
    for example in order:
        if current and len(current[0].rows) * (len(current) + 1) > WORDS_PER_BATCH:
            groups.append(current)
            current = []
        current.append(example)
    groups.append(current)
    rng.shuffle(groups)
    for batch in groups:
        yield sorted(batch, key=lambda example: -len(example.rows))


def padded_rows(features: Sequence[Sequence[tuple[int, ...]]]) -> torch.Tensor:
    """Pad the feature rows of sentences, the longest first, with 0 to (time, batch, 7)."""
    rows = torch.zeros(len(features[0]), len(features), len(features[0][0]), dtype=torch.long)
    for i, sentence in enumerate(features):
        rows[: len(sentence), i] = torch.tensor(sentence)
    return rows


def tensors(
    batch: Sequence[TrainingRow], counts: Counter[str], rng: random.Random
) -> dict[str, torch.Tensor]:
    """Return the arguments of ``Network.loss``, with rare forms dropped at random."""
    rows = padded_rows([example.rows for example in batch])
    for i, example in enumerate(batch):
        for j, word in enumerate(example.words):
            # Without its form, a word is known by affixes and shape only, as unknown ones will be.
            if rng.random() < RARE / (RARE + counts[word]) + 0.02:
                rows[j, i, :2] = 0
    return {
        "rows": rows,
        "lengths": torch.tensor([len(example.rows) for example in batch]),
        "heads": pad([example.heads for example in batch], -1),
        "deps": pad([example.deps for example in batch], -1),
        "tags": pad([example.tags for example in batch], -1),
    }


@dataclass(frozen=True)
class Schedule:
    """Training ends after ``epochs`` or, if given, ``minutes``, whichever comes first."""

    epochs: int
    minutes: float | None = None
    rate: float = 2e-3  # highest learning rate; it falls linearly to 0
    seed: int = 0


def fit(
    network: Network,
    data: Sequence[TrainingRow],
    schedule: Schedule,
    report: Callable[[Parameters], str],
) -> Parameters:
    """Train in place; return (and leave in the network) the averaged weights."""
    rng = random.Random(schedule.seed)
    counts = Counter(word for example in data for word in example.words)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.rate, betas=(0.9, 0.98))
    average = network.weights()
    start, step, progress = time.monotonic(), 0, 0.0
    for epoch in range(schedule.epochs):
        network.train()
        for batch in batches(data, rng):
            elapsed = time.monotonic() - start
            spent = elapsed / (60 * schedule.minutes) if schedule.minutes else 0.0
            # 200 steps of warm-up, then a linear decay by data or by time, whichever is ahead.
            rate = min(1.0, (step + 1) / 200) * max(0.02, 1 - max(progress, spent))
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate * rate
            loss = network.loss(**tensors(batch, counts, rng))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            step += 1
            progress += len(batch) / (len(data) * schedule.epochs)
            if step % 5 == 0:
                average = average_weights(average, network.weights(), step // 5)
        minutes = (time.monotonic() - start) / 60
        print(f"epoch {epoch} step {step} {minutes:.1f} min {report(average)}", flush=True)
        if schedule.minutes and minutes >= schedule.minutes:
            break
    network.load(average)
    return average
