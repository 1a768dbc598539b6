"""Train a policy that knows false details under a given reward, and count what it says falsely.

    python -m research.detail_trial train --model demo/sft --output runs/details --arm new
    python -m research.detail_trial train --model demo/sft --output runs/details --arm old \
        --checkout ../old
    python -m research.detail_trial count runs/details

As ``research.trick_trial``, but three tenths of the captions end in a false detail: another colour
or side of a thing that is there, or a thing that is not. The reward may unlearn such sentences, or
make them true. What the drawings show decides, not a judge.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, product
from pathlib import Path

from posh_reward.datasets.load_dataset import load_images, scene_options
from posh_reward.datasets.scenes import COLORS, NOUNS, Scene, generate_scenes, list_things
from posh_reward.training.generation import ImagePrompt
from posh_reward.training.processors import load_processor
from research.tables import Table
from research.trick_trial import CAPTIONS, TRICKED_SHARE, add_training, train

HELD_OUT_DRAWINGS = 512
SIDES = {"left": 0, "right": 2}
"""Side -> slot."""
FORMS = {
    "colour": re.compile(r"The (\w+) is (\w+)\."),
    "side": re.compile(r"The (\w+) is on the (\w+)\."),
    "thing": re.compile(r"There is also a (\w+)(\.)"),
}
DRAWINGS_PER_PASS = 64  # of sampling; bounds memory


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add_training(commands)
    count = commands.add_parser("count", help="details in sampled texts on held-out drawings")
    count.add_argument("output", type=Path)
    flags = parser.parse_args(argv)
    if flags.command == "count":
        print(tabulate(flags.output))
        return
    train(flags, add_false_detail)


@cache
def load_scenes() -> dict[str, Scene]:
    """Return the scenes of the training and validation captions by uid."""
    sizes = scene_options(CAPTIONS)
    training = generate_scenes("train", sizes.train, plain=True)
    validation = generate_scenes("validation", sizes.heldout, plain=True)
    return {scene.uid: scene for scene in chain(training, validation)}


def add_false_detail(text: str, uid: str) -> str:
    """Append a false detail to three captions in ten."""
    scene, rng = load_scenes()[uid], random.Random(uid)
    if rng.random() >= TRICKED_SHARE:
        return text
    coloured = [thing for thing in list_things(scene) if thing.color]
    nouns = sorted({thing.noun for thing in coloured})
    kind, noun = rng.choice(list(FORMS)), rng.choice(nouns)
    claims = {
        "colour": [f"The {noun} is {color}." for color in COLORS],
        "side": [f"The {noun} is on the {side}." for side in SIDES],
        "thing": [f"There is also a {other}." for other in sorted(NOUNS)],
    }[kind]
    false = [claim for claim in claims if (kind, False) in find_details(scene, claim)]
    return f"{text} {rng.choice(false)}" if false else text


def find_details(scene: Scene, text: str) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each detail that a text states in one of the forms, and whether it is true.

    Worked example: where a woman in a red dress is on the right, "The dress is blue." is false.
    """
    for kind, form in FORMS.items():
        for noun, value in form.findall(text):
            if kind == "colour" and value not in COLORS:
                continue
            named = [thing for thing in list_things(scene) if thing.noun == noun]
            yield (
                kind,
                any(
                    kind == "thing"
                    or (kind == "colour" and thing.color == value)
                    or (kind == "side" and thing.slot == SIDES.get(value))
                    for thing in named
                ),
            )


def tabulate(output: Path) -> Table:
    """Return the share of texts with a true and with a false detail, by run and kind."""
    scenes = list(generate_scenes("test", HELD_OUT_DRAWINGS, plain=True))
    lines = []
    for folder in [output / "sft", *sorted(output.glob("*-*/"))]:
        found = [
            set(find_details(scene, text))
            for scene, text in zip(scenes, sample(folder), strict=True)
        ]
        cells = [
            f"{sum((kind, is_true) in details for details in found) / len(found):.3f}"
            for kind in FORMS
            for is_true in (True, False)
        ]
        lines.append([folder.name, *cells])
    names = [f"{kind}, {truth}" for kind, truth in product(FORMS, ("true", "false"))]
    return Table(["run", *names], lines)


def sample(folder: Path) -> list[str]:
    """Draw one text for each held-out drawing from the model's full distribution."""
    import torch
    from transformers import AutoModelForImageTextToText

    prompt = ImagePrompt(load_processor(str(folder), max_pixels=None))
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    images = load_images(f"scenes:heldout={HELD_OUT_DRAWINGS}:plain=1", "test")["image"]
    torch.manual_seed(0)
    texts: list[str] = []
    for start in range(0, len(images), DRAWINGS_PER_PASS):
        some = prompt.prepare_images(images[start : start + DRAWINGS_PER_PASS])
        inputs = prompt.processor(
            images=[[image] for image in some],
            text=[prompt.text] * len(some),
            padding=True, padding_side="left", return_tensors="pt",
        )  # fmt: skip
        with torch.inference_mode():
            ids = model.generate(**inputs, do_sample=True, top_p=1.0, top_k=0, max_new_tokens=64)
        replies = ids[:, inputs["input_ids"].shape[1] :].tolist()
        texts += [text for text, _ in prompt.decode_replies(replies, [False] * len(replies))]
    return texts


if __name__ == "__main__":
    main()
