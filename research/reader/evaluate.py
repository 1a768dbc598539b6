"""Measures a reader on scenes of known truth and on SNLI's held-out tenth.

python -m research.reader.evaluate FOLDER --scenes FILE... [--held-out] [--whole]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from research.reader.examples import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    READINGS,
    Reading,
    Scene,
    choose_premises,
    read_scenes,
    read_snli,
)
from research.reader.network import Pair, Reader

ALARMS = 0.1
MIN_SHARE = 0.5
Floats = NDArray[np.float64]


def read_pairs(reader: Reader, pairs: Sequence[Pair]) -> Floats:
    """Shares of the labels, and the highest falsehood of a token: (pairs, labels + 1)."""
    reader.model.eval()
    with torch.inference_mode():
        encoded = reader.tokenize(pairs)
        logits, falsehoods = reader.read(encoded)
        worst = [
            row[: len(pair.types)][torch.tensor(pair.types) == 1].max()
            for row, pair in zip(falsehoods, encoded, strict=True)
        ]
        shares = torch.cat([logits.softmax(-1), torch.stack(worst).sigmoid()[:, None]], -1)
    return np.asarray(shares, np.float64)


def read_sentences(
    reader: Reader, premises: Sequence[Sequence[str]], sentences: Sequence[str]
) -> Floats:
    """Entailment, contradiction and falsehood of sentences, by the window that says most.

    Falsehood is that of the window in which the worst word is least false.
    """
    pairs = [
        (text, sentence)
        for texts, sentence in zip(premises, sentences, strict=True)
        for text in texts
    ]
    shares = read_pairs(reader, pairs)
    starts = np.cumsum([0, *(len(texts) for texts in premises)])[:-1]
    most, least = np.maximum.reduceat(shares, starts), np.minimum.reduceat(shares, starts)
    return np.stack([most[:, ENTAILMENT], most[:, CONTRADICTION], least[:, -1]], -1)


def auc(over: Floats, under: Floats) -> float:
    difference = over[:, None] - under[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def measure_scenes(reader: Reader, scenes: Sequence[Scene], reading: Reading) -> dict[str, object]:
    kinds, sentences, premises = [], [], []
    for scene in scenes:
        texts = [("honest", text) for text in scene["honest"]]
        texts += [("reworded", item["text"]) for item in scene["rewordings"]]
        texts += [(item["kind"], item["text"]) for item in scene["false"]]
        for kind, text in texts:
            kinds.append(kind)
            sentences.append(text)
            premises.append(choose_premises(scene["reference"], text, reading))
    started = time.process_time()
    shares = read_sentences(reader, premises, sentences)
    took = time.process_time() - started
    entailed, contradicted, falsehood = shares.T
    refuted = contradicted * (entailed < MIN_SHARE)
    scores = {
        "doubt": 1 - entailed,
        "contradicted": refuted,
        "falsehood": falsehood,
        "doubt and falsehood": (1 - entailed + falsehood) / 2,
    }
    of = {kind: np.array([one == kind for one in kinds]) for kind in dict.fromkeys(kinds)}
    false = ~(of["honest"] | of["reworded"])
    measured: dict[str, object] = {
        "scenes": len(scenes),
        "false": int(false.sum()),
        "reworded": int(of["reworded"].sum()),
        "sentences a CPU second": round(len(sentences) / took, 1),
    }
    for name, score in scores.items():
        limit = np.quantile(score[of["reworded"]], 1 - ALARMS)
        by_kind = {
            kind: (
                int(rows.sum()),
                round(float((score[rows] > limit).mean()), 2),
                round(auc(score[rows], score[of["reworded"]]), 2),
            )
            for kind, rows in of.items()
            if kind not in ("honest", "reworded")
        }
        measured[name] = {
            "auc": round(auc(score[false], score[of["reworded"]]), 3),
            "auc over honest and reworded": round(auc(score[false], score[~false]), 3),
            "found at 10 %": round(float((score[false] > limit).mean()), 3),
            "above half: false": round(float((score[false] > MIN_SHARE).mean()), 3),
            "honest": round(float((score[of["honest"]] > MIN_SHARE).mean()), 3),
            "reworded": round(float((score[of["reworded"]] > MIN_SHARE).mean()), 3),
            "by kind: number, found, auc": dict(sorted(by_kind.items())),
        }
    return measured


def measure_snli(reader: Reader, data: Path) -> dict[str, float]:
    examples = read_snli(data, held_out=True)
    shares = read_pairs(reader, [(one.premises[0], one.hypothesis) for one in examples])
    labels = np.array([one.label for one in examples])
    entailed = shares[:, ENTAILMENT]
    return {
        "pairs": len(examples),
        "accuracy": float((shares[:, :-1].argmax(-1) == labels).mean()),
        "auc_contradicted": auc(entailed[labels == ENTAILMENT], entailed[labels == CONTRADICTION]),
        "auc_neutral": auc(entailed[labels == ENTAILMENT], entailed[labels == NEUTRAL]),
        "entailed_below_half": float((entailed[labels == ENTAILMENT] < 0.5).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--scenes", type=Path, nargs="+", required=True)
    parser.add_argument("--held-out", action="store_true", help="each tenth line only")
    parser.add_argument("--reading", choices=READINGS, default="runs")
    parser.add_argument("--no-snli", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reader = Reader(options.folder)
    scenes = read_scenes(options.scenes, options.held_out)
    for name, value in measure_scenes(reader, scenes, options.reading).items():
        print(f"{name}: {json.dumps(value)}")
    if not options.no_snli:
        print(json.dumps(measure_snli(reader, options.data)))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
