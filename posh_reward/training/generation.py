"""Greedy descriptions of a split's images by any number of models, to be scored later.

The rows are what ``posh-reward score`` reads. Models are loaded one after the other.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.load_dataset import check_name_of_hub, load_images
from posh_reward.errors import ConfigError, InputError, on_one_line, safe
from posh_reward.process.progress import progress_bar
from posh_reward.study.rows.dataset_images import OTHER_IMAGES
from posh_reward.study.rows.journal import Journal
from posh_reward.training.describers import (
    BATCH,
    NO_VLLM,
    Describer,
    Engine,
    Greedy,
    load_describer,
)
from posh_reward.training.fetch import Asset, local_folder
from posh_reward.training.processors import load_processor, sizes_of

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GenerationSettings:
    """The images to describe, the models, and the file for the descriptions."""

    models: Mapping[str, str]
    """Name in the rows -> a directory, or a name on the hub."""
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
    """Descriptions that are written at a time; None: the engine's default."""
    max_new_tokens: int = 512
    max_pixels: int | None = None
    """Larger images are shrunk; None: to the smallest cap of the models that are compared."""
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        """Raise InputError unless there is such a part."""
        if not 0 <= self.shard < self.shards:
            raise InputError(
                f"shard is {self.shard} of {self.shards} shards: give 0 to {self.shards - 1}"
                if self.shards > 0
                else f"shards is {self.shards}: give 1 or more"
            )

    def part(self, rows: int) -> range:
        """Return this shard's part of so many rows."""
        return range(rows * self.shard // self.shards, rows * (self.shard + 1) // self.shards)

    def label(self, name: str) -> str:
        """Return a model's name in the rows, marked if the images are shuffled."""
        return name + OTHER_IMAGES if self.shuffle_images else name


def models_by_name(models: Sequence[str]) -> dict[str, str]:
    """Return names of models -> directories, or names on the hub.

    Args:
        models: ``NAME=MODEL``, or a model alone, which is called after its folder: ``dapo``, and
            ``dapo/checkpoint-100`` for a checkpoint.

    Raises:
        InputError: a name is empty, or two models would have the same.
    """
    by_name: dict[str, str] = {}
    for text in models:
        name, separator, model = text.partition("=")
        if not separator or Path(text).exists():
            name, model = folder_name(text), text
        if not name or not model:
            raise InputError(f"{text!r} is not a model: write NAME=MODEL, or the model alone")
        if name in by_name:
            raise InputError(
                f"{by_name[name]!r} and {model!r} are both called {name!r}: give one "
                f"of them another name, such as other={model}"
            )
        by_name[name] = model
    return by_name


def folder_name(model: str) -> str:
    """Return the last folder of a model's path; for a checkpoint its run's folder, too."""
    path = Path(os.path.abspath(model))
    if re.fullmatch(r"checkpoint-\d+", path.name):
        return f"{path.parent.name}/{path.name}"
    return path.name


def generate(settings: GenerationSettings) -> dict[str, int]:
    """Describe the images that the output has no description of yet, and append to it.

    A model that cannot be loaded is passed over; the others are done first.

    Returns:
        The number of new descriptions, by the model's name in the rows.

    Raises:
        ConfigError: the dataset cannot be loaded, or at the end: a model could not be.
        InputError: the output holds something else.
        MissingDependencyError: the engine is not installed.
    """
    dataset = load_images(settings.dataset_name, settings.split, settings.reference_column)
    rows = min(len(dataset), settings.limit if settings.limit is not None else len(dataset))
    uuids = dataset["uuid"][:rows]
    if settings.max_pixels is None and len(settings.models) > 1:
        settings = replace(settings, max_pixels=common_cap(settings.models))
    counts: dict[str, int] = {}
    failed: list[str] = []
    with closing(Journal(settings.output)) as journal:
        earlier = list(journal.rows())
        warn_of_other_caps(earlier, settings.max_pixels)
        present = {(row["model"], row["id"]) for row in earlier}
        for name, model in settings.models.items():
            label = settings.label(name)
            todo = [row for row in settings.part(rows) if (label, uuids[row]) not in present]
            try:
                _describe_all(settings, dataset, todo, model, label, journal)
            except ConfigError as error:
                logger.warning("%s", safe(str(error)))
                failed.append(name)
            else:
                counts[label] = len(todo)
    if failed:
        raise ConfigError(
            f"{len(failed)} of {len(settings.models)} models could not be loaded (see above): "
            f"{', '.join(failed)}; the others are done, and the same command tries these again"
        )
    return counts


def check_generation(settings: GenerationSettings) -> tuple[list[str], int]:
    """Say what would be described, without loading weights: lines, and 3 if something is not here.

    Raises:
        ConfigError: the dataset cannot be loaded.
    """
    dataset = load_images(settings.dataset_name, settings.split, settings.reference_column)
    rows = min(len(dataset), settings.limit if settings.limit is not None else len(dataset))
    lines = [f"images: {len(settings.part(rows))} of {settings.dataset_name}, {settings.split}"]
    folders: dict[str, str] = {}
    missing = []
    for name, model in settings.models.items():
        lines.append(f"model: {name}, {model}")
        try:
            folders[name] = str(local_model(model))
        except ConfigError as error:
            missing.append(str(error))
    # Of those that are here: another one's processor would be asked of the hub.
    cap = settings.max_pixels or common_cap(folders)
    lines.append(f"images of at most {cap:,} pixels" if cap else "images as the models take them")
    if not settings.max_pixels and len(folders) < len(settings.models):
        lines[-1] += ", as far as they are here"
    if settings.engine == "vllm" and find_spec("vllm") is None:
        missing.append(NO_VLLM)
    lines.append(f"output: {settings.output}")
    return [*lines, *(f"not here: {line}" for line in missing)], 3 if missing else 0


def local_model(model: str) -> Path:
    """Find the folder of a model, its own or in the hub's cache; ask no network.

    Raises:
        ConfigError: it is not here; the message has the remedy.
    """
    path = Path(model)
    if path.exists():
        if not any((path / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise ConfigError(f"{model} has no config.json: it is no model")
        return path
    check_name_of_hub(model)
    folder = local_folder(Asset("model", "model", model))
    if folder is None:
        raise ConfigError(f"{model}: hf download {model}, or run it where the hub can be reached")
    return folder


def common_cap(models: Mapping[str, str]) -> int | None:
    """Return the smallest cap on pixels of the models' processors; None if none is known.

    A model from the hub has a larger cap than one that was trained from it with ``max_pixels``, and
    would be compared on larger images.
    """
    caps: dict[str, int] = {}
    for name, model in models.items():
        with suppress(Exception):  # a model that cannot be loaded is named when its turn comes
            sizes = sizes_of(load_processor(model))
            if sizes is not None:
                caps[name] = sizes.max_pixels
    if len(set(caps.values())) > 1:
        listed = ", ".join(f"{name} {cap:,}" for name, cap in caps.items())
        logger.warning(
            "the models cap images at different numbers of pixels (%s): all get %s now; "
            "--max_pixels names another", safe(listed), f"{min(caps.values()):,}",
        )  # fmt: skip
    return min(caps.values(), default=None)


def warn_of_other_caps(rows: Sequence[Mapping[str, Any]], max_pixels: int | None) -> None:
    """Warn if rows that are there already describe images of another size."""
    caps = {row["max_pixels"] for row in rows if row.get("max_pixels") is not None}
    if caps - {max_pixels}:
        logger.warning(
            "earlier rows describe images of at most %s pixels, and new ones of %s: compare models "
            "on equal images, with one --max_pixels",
            " or ".join(f"{cap:,}" for cap in sorted(caps)), max_pixels,
        )  # fmt: skip


def _describe_all(
    settings: GenerationSettings,
    dataset: Dataset,
    todo: list[int],
    model: str,
    label: str,
    journal: Journal,
) -> None:
    if not todo:
        return
    greedy = Greedy(settings.max_new_tokens, settings.repetition_penalty)
    size = settings.batch_size or BATCH[settings.engine]
    with (
        closing(load_describer(settings.engine, model, greedy, settings.max_pixels)) as describer,
        progress_bar(on_one_line(label), len(todo), "text") as bar,
    ):
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            journal.append(_description_rows(settings, dataset, batch, label, describer))
            bar.update(len(batch))


def _description_rows(
    settings: GenerationSettings,
    dataset: Dataset,
    rows: list[int],
    label: str,
    describer: Describer,
) -> Iterator[dict[str, Any]]:
    images = [(row + settings.shuffle_images) % len(dataset) for row in rows]
    texts = describer.describe(dataset[images]["image"])
    items = dataset.select_columns(["uuid", "reference"])[rows]
    for image, uuid, reference, text in zip(
        images, items["uuid"], items["reference"], texts, strict=True
    ):
        yield {
            "id": uuid,
            "model": label,
            "image": image,
            "generation": text,
            "reference": reference,
            **({} if settings.max_pixels is None else {"max_pixels": settings.max_pixels}),
        }
