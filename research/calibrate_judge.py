"""Fit the embedded judge's weights to people's judgments, planted mistakes and known truth.

    python -m research.calibrate_judge ../shared/data [--as-shipped] [--folds] [--store parsed.db] \
        [--limit N] [--scenes research/scenes/written.jsonl ...] \
        [--encoder all-MiniLM-L6-v2 --output weights.json]

Every question about every pair becomes a row of features (``calibration/questions.py``); L-BFGS
finds the weights of the loss in ``calibration/objective.py``, those of attributes and relations:
those of entities stay as they are, unless there is an encoder. Prints them as in
``embedded/judge/weights.json``, and the figures of each set on the examples that were fitted to.
With ``--folds``: the figures of each fifth (by image and by artwork) under weights fitted to
the other four. With ``--as-shipped``: the figures of the shipped weights alone, without a fit. With
``--encoder`` the features of its vectors are fitted with the others, and the weights are written
for ``judge: {name: embedded, encoder: ..., weights: ...}``. Higher is better, but for false alarms
and for the blind list, which should be below the sentence.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from posh_reward.embedded.judge.encoder_features import load_weights
from posh_reward.embedded.judge.features import WEIGHTS, Weights
from posh_reward.types import KINDS, Direction, Kind, Scores
from research.calibration.examples import FOLDS, Examples, examples
from research.calibration.objective import Objective, fit
from research.calibration.people import SIDES, reading_metric
from research.calibration.questions import Answers, Floats, Questions, Recorder, answers, ask_about
from research.calibration.truth import FALSE_KINDS
from research.eval_planted import TextMarks, best_threshold, macro_f1, text_marks

MIN_TRUE_GRADE = 3.0  # below it an element counts as found false


def with_grades(questions: Questions, outputs: Answers, pair: int) -> Scores:
    """Return one pair's scores with the grades under the fitted weights."""
    grades = outputs.grades[questions.side // 2 == pair]
    scores = questions.scores[pair]
    elements = zip(scores.elements, grades.tolist(), strict=True)
    return replace(scores, elements=tuple(replace(e, grade=grade) for e, grade in elements))


def texts_with_marks(
    data: Examples, questions: Questions, outputs: Answers, how: str
) -> list[TextMarks]:
    """Return the graded and marked tokens of all texts with one kind of marks."""
    direction: Direction = "recall" if how == "omissions" else "precision"
    return [
        text_marks(
            data.pairs[pair][direction == "recall"].strip(),
            spans,
            with_grades(questions, outputs, pair),
            direction,
        )
        for pair, kind, spans in data.marks
        if kind == how
    ]


def figures(data: Examples, questions: Questions, outputs: Answers) -> dict[str, float]:
    """Return all figures for choosing weights, by name."""
    table = {}
    for name, (ratings, numbers) in data.ratings.items():
        for score, people in ratings.people.items():
            column = outputs.means[numbers, SIDES.index(score)][ratings.of]
            table[f"{name} {score}"] = ratings.measure(column, people)
    for how in ("mistakes", "omissions"):
        texts = texts_with_marks(data, questions, outputs, how)
        table[f"{how}, macro F1"] = macro_f1(texts, best_threshold(texts))
    f1 = outputs.means[:, 2]
    for number, name in enumerate(("blind list", "blind chain", "vague list")):
        table[f"{name}, f1"] = float(f1[data.blind[number::3]].mean())
    table["words in disorder, f1"] = float(f1[data.disordered].mean())
    table["false sentences, f1"] = float(f1[data.false].mean())
    table["half + false sentences, f1"] = float(f1[data.padded].mean())
    table["first half, f1"] = float(f1[data.halves].mean())
    table["true sentence, f1"] = float(f1[data.sentences].mean())
    return table | truth_figures(data, questions, outputs)


def truth_figures(data: Examples, questions: Questions, outputs: Answers) -> dict[str, float]:
    """Return what the captions of known truth tell: what is found, and false alarms."""
    precise = questions.side % 2 == 0
    lowest = np.full(len(data.pairs), 5.0)
    np.minimum.at(lowest, questions.side[precise] // 2, outputs.grades[precise])
    precision, truth, table = outputs.means[:, 0], data.truth, {}
    for kind in (*FALSE_KINDS, "sick contradiction"):
        table[f"{kind}: found"] = float((lowest[truth[kind]] < MIN_TRUE_GRADE).mean())
    for kind in ("entailment", "sick entailment", "honest negation", "sick honest negation"):
        table[f"{kind}: false alarms"] = float((lowest[truth[kind]] < MIN_TRUE_GRADE).mean())
    for corpus in ("", "sick "):
        entailed = precision[truth[f"{corpus}entailment"]]
        for label in ("contradiction", "neutral"):
            other = precision[truth[corpus + label]]
            table[f"{corpus or 'snli '}{label}: AUC"] = auc(entailed, other)
    return table


def auc(better: Floats, worse: Floats) -> float:
    """Return the share of pairs in the right order, ties as half."""
    gap = better[:, None] - worse
    return float(((gap > 0) + (gap == 0) / 2).mean())


def out_of_fold(data: Examples, questions: Questions, kept: Weights | None) -> Answers:
    """Return each fold's answers under weights fitted to the other folds."""
    fold = np.array(data.fold)
    parts = []
    for number in range(FOLDS):
        weights = fit(Objective(data, questions, fold != number), kept)
        parts.append(answers(questions, weights))
    by_element = fold[questions.side // 2]
    first = parts[0]
    for number, part in enumerate(parts):
        first.grades[by_element == number] = part.grades[by_element == number]
        first.means[fold == number] = part.means[fold == number]
    return first


def by_name(weights: Mapping[Kind, Floats], questions: Questions) -> Weights:
    """Map the names of the features to their weights, to two digits."""
    return {
        kind: {
            name: round(weight, 2)
            for name, weight in zip(questions.names[kind], weights[kind].tolist(), strict=True)
        }
        for kind in KINDS
    }


def shipped_weights(encoder: str | None = None) -> dict[Kind, Floats]:
    """The weights that the judge has now."""
    weights = WEIGHTS if encoder is None else load_weights(None)[0]
    return {kind: np.array(list(weights[kind].values())) for kind in KINDS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the weights and how well they do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with human/, planted/ and known_truth/")
    parser.add_argument("--scenes", type=Path, nargs="*", default=(), help="files of scenes")
    parser.add_argument("--limit", type=int, help="texts of each kind")
    parser.add_argument("--store", type=Path, help="file that keeps parsed texts")
    parser.add_argument("--encoder", help="folder, name or module:function of an encoder")
    parser.add_argument("-o", "--output", type=Path, help="file for the weights with an encoder")
    parser.add_argument("--folds", action="store_true", help="figures of folds not fitted to")
    parser.add_argument("--as-shipped", action="store_true", help="fit nothing")
    options = parser.parse_args(arguments)
    data = examples(options.data, options.limit, scenes=options.scenes)
    texts = list(dict.fromkeys(text for pair in data.pairs for text in pair))
    metric = reading_metric(Recorder(options.encoder), options.store, texts)
    questions = ask_about(metric, data.pairs)
    shipped = answers(questions, shipped_weights(options.encoder))
    columns = {"as shipped": figures(data, questions, shipped)}
    kept: Weights | None = {"entity": WEIGHTS["entity"]} if options.encoder is None else None
    if not options.as_shipped:
        vectors = fit(Objective(data, questions, np.ones(len(data.pairs), dtype=bool)), kept)
        text = json.dumps(by_name(vectors, questions), indent=1)
        print(text, flush=True)
        if options.output:
            options.output.write_text(text + "\n", encoding="utf-8")
        columns["fitted"] = figures(data, questions, answers(questions, vectors))
    if options.folds:
        folds = out_of_fold(data, questions, kept)
        columns["out of fold"] = figures(data, questions, folds)
    print(f"{'':34}", *(f"{name:>12}" for name in columns))
    for name in columns["as shipped"]:
        print(f"{name:34}", *(f"{column[name]:12.3f}" for column in columns.values()))


if __name__ == "__main__":
    main()
