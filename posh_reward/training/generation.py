"""Greedy descriptions of a split's images by any number of models, to be scored later.

The rows are what ``posh-reward score`` reads. Models are loaded one after the other.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import ConfigError, InputError, on_one_line, safe
from posh_reward.study.rows.dataset_images import OTHER_IMAGES
from posh_reward.study.rows.journal import Journal
from posh_reward.training.describers import BATCH, Describer, Engine, Greedy, load_describer

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Describing:
    """What to describe, by which models, and where the descriptions go."""

    models: Mapping[str, str]
    """What the rows call each model -> a directory, or a name on the hub."""
    output: Path
    dataset_name: str = "scenes"
    split: str = "test"
    reference_column: str = "reference"
    """The dataset's column of references."""
    engine: Engine = "transformers"
    shuffle_images: bool = False
    """Show the next row's image; the rows' model is marked."""
    limit: int | None = None
    """Describe only so many rows."""
    shard: int = 0
    """Describe only this part of the rows, counted from 0 ..."""
    shards: int = 1
    """... of so many. Parts are of neighbouring rows, and their sizes differ by one at most."""
    batch_size: int | None = None
    """Descriptions that are written at a time; None: what suits the engine."""
    max_new_tokens: int = 512
    max_pixels: int | None = None
    """Larger images are shrunk."""
    repetition_penalty: float = 1.0

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

    def label(self, name: str) -> str:
        """What the rows call a model: its name, marked if the images are shuffled."""
        return name + OTHER_IMAGES if self.shuffle_images else name


def named_models(given: Sequence[str]) -> dict[str, str]:
    """Names of models -> directories, or names on the hub.

    Args:
        given: ``NAME=MODEL``, or a model alone, which is called after its folder: ``dapo``, and
            ``dapo/checkpoint-100`` for a checkpoint.

    Raises:
        InputError: a name is empty, or two models would have the same.
    """
    named: dict[str, str] = {}
    for text in given:
        name, separator, model = text.partition("=")
        if not separator or Path(text).exists():
            name, model = folder_name(text), text
        if not name or not model:
            raise InputError(f"{text!r} is not a model: write NAME=MODEL, or the model alone")
        if name in named:
            raise InputError(
                f"{named[name]!r} and {model!r} are both called {name!r}: give one of them another "
                f"name, such as other={model}"
            )
        named[name] = model
    return named


def folder_name(model: str) -> str:
    """The last folder of a model's path; for a checkpoint its run's folder, too."""
    path = Path(os.path.abspath(model))
    if re.fullmatch(r"checkpoint-\d+", path.name):
        return f"{path.parent.name}/{path.name}"
    return path.name


def generate(how: Describing) -> dict[str, int]:
    """Describes the images that the output has no description of yet, and appends to it.

    A model that cannot be loaded is passed over; the others are done first.

    Returns:
        How many descriptions were written, by what the rows call the model.

    Raises:
        ConfigError: the dataset cannot be loaded, or at the end: a model could not be.
        InputError: the output holds something else.
        MissingDependencyError: the engine is not installed.
    """
    dataset = load_images(how.dataset_name, how.split, how.reference_column)
    rows = min(len(dataset), how.limit if how.limit is not None else len(dataset))
    uuids = dataset["uuid"][:rows]
    written: dict[str, int] = {}
    failed: list[str] = []
    with closing(Journal(how.output)) as journal:
        done = {(row["model"], row["id"]) for row in journal.rows()}
        for name, model in how.models.items():
            label = how.label(name)
            todo = [row for row in how.part(rows) if (label, uuids[row]) not in done]
            try:
                _describe_all(how, dataset, todo, model, label, journal)
            except ConfigError as error:
                logger.warning("%s", safe(str(error)))
                failed.append(name)
            else:
                written[label] = len(todo)
    if failed:
        raise ConfigError(
            f"{len(failed)} of {len(how.models)} models could not be loaded (see above): "
            f"{', '.join(failed)}; the others are done, and the same command tries these again"
        )
    return written


def _describe_all(
    how: Describing, dataset: Dataset, todo: list[int], model: str, label: str, journal: Journal
) -> None:
    """Appends one model's descriptions of the rows ``todo``, batch by batch."""
    from tqdm import tqdm

    if not todo:
        return
    greedy = Greedy(how.max_new_tokens, how.repetition_penalty)
    size = how.batch_size or BATCH[how.engine]
    with (
        closing(load_describer(how.engine, model, greedy, how.max_pixels)) as describer,
        tqdm(total=len(todo), desc=on_one_line(label), unit="text") as bar,
    ):
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            journal.append(_described(how, dataset, batch, label, describer))
            bar.update(len(batch))


def _described(
    how: Describing, dataset: Dataset, rows: list[int], label: str, describer: Describer
) -> Iterator[dict[str, Any]]:
    shown = [(row + how.shuffle_images) % len(dataset) for row in rows]
    texts = describer.describe(dataset[shown]["image"])
    items = dataset.select_columns(["uuid", "reference"])[rows]
    for image, uuid, reference, text in zip(
        shown, items["uuid"], items["reference"], texts, strict=True
    ):
        yield {
            "id": uuid,
            "model": label,
            "image": image,
            "generation": text,
            "reference": reference,
        }
