"""Greedy descriptions of a split's pictures, as JSON lines for ``posh-reward score``.

    python recipes/generate.py --model runs/dapo --dataset_name scenes --output runs/said.jsonl
    posh-reward score runs/said.jsonl -o runs/scores.jsonl --elements

Rows have id, model, image (the row whose picture was shown), generation and reference. With
``--shuffle_images`` that is the next row: what a model scores then, it scores without seeing.
After a kill it resumes behind the last whole row. Several models may write to one file, but only
one process at a time: with ``--shard`` and ``--shards`` each needs a file of its own, and the files
one after the other are the whole (slurm/generate_score.sh).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from posh_reward.training.generation import Describing, generate
from posh_reward.training.launch import run


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Greedy descriptions of a split's pictures.")
    parser.add_argument("--model", required=True, help="a directory, or a name on the hub")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; appended to")
    parser.add_argument("--dataset_name", default="scenes", help="see data/README.md")
    parser.add_argument("--split", default="test")
    parser.add_argument("--reference_column", default="reference", help="of the dataset")
    parser.add_argument("--name", help="what the rows call the model")
    parser.add_argument("--shuffle_images", action="store_true", help="show the next row's picture")
    parser.add_argument("--limit", type=int, help="describe only so many")
    parser.add_argument("--shard", type=int, default=0, help="describe only this part, from 0, ...")
    parser.add_argument("--shards", type=int, default=1, help="... of so many parts of the rows")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_new_tokens", type=int, default=512)
    parser.add_argument("--max_pixels", type=int, help="shrink larger pictures")
    how = Describing(**vars(parser.parse_args(argv)))
    print(f"{generate(how)} new descriptions by {how.label!r} in {how.output}")


if __name__ == "__main__":
    run(main)
