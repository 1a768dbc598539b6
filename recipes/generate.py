"""Greedy descriptions of a split's images, by one model or many, as rows to score.

    python recipes/generate.py --models runs/sft runs/dapo/checkpoint-* --output runs/said.jsonl
    posh-reward score runs/said.jsonl -o runs/scores.jsonl --id id --elements
    posh-reward report runs/scores.jsonl -o runs/report.html --dataset scenes --plots runs/plots

Models are loaded one after the other; ``NAME=MODEL`` sets a model's name in the rows. ``--engine
vllm`` is faster on a GPU. Rows have id, model, image (the row whose image was shown), generation
and reference, and, where they apply, max_pixels, prompt (if not the paper's) and truncated. With
``--shuffle-images`` the image is the next row's, so that a model is scored on an image that it has
not seen. After Ctrl-C or a kill, the same command continues after the last
complete row. Only one process at a time may write to a file: with ``--shard`` and ``--shards`` each
writes its own, to be concatenated (slurm/generate_score.sh).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import posh_reward.training.extra  # noqa: F401
from posh_reward.training.generation import (
    DEFAULT_MAX_NEW_TOKENS,
    IMAGES_PER_CALL,
    GenerationSettings,
    generate,
    models_by_name,
    recorded_prompt,
)
from posh_reward.training.launch import run

EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, as of ``posh-reward``."""


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Greedy descriptions of a split's images.")
    add = parser.add_argument
    add("--models", required=True, nargs="+", metavar="[NAME=]MODEL",
        help="directories, or names on the hub; by default named after their last folder, "
        "checkpoints also after their run")  # fmt: skip
    add("-o", "--output", type=Path, required=True, help="JSON lines; appended to")
    add("--engine", choices=tuple(IMAGES_PER_CALL), default="transformers")
    add("--dataset", default="scenes", help="see data/README.md")
    add("--split", default="test")
    add(
        "--reference",
        metavar="COLUMN",
        default="reference",
        help="the dataset's column of references",
    )
    add("--shuffle-images", action="store_true", help="show the next row's image")
    add("--limit", type=int, help="describe only the first LIMIT rows")
    add("--shard", type=int, default=0, help="describe only this part, from 0, ...")
    add("--shards", type=int, default=1, help="... of this many parts of the rows")
    add("--batch", type=int, help="images per call; default: "
        + ", ".join(f"{size} with {name}" for name, size in IMAGES_PER_CALL.items()))  # fmt: skip
    add("--prompt-text", help="instruction to the models; default: what their runs recorded, or "
        "else the paper's")  # fmt: skip
    add("--max-new-tokens", type=int, default=DEFAULT_MAX_NEW_TOKENS,
        help="rows whose description is cut there have truncated: true")  # fmt: skip
    add("--max-pixels", type=int, help="shrink larger images; default: the smallest cap among the "
        "models, so that all see the same")  # fmt: skip
    add("--repetition_penalty", type=float, default=1.0, help="default: 1 (off), overriding the "
        "model's generation_config.json")  # fmt: skip
    flags = vars(parser.parse_args(argv))
    models = models_by_name(flags["models"])
    flags["prompt_text"] = flags["prompt_text"] or recorded_prompt(models.values())
    how = GenerationSettings(**{**flags, "models": models})
    try:
        for label, count in generate(how).items():
            print(f"{count} new descriptions by {label!r} in {how.output}")
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: {how.output} keeps the rows so far; run the same command to continue",
            file=sys.stderr,
        )
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    run(main)
