"""Greedy descriptions of a split's pictures, as JSON lines for recipes/score_heldout.py.

    python recipes/generate.py --model runs/dapo --dataset_name scenes --output runs/held_out.jsonl

Rows have uuid, model, generation, reference and image, the row whose picture was shown. With
``--shuffle_images`` that is the next row: what a model still scores then, it scores blind.
Killed, it resumes after the last whole row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data import docent
from posh_reward.study.heldout import append_rows, read_rows
from recipes.processors import load_processor

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, ProcessorMixin


@dataclass(frozen=True)
class Flags:
    """What to describe, with what, and where to."""

    model: str
    """A directory, or a name on the hub."""
    output: Path
    dataset_name: str = "scenes"
    split: str = "test"
    name: str | None = None
    """What the rows call the model; by default the last part of ``model``."""
    shuffle_images: bool = False
    limit: int | None = None
    """Describe only so many rows."""
    batch_size: int = 32
    max_new_tokens: int = 512
    max_pixels: int | None = None

    @property
    def label(self) -> str:
        """The rows' model name, marked if the pictures are shuffled."""
        name = self.name or Path(self.model).name
        return f"{name} (other pictures)" if self.shuffle_images else name


def generate(flags: Flags) -> int:
    """Describes what the output does not have yet, and appends it.

    Returns:
        How many descriptions were written.

    Raises:
        ConfigError: The dataset cannot be had.
        InputError: The output holds something other than such rows.
    """
    from tqdm import tqdm

    dataset = docent.load(flags.dataset_name, flags.split)
    rows = min(len(dataset), flags.limit if flags.limit is not None else len(dataset))
    have = _done(flags)
    uuids = dataset["uuid"][:rows]
    todo = [row for row in range(rows) if uuids[row] not in have]
    if not todo:
        return 0
    model, processor = load(flags.model, flags.max_pixels)
    with tqdm(total=len(todo), desc=flags.label, unit="text") as bar:
        for start in range(0, len(todo), flags.batch_size):
            batch = todo[start : start + flags.batch_size]
            append_rows(flags.output, _describe(flags, dataset, batch, model, processor))
            bar.update(len(batch))
    return len(todo)


def _done(flags: Flags) -> set[str]:
    """The uuids that this model has described already."""
    if not flags.output.exists():
        return set()
    return {row["uuid"] for row in read_rows(flags.output) if row["model"] == flags.label}


def _describe(
    flags: Flags,
    dataset: Dataset,
    rows: list[int],
    model: PreTrainedModel,
    processor: ProcessorMixin,
) -> Iterator[dict[str, Any]]:
    shown = [(row + flags.shuffle_images) % len(dataset) for row in rows]
    texts = describe(model, processor, dataset[shown]["image"], flags.max_new_tokens)
    items = dataset.select_columns(["uuid", "reference"])[rows]
    for image, uuid, reference, text in zip(
        shown, items["uuid"], items["reference"], texts, strict=True
    ):
        yield {
            "uuid": uuid,
            "model": flags.label,
            "generation": text,
            "reference": reference,
            "image": image,
        }


def load(name: str, max_pixels: int | None = None) -> tuple[PreTrainedModel, ProcessorMixin]:
    """The model, on a GPU in bfloat16 if there is one, and its processor."""
    import torch
    from transformers import AutoModelForImageTextToText

    gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if gpu else torch.float32
    model = AutoModelForImageTextToText.from_pretrained(name, dtype=dtype)
    model = model.to("cuda" if gpu else "cpu").eval()
    return model, load_processor(name, max_pixels=max_pixels)


def describe(
    model: PreTrainedModel, processor: ProcessorMixin, images: list[Any], max_new_tokens: int = 512
) -> list[str]:
    """Greedy descriptions of PIL pictures, one batch."""
    import torch

    turn = [{"type": "image"}, {"type": "text", "text": docent.PROMPT}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True
    )
    inputs = processor(
        images=[[image] for image in images],
        text=[prompt] * len(images),
        padding=True,
        padding_side="left",
        return_tensors="pt",
    ).to(model.device, model.dtype)
    with torch.inference_mode():
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=max_new_tokens)
    completions = ids[:, inputs["input_ids"].shape[1] :]
    texts: list[str] = processor.batch_decode(completions, skip_special_tokens=True)
    return [text.strip() for text in texts]


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Greedy descriptions of a split's pictures.")
    parser.add_argument("--model", required=True, help="a directory, or a name on the hub")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; appended to")
    parser.add_argument("--dataset_name", default="scenes", help="see data/README.md")
    parser.add_argument("--split", default="test")
    parser.add_argument("--name", help="what the rows call the model")
    parser.add_argument("--shuffle_images", action="store_true", help="show the next row's picture")
    parser.add_argument("--limit", type=int, help="describe only so many")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_new_tokens", type=int, default=512)
    parser.add_argument("--max_pixels", type=int, help="shrink larger pictures")
    flags = Flags(**vars(parser.parse_args(argv)))
    print(f"{generate(flags)} new descriptions by {flags.label!r} in {flags.output}")


if __name__ == "__main__":
    main()
