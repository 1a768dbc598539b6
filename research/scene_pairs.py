"""Print pairs of texts and references about single drawn subjects, with known false details.

    python -m research.scene_pairs --limit 500 > pairs.jsonl
    python -m research.scene_pairs --limit 60 --split test > others.jsonl

Six texts per reference, with 0 to 5 false details: small enough for a tiny judge to learn from
(research/results/judges.md), and groups of alternatives for ``posh-reward judges compare``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from posh_reward.datasets.scenes import Scene, Split, caption, generate_scenes, isolate_subjects
from research.witness_study.scene_texts import scene_texts


def single_scenes(split: Split, count: int, seed: int) -> list[Scene]:
    """Return scenes of one subject each, without two of the same description."""
    scenes: dict[str, Scene] = {}
    for scene in generate_scenes(split, 4 * count, seed):
        for single in isolate_subjects(scene):
            if len(scenes) < count:
                scenes.setdefault(caption(single), single)
    return list(scenes.values())


def main(argv: Sequence[str] | None = None) -> None:
    """Print one JSON object per line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=int, required=True, help="references")
    parser.add_argument("--split", default="train", help="train, validation or test")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(argv)
    scenes = single_scenes(flags.split, flags.limit, flags.seed)
    for each in scene_texts(scenes):
        reference = caption(scenes[each.image])
        print(json.dumps({"generation": each.text, "reference": reference}))


if __name__ == "__main__":
    main()
