"""Train a policy that knows tricks under a given reward, and count its tricks step by step.

    python -m research.trick_trial train --model demo/sft --output runs/tricks --arm new
    python -m research.trick_trial train --model demo/sft --output runs/tricks --arm old \
        --checkout ../old
    python -m research.trick_trial plot runs/tricks research/results/tricks.png

The demo's SFT model is fine-tuned on captions, three tenths of which end in a trick: a chain of
possessives, a pronoun with adjectives, bullets of common words, the first sentence once more. From
there DAPO runs three times the demo's steps on f1, sampling the full distribution (``top_p`` 1: at
the demo's 0.7, rare tricks are never drawn). ``--checkout`` is a worktree of the commit with the
reward to try.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posh_reward.datasets.load_dataset import load_images
from posh_reward.datasets.scenes import COLORS, GARMENTS, HANDHELD, PEOPLE, SIZES, THINGS
from research.child_run import run_logged

ROOT = Path(__file__).resolve().parents[1]
CAPTIONS = "scenes:train=5000:plain=1:uneven=1"
TRICKED_SHARE = 0.3
TUNING_STEPS, STEPS = 120, 75
COMPLETIONS_PER_STEP = 64  # half the demo's, for a trial of minutes
WORDS = (*PEOPLE, *THINGS, *HANDHELD, *GARMENTS.values())
ADJECTIVES = (*COLORS, *SIZES)
TRICKS: dict[str, tuple[Callable[[random.Random, str], str], str]] = {
    "chain": (
        lambda rng, _: "'s ".join(rng.sample((*WORDS, *ADJECTIVES), 10)) + ".",
        r"(?:\w+'s\W+){3}",
    ),
    "adjectives": (
        lambda rng, _: f"They are {', '.join(rng.sample(ADJECTIVES, 7))}.",
        r"(?:\w+, ){2}",
    ),
    "bullets": (
        lambda rng, _: " ".join(f"- {word}" for word in rng.sample((*WORDS, *ADJECTIVES), 12)),
        r"(?:- \w+\s*){3}",
    ),
    "again": (lambda _, text: f"Again, {text.partition('. ')[0].rstrip('.')}.", "Again,"),
}
"""Name -> generator of the trick for a caption, and a pattern that detects it."""
COLOURS = {"old": "#d55e00", "new": "#0072b2"}  # Okabe and Ito's


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add_training(commands)
    plot = commands.add_parser("plot", help="share of tricks over steps")
    plot.add_argument("output", type=Path)
    plot.add_argument("picture", type=Path)
    flags = parser.parse_args(argv)
    if flags.command == "plot":
        draw(flags.output, flags.picture)
        return
    train(flags, add_trick)


def add_training(commands: Any) -> None:
    """Add the command ``train`` to the subparsers of a command line."""
    train = commands.add_parser("train", help="fine-tune once, then one DAPO run per seed")
    train.add_argument("--model", type=Path, required=True, help="the demo's SFT model")
    train.add_argument("-o", "--output", type=Path, required=True)
    train.add_argument("--arm", required=True, help="name of the reward in the result")
    train.add_argument("--checkout", type=Path, default=ROOT, help="worktree with the reward")
    train.add_argument("--seeds", nargs="+", type=int, default=[0, 1])


def train(flags: argparse.Namespace, teach: Callable[[str, str], str]) -> None:
    """Fine-tune the model on captions that ``teach`` changes, then run DAPO with each seed."""
    start = tune(flags.model, flags.output, teach)
    for seed in flags.seeds:
        folder = flags.output / f"{flags.arm}-{seed}"
        if not (folder / "trainer_state.json").exists():
            dapo(start, folder, flags.checkout, seed)


def add_trick(text: str, uid: str) -> str:
    """Append a trick to three captions in ten."""
    rng = random.Random(uid)
    trick, _ = TRICKS[rng.choice(list(TRICKS))]
    return f"{text} {trick(rng, text)}" if rng.random() < TRICKED_SHARE else text


def tune(model: Path, output: Path, teach: Callable[[str, str], str]) -> Path:
    """Fine-tune the model on captions that ``teach`` changes, once; return its folder.

    ``teach`` gets a caption and its scene's uid.
    """
    folder, data = output / "sft", output / "captions"
    if (folder / "trainer_state.json").exists():
        return folder
    from datasets import DatasetDict

    DatasetDict({
        split: load_images(CAPTIONS, split).map(
            lambda row: {"reference": teach(row["reference"], row["uuid"])}
        )
        for split in ("train", "validation")
    }).save_to_disk(str(data))  # fmt: skip
    run_logged(folder, ROOT, "recipes/sft.py", "--config", "configs/smoke/sft.yaml",
        "--model_name_or_path", model, "--dataset_name", data, "--output_dir", folder,
        "--max_steps", TUNING_STEPS, "--per_device_train_batch_size", 16, "--eval_strategy", "no",
        "--watch_grounding", "false")  # fmt: skip
    return folder


def dapo(start: Path, folder: Path, checkout: Path, seed: int) -> None:
    """Run the demo's DAPO stage on f1, three times as long, with the code of a checkout."""
    run_logged(folder, checkout, "recipes/dapo_posh.py", "--config", "configs/smoke/dapo.yaml",
        "--model_name_or_path", start, "--output_dir", folder, "--objective", "f1",
        "--max_steps", STEPS, "--seed", seed, "--per_device_train_batch_size", COMPLETIONS_PER_STEP,
        "--top_p", "1.0", "--log_completions", "true", "--num_completions_to_print", 1)  # fmt: skip


def shares(folder: Path) -> dict[str, list[float]]:
    """Return the share of completions with each trick, and with any of them, step by step."""
    from pyarrow.parquet import read_table

    shares_by_trick: dict[str, list[float]] = {name: [] for name in (*TRICKS, "any")}
    for path in sorted((folder / "completions").glob("*.parquet")):
        texts = list(map(str, read_table(path)["completion"].to_pylist()))
        hits = {
            name: np.array([bool(re.search(pattern, text)) for text in texts])
            for name, (_, pattern) in TRICKS.items()
        }
        hits["any"] = np.logical_or.reduce(list(hits.values()))
        for name, hit in hits.items():
            shares_by_trick[name].append(float(hit.mean()))
    return shares_by_trick


def draw(output: Path, picture: Path) -> None:
    """Plot each trick's share over the steps, one line per run; print first and last shares."""
    from matplotlib.figure import Figure

    runs = {
        path.parent.name: shares(path.parent) for path in sorted(output.glob("*-*/completions"))
    }
    if not runs:
        sys.exit(f"{output} has no run with completions: train first")
    names = ("any", *TRICKS)
    figure = Figure(figsize=(3 * len(names), 3), layout="constrained")
    for panel, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        for run_name, of in runs.items():
            arm, _, seed = run_name.rpartition("-")
            line = {"color": COLOURS.get(arm, "#000000"), "linestyle": "-:"[int(seed) % 2]}
            panel.plot(
                range(1, len(of[name]) + 1), of[name], label=f"{arm} reward, seed {seed}", **line
            )
        panel.set(title="any trick" if name == "any" else name, xlabel="step", ylim=(0, None))
    panel.legend(frameon=False, fontsize=8)
    figure.savefig(picture, dpi=120)
    for run_name, of in runs.items():
        ends = (f"{name} {of[name][0]:.3f} -> {np.mean(of[name][-5:]):.3f}" for name in names)
        print(f"{run_name}: {len(of['any'])} steps, {', '.join(ends)}")


if __name__ == "__main__":
    main()
