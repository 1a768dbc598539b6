"""Greedy descriptions of a split's pictures, as rows for ``posh-reward score``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.load import PROMPT, load_pictures
from posh_reward.errors import InputError
from posh_reward.study.rows.journal import Journal
from posh_reward.training.processors import load_processor

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, ProcessorMixin


@dataclass(frozen=True)
class Describing:
    """What to describe, by which model, and where the descriptions go."""

    model: str
    """A directory, or a name on the hub."""
    output: Path
    dataset_name: str = "scenes"
    split: str = "test"
    reference_column: str = "reference"
    """The dataset's column of references."""
    name: str | None = None
    """What the rows call the model; by default the last part of ``model``."""
    shuffle_images: bool = False
    limit: int | None = None
    """Describe only so many rows."""
    shard: int = 0
    """Describe only this part of the rows, counted from 0 ..."""
    shards: int = 1
    """... of so many. Parts are of neighbouring rows, and their sizes differ by one at most."""
    batch_size: int = 32
    max_new_tokens: int = 512
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        """Checks the part.

        Raises:
            InputError: there is no such part.
        """
        if not 0 <= self.shard < self.shards:
            raise InputError(
                f"shard is {self.shard} of {self.shards} shards: give 0 to {self.shards - 1}"
                if self.shards > 0
                else f"shards is {self.shards}: give 1 or more"
            )

    def part(self, rows: int) -> range:
        """Which of so many rows are this shard's."""
        return range(rows * self.shard // self.shards, rows * (self.shard + 1) // self.shards)

    @property
    def label(self) -> str:
        """The rows' model name, marked if the pictures are shuffled."""
        name = self.name or Path(self.model).name
        return f"{name} (other pictures)" if self.shuffle_images else name


def generate(how: Describing) -> int:
    """Describes the pictures that the output has no description of yet, and appends to it.

    Returns:
        How many descriptions were written.

    Raises:
        ConfigError: the dataset cannot be loaded.
        InputError: the output holds something else.
    """
    from tqdm import tqdm

    dataset = load_pictures(how.dataset_name, how.split, how.reference_column)
    rows = min(len(dataset), how.limit if how.limit is not None else len(dataset))
    uuids = dataset["uuid"][:rows]
    with closing(Journal(how.output)) as journal:
        have = {row["id"] for row in journal.rows() if row["model"] == how.label}
        todo = [row for row in how.part(rows) if uuids[row] not in have]
        if not todo:
            return 0
        model, processor = load_describer(how.model, how.max_pixels)
        with tqdm(total=len(todo), desc=how.label, unit="text") as bar:
            for start in range(0, len(todo), how.batch_size):
                batch = todo[start : start + how.batch_size]
                journal.append(_describe(how, dataset, batch, model, processor))
                bar.update(len(batch))
    return len(todo)


def _describe(
    how: Describing,
    dataset: Dataset,
    rows: list[int],
    model: PreTrainedModel,
    processor: ProcessorMixin,
) -> Iterator[dict[str, Any]]:
    shown = [(row + how.shuffle_images) % len(dataset) for row in rows]
    texts = describe(model, processor, dataset[shown]["image"], how.max_new_tokens)
    items = dataset.select_columns(["uuid", "reference"])[rows]
    for image, uuid, reference, text in zip(
        shown, items["uuid"], items["reference"], texts, strict=True
    ):
        yield {
            "id": uuid,
            "model": how.label,
            "image": image,
            "generation": text,
            "reference": reference,
        }


def load_describer(
    name: str, max_pixels: int | None = None
) -> tuple[PreTrainedModel, ProcessorMixin]:
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

    turn = [{"type": "image"}, {"type": "text", "text": PROMPT}]
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
