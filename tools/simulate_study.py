"""Run a whole study with simulated raters whose preferences are known.

    python -m tools.simulate_study runs/study
    python -m tools.simulate_study runs/study --pairs 200 --mistakes -0.2 --overall 0.4 --alpha 0.3
    python -m tools.simulate_study runs/study --models demo/sft demo/dapo

Writes two models' descriptions of drawn scenes (by checkpoints, with --models), a packet, one file
of answers per rater, and the page of results; then reports whether each true preference lies in its
95 % interval, as it should in 19 of 20 studies. packet/rater-01.html is what raters see.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posh_reward.cli import main as posh_reward
from posh_reward.datasets.scenes import scene_rows
from posh_reward.study.packets.make import read_key
from posh_reward.study.packets.rater_answers import collect_answers, sign_answers
from posh_reward.study.packets.results import MAX_WORDS_PER_SECOND, compute_results
from posh_reward.study.packets.study_plan import Opinions, fit_opinions
from posh_reward.study.packets.study_records import (
    ANSWERS_FORMAT,
    BETTER,
    PREFERENCE_AXES,
    PacketKey,
    RaterTask,
    word_spans,
)
from posh_reward.tables.tables import Row

MODELS = ("sft", "posh-tuned")
MARK_RATES = (0.10, 0.06)  # chance that raters mark a word of each model


@dataclass(frozen=True, slots=True)
class Crowd:
    """Opinions of simulated raters."""

    preference: Mapping[str, float]  # by axis, mean preference for the later model, -2 to 2
    opinions: Opinions
    marks: Mapping[str, float]  # by model, the probability that a word is marked
    seed: int = 0


def answer_file(key: PacketKey, name: str, crowd: Crowd) -> bytes:
    """A rater's file, as the page would save it."""
    rater = key.raters[name]
    rng = random.Random(f"{crowd.seed} {name}")
    answers: list[Row] = []
    for task in rater.tasks:
        if task.purpose != "study":
            values = dict.fromkeys(PREFERENCE_AXES, 2 if task.models[0] == BETTER else -2)
        elif len(task.models) == 2:
            values = _preferences(key, task, crowd, rng, name)
        else:
            values = _marks(key, task, crowd, rng)
        words = key.find_item(task).count_words(task.models)
        seconds = round(words / MAX_WORDS_PER_SECOND * rng.uniform(3, 6), 1)
        answers.append({"task": task.id, **values, "seconds": seconds, "comment": ""})
    content: Row = {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "saved": "1970-01-01T00:00:00.000Z",
        "answers": answers,
    }
    return sign_answers(content, rater.token)


def _preferences(
    key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random, name: str
) -> Row:
    earlier, later = key.in_order(task.models)
    sign = 1 if task.models[0] == later else -1
    choices: Row = {}
    for axis in PREFERENCE_AXES:
        # Seed the quality with the item's name, so that all its raters see the same; and a rater's
        # taste for each model with the rater's name, so that it holds for all pairs.
        shared = _normal(crowd.seed, task.item, sorted(task.models), axis)
        early, late = (_normal(crowd.seed, name, model, axis) for model in (earlier, later))
        latent = crowd.opinions.find_shift(crowd.preference[axis])
        latent += crowd.opinions.shared**0.5 * shared + sign * crowd.opinions.side
        latent += crowd.opinions.lean * (late - early) / 2**0.5
        latent += crowd.opinions.own_deviation * rng.gauss(0, 1)
        choices[axis] = sign * int(crowd.opinions.choose_answers(np.array(latent)))
    return choices


def _normal(*name: object) -> float:
    return random.Random(" ".join(map(str, name))).gauss(0, 1)


def _marks(key: PacketKey, task: RaterTask, crowd: Crowd, rng: random.Random) -> Row:
    [model] = task.models
    texts = key.items[task.item].by_side(model)
    return {
        side: [span for span in word_spans(texts[side]) if rng.random() < crowd.marks[model]]
        for side in key.sides
    }


def main(argv: list[str] | None = None) -> int:
    """Run a study; return 1 if an interval misses the true preference."""
    parser = argparse.ArgumentParser(description="A study with simulated raters.")
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument(
        "--pairs", type=int, default=40, help="images, each with a pair; default: 40"
    )
    parser.add_argument("--coarse", type=int, default=7, help="raters who compare; default: 7")
    parser.add_argument("--granular", type=int, default=3, help="raters who mark; default: 3")
    parser.add_argument("--alpha", type=float, default=0.3, help="how far they agree; default: 0.3")
    in_paper = (-0.243, 0.432, 0.135)  # Table 7
    for axis, value in zip(PREFERENCE_AXES, in_paper, strict=True):
        parser.add_argument(f"--{axis}", type=float, default=value, help=f"true; default: {value}")
    parser.add_argument("--lean", type=float, default=0.3, help="raters' tastes; default: 0.3")
    parser.add_argument("--side", type=float, default=0.0, help="bias to #1; default: 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs=2, metavar="[NAME=]MODEL", help="checkpoints that "
                        "describe the images; default: texts made of the references")  # fmt: skip
    parser.add_argument("--dataset", default="scenes:heldout=256:plain=1",
                        help="whose images they describe; default: the demo's")  # fmt: skip
    flags = parser.parse_args(argv)
    true = {axis: getattr(flags, axis) for axis in PREFERENCE_AXES}
    if flags.models:
        texts, names = describe(flags.models, flags.output, flags.dataset, flags.pairs)
        generations: list[object] = [texts, "--dataset", flags.dataset]
    else:
        names = MODELS
        generations = [*write_generations(flags.output, flags.pairs, flags.seed)]
    packet, key_file = flags.output / "packet", flags.output / "packet.key.json"
    make = ["make", *generations, "-o", packet, "--seed", flags.seed, "--granular", flags.granular]
    status = command(*make, "--coarse", flags.coarse)
    if status:
        return status
    key = read_key(key_file, packet)
    rates = dict(zip(names, MARK_RATES, strict=True))
    opinions = fit_opinions(flags.alpha, lean=flags.lean, side=flags.side)
    crowd = Crowd(true, opinions, rates, flags.seed)
    answers = flags.output / "answers"
    answers.mkdir(parents=True, exist_ok=True)
    for name in key.raters:  # as the page saves it
        (answers / f"answers-{key.packet}-{name}.json").write_bytes(answer_file(key, name, crowd))
    pages = ["--page", flags.output / "result.html", "--json", flags.output / "result.json"]
    status = command("read", key_file, answers, "--packet", packet, *pages)
    return status or compare(key, answers, true)


def command(*words: object) -> int:
    """Run and print a ``posh-reward packets`` command."""
    argv = ["packets", *map(str, words)]
    print(f"$ posh-reward {' '.join(argv)}", file=sys.stderr)
    return posh_reward(argv)


def describe(
    models: Sequence[str], folder: Path, dataset: str, count: int
) -> tuple[Path, tuple[str, ...]]:
    """Let checkpoints describe a dataset's first images; return the file and model names."""
    from posh_reward.training.generation import GenerationSettings, generate, models_by_name

    folder.mkdir(parents=True, exist_ok=True)
    models_ = models_by_name(models)
    texts = folder / "said.jsonl"
    generate(GenerationSettings(models_, texts, dataset, limit=count, max_new_tokens=64))
    return texts, tuple(models_)


def write_generations(folder: Path, count: int, seed: int) -> list[Path]:
    """Write two models' texts about drawn scenes; one leaves out a sentence, the other a word."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    rows: dict[str, list[str]] = {model: [] for model in MODELS}
    for scene in scene_rows("test", count, seed=seed, scale=3):
        image = folder / f"{scene['uuid']}.png"
        image.write_bytes(scene["image"]["bytes"])
        for model in MODELS:
            row = {
                "id": scene["uuid"],
                "model": model,
                "image": image.name,
                "generation": shorten(scene["reference"], model, rng),
                "reference": scene["reference"],
            }
            rows[model].append(json.dumps(row) + "\n")
    paths = [folder / f"{model}.jsonl" for model in MODELS]
    for model, path in zip(MODELS, paths, strict=True):
        path.write_text("".join(rows[model]), encoding="utf-8")
    return paths


def shorten(reference: str, model: str, rng: random.Random) -> str:
    """Return the reference as a model would write it."""
    if model == "sft":
        sentences = reference.split(". ")
        some = sentences if len(sentences) == 1 else sentences[:-1]
        return ". ".join(some).rstrip(".") + f". The scene is {rng.choice(['calm', 'quiet'])}."
    words = reference.split()
    words.pop(rng.randrange(1, len(words) - 1))
    return " ".join(words)


def compare(key: PacketKey, answers: Path, true: dict[str, float]) -> int:
    """Print found and true preferences; return 1 if an interval misses the true one."""
    [comparison] = compute_results(collect_answers(answers.glob("*.json"), key), key).comparisons
    missed = 0
    for each in comparison.axes:
        inside = each.mean.low <= true[each.axis] <= each.mean.high
        missed += not inside
        print(f"{each.axis:<10} true {true[each.axis]:+.3f}, found {each.mean}: "
              f"{'inside' if inside else 'OUTSIDE'}")  # fmt: skip
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
