"""Compare what a policy omits after uneven references with what their audit said before.

    make demo
    python -m research.uneven_references demo/sft runs/uneven --seeds 0 1

The demo's drawn scenes, and its model after SFT on uneven captions. More SFT then teaches it full
references, references of which a random half is terse, or ones without colours where there is an
animal. The table has the share of a held-out scene's details that each model mentions.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

from posh_reward.audit.reference_audit import audit_texts
from posh_reward.datasets.load_dataset import load_images
from posh_reward.datasets.scenes import COLORS, HANDHELD, SIZES, Scene, caption, generate_scenes
from posh_reward.tables.statistics import bootstrap_mean
from posh_reward.tables.tables import read_journal
from posh_reward.training.generation import GenerationSettings
from posh_reward.training.generation import generate as describe
from recipes.sft import main as sft

TRAIN, HELD_OUT, AUDITED = 1000, 96, 200
DATA = f"scenes:train={TRAIN}:heldout={HELD_OUT}:plain=1"
COLOUR = re.compile(rf"\b({'|'.join(COLORS)}) ")
ANIMALS = ("dog", "bird")
DETAILS = {"colours": COLORS, "held objects": HANDHELD, "sizes": SIZES}


def has_animal(scene: Scene) -> bool:
    """Test for a dog or birds in the scene."""
    return any(each is not None and each.noun in ANIMALS for each in scene.slots)


def terse(scene: Scene) -> str:
    """Caption without colours, sizes, counts and held objects."""
    bare = (each and replace(each, held=None, held_color=None, size=None, count=1)
            for each in scene.slots)  # fmt: skip
    return COLOUR.sub("", caption(replace(scene, slots=tuple(bare))))


def half_terse(scene: Scene) -> str:
    """A terse reference for a random half of the scenes."""
    return terse(scene) if Random(f"{scene.uid}/terse").random() < 0.5 else caption(scene)


def colourless_animals(scene: Scene) -> str:
    """A full reference, without colours if the scene has an animal."""
    return COLOUR.sub("", caption(scene)) if has_animal(scene) else caption(scene)


REFERENCES: dict[str, Callable[[Scene], str]] = {
    "full": caption,
    "half terse": half_terse,
    "no colours with animals": colourless_animals,
}


def train(model: Path, output: Path, references: Iterable[str], seed: int, steps: int) -> None:
    """Train by SFT in one process, unless it was."""
    if (output / "trainer_state.json").exists():
        return
    data = load_images(DATA, "train").remove_columns("reference")
    data.add_column("reference", [*references]).save_to_disk(output.with_suffix(".data"))
    sft([
        "--config", "configs/smoke/sft.yaml", "--model_name_or_path", str(model),
        "--output_dir", str(output), "--dataset_name", str(output.with_suffix(".data")),
        "--per_device_train_batch_size", "16", "--eval_strategy", "no", "--watch_grounding",
        "False", "--seed", str(seed), "--max_steps", str(steps), "--warmup_steps", "5",
    ])  # fmt: skip


def mentioned(text: str, scene: Scene, words: tuple[str, ...]) -> float | None:
    """Share of a scene's words of one kind that a description has; None if it has none."""
    texts = (re.findall(r"\w+", own) for own in (text, caption(scene)))
    said, true = (Counter(word for word in own if word in words) for own in texts)
    return (said & true).total() / true.total() if true else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args()
    scenes = [*generate_scenes("train", TRAIN, plain=True)]
    shown = {each.uid: each for each in generate_scenes("test", HELD_OUT, plain=True)}
    models = {"before": flags.model}
    for seed in flags.seeds:
        for name, refer in REFERENCES.items():
            models[f"{name}, {seed}"] = folder = flags.output / f"{name} {seed}".replace(" ", "_")
            train(flags.model, folder, map(refer, scenes), seed, flags.steps)
    said = flags.output / "said.jsonl"
    paths = {name: str(path) for name, path in models.items()}
    describe(GenerationSettings(paths, said, DATA, batch=64, max_new_tokens=64))
    print("| references, seed | scenes |", " | ".join(DETAILS), "|")
    print("| --- " * (2 + len(DETAILS)) + "|")
    for name in models:
        rows = [row for row in read_journal(said) if row["model"] == name]
        for animal, label in ((True, "with an animal"), (False, "without")):
            own = [(row["generation"], shown[row["id"]]) for row in rows]
            own = [(text, scene) for text, scene in own if has_animal(scene) is animal]
            shares = [[mentioned(*pair, words) for pair in own] for words in DETAILS.values()]
            cells = [str(bootstrap_mean([x for x in some if x is not None])) for some in shares]
            print(f"| {name} | {label} |", " | ".join(cells), "|")
    for name, refer in REFERENCES.items():
        lines = audit_texts([[refer(scene)] for scene in scenes[:AUDITED]]).lines()
        print(f"\n{name}:", *lines, sep="\n- ")


if __name__ == "__main__":
    main()
