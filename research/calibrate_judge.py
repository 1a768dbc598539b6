"""Fit the embedded judge's weights to people's judgments and to planted mistakes.

    python research/calibrate_judge.py ../shared/data/human research/calibration/artworks.json \
        ../shared/data/planted/planted_dev.json [--sample N] [--store parsed.db] [--folds] \
        [--encoder all-MiniLM-L6-v2 --output weights.json]

Every question about every pair becomes a row of facts (``calibration/questions.py``); L-BFGS finds
the weights of the loss in ``calibration/objective.py``. Prints the table for
``judges/embedded/evidence.py``, and the figures of each set on the examples that were fitted to.
With ``--folds``: the figures of each fifth (by image and by artwork) under weights fitted to
the other four. With ``--encoder`` the facts of its vectors are fitted with the others, and the
weights are written for ``judge: {name: embedded, encoder: ..., weights: ...}``. Higher is better,
but for the blind list, which should be below the sentence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from posh_reward.metrics.posh.judges.embedded.affinity import load_weights
from posh_reward.metrics.posh.judges.embedded.evidence import WEIGHTS, Weights
from posh_reward.types import Direction, Kind, Scores
from research.calibration.examples import FOLDS, Examples, examples
from research.calibration.objective import Objective, fitted
from research.calibration.people import SIDES, reading_metric
from research.calibration.questions import (
    KINDS,
    Answers,
    Floats,
    Questions,
    Recorder,
    answers,
    asked,
)
from research.eval_planted import Marked, best_threshold, macro_f1, marked


def regraded(questions: Questions, given: Answers, pair: int) -> Scores:
    """One pair's scores with the grades that the weights give."""
    grades = given.grades[questions.side // 2 == pair]
    scores = questions.scores[pair]
    elements = zip(scores.elements, grades.tolist(), strict=True)
    return replace(scores, elements=tuple(replace(e, grade=grade) for e, grade in elements))


def marked_texts(found: Examples, questions: Questions, given: Answers, how: str) -> list[Marked]:
    """Tokens with grades and marks of all texts that were marked in one way."""
    direction: Direction = "recall" if how == "omissions" else "precision"
    return [
        marked(
            found.pairs[pair][direction == "recall"].strip(),
            spans,
            regraded(questions, given, pair),
            direction,
        )
        for pair, kind, spans in found.marked
        if kind == how
    ]


def figures(found: Examples, questions: Questions, given: Answers) -> dict[str, float]:
    """Every figure that the judge is chosen by."""
    table = {}
    for name, (judged, numbers) in found.judged.items():
        for score, people in judged.people.items():
            column = given.means[numbers, SIDES.index(score)][judged.of]
            table[f"{name} {score}"] = judged.measure(column, people)
    for how in ("mistakes", "omissions"):
        texts = marked_texts(found, questions, given, how)
        table[f"{how}, macro F1"] = macro_f1(texts, best_threshold(texts))
    f1 = given.means[:, 2]
    for number, name in enumerate(("blind list", "blind chain", "vague list")):
        table[f"{name}, f1"] = float(f1[found.blind[number::3]].mean())
    table["words in disorder, f1"] = float(f1[found.disordered].mean())
    table["first half, f1"] = float(f1[found.halves].mean())
    table["true sentence, f1"] = float(f1[found.sentences].mean())
    return table


def out_of_fold(found: Examples, questions: Questions) -> Answers:
    """Each fold's answers under the weights that the other folds give."""
    fold = np.array(found.fold)
    parts = []
    for number in range(FOLDS):
        weights = fitted(Objective(found, questions, fold != number))
        parts.append(answers(questions, weights))
    by_element = fold[questions.side // 2]
    first = parts[0]
    for number, part in enumerate(parts):
        first.grades[by_element == number] = part.grades[by_element == number]
        first.means[fold == number] = part.means[fold == number]
    return first


def named(weights: Mapping[Kind, Floats], questions: Questions) -> Weights:
    """The weights by the names of their facts, to two digits."""
    return {
        kind: {
            name: round(weight, 2)
            for name, weight in zip(questions.names[kind], weights[kind].tolist(), strict=True)
        }
        for kind in KINDS
    }


def table_of(weights: Weights) -> str:
    """The weights as they stand in ``evidence.py``."""
    lines = []
    for kind in KINDS:
        named = weights[kind].items()
        lines += [f'    "{kind}": {{', *(f'        "{n}": {w:.2f},' for n, w in named), "    },"]
    return "\n".join(["WEIGHTS = {", *lines, "}"])


def shipped(encoder: str | None = None) -> dict[Kind, Floats]:
    """The weights that the judge has now."""
    weights = WEIGHTS if encoder is None else load_weights(None)[0]
    return {kind: np.array(list(weights[kind].values())) for kind in KINDS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the weights and how well they do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("people", type=Path)
    parser.add_argument("artworks", type=Path, nargs="+")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--store", type=Path, help="file that keeps parsed texts")
    parser.add_argument("--encoder", help="folder, name or module:function of an encoder")
    parser.add_argument("--output", type=Path, help="file for the weights with an encoder")
    parser.add_argument("--folds", action="store_true", help="figures of folds not fitted to")
    options = parser.parse_args(arguments)
    found = examples(options.people, options.artworks, options.sample)
    texts = list(dict.fromkeys(text for pair in found.pairs for text in pair))
    metric = reading_metric(Recorder(options.encoder), options.store, texts)
    questions = asked(metric, found.pairs)
    chosen = fitted(Objective(found, questions, np.ones(len(found.pairs), dtype=bool)))
    weights = named(chosen, questions)
    print(table_of(weights), flush=True)
    if options.output:
        options.output.write_text(json.dumps(weights, indent=1) + "\n", encoding="utf-8")
    columns = {
        "as shipped": figures(found, questions, answers(questions, shipped(options.encoder))),
        "fitted": figures(found, questions, answers(questions, chosen)),
    }
    if options.folds:
        columns["out of fold"] = figures(found, questions, out_of_fold(found, questions))
    print(f"{'':28}", *(f"{name:>12}" for name in columns))
    for name in columns["fitted"]:
        print(f"{name:28}", *(f"{column[name]:12.3f}" for column in columns.values()))


if __name__ == "__main__":
    main()
