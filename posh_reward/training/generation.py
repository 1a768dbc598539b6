"""Describe a split's images greedily with any number of models, one after the other.

The rows are what ``posh-reward score`` reads.
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
from posh_reward.study.rows.engine import Journal
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
    """The images to describe, the models, and the output file."""

    models: Mapping[str, str]
    """Name in the rows -> directory, or name on the hub."""
    output: Path
    dataset_name: str = "scenes"
    split: str = "test"
    reference_column: str = "reference"
    """The dataset's column of references."""
    engine: Engine = "transformers"
    shuffle_images: bool = False
    """Show the next row's image instead of the row's own, and mark the model's name."""
    limit: int | None = None
    """Describe only the first so many rows."""
    shard: int = 0
    """Describe only this part of the rows, counted from 0 ..."""
    shards: int = 1
    """... of this many parts of neighbouring rows, of equal size but for one row."""
    batch_size: int | None = None
    """Images per call of the engine; None: the engine's default."""
    max_new_tokens: int = 512
    max_pixels: int | None = None
    """Larger images are shrunk; None: to the smallest cap among the models."""
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        """Raise InputError for a number out of range."""
        for name in ("shards", "batch_size", "limit", "max_new_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}: use 1 or more")
        if not 0 <= self.shard < self.shards:
            raise InputError(
                f"shard is {self.shard} of {self.shards} shards: use 0 to {self.shards - 1}"
            )

    def part(self, rows: int) -> range:
        """Return this shard's part of so many rows."""
        return range(rows * self.shard // self.shards, rows * (self.shard + 1) // self.shards)

    def load(self) -> tuple[Dataset, range]:
        """Load the whole split; return it with this shard's rows."""
        dataset = load_images(self.dataset_name, self.split, self.reference_column)
        rows = len(dataset) if self.limit is None else min(len(dataset), self.limit)
        return dataset, self.part(rows)

    def label(self, name: str) -> str:
        """Return a model's name in the rows, marked if the images are shuffled."""
        return name + OTHER_IMAGES if self.shuffle_images else name


def models_by_name(models: Sequence[str]) -> dict[str, str]:
    """Map names to models, directories or names on the hub.

    Args:
        models: ``NAME=MODEL``, or a model alone, which is named after its folder: ``dapo``, or
            ``dapo/checkpoint-100`` for a checkpoint.

    Raises:
        InputError: a name is empty, or two models share one.
    """
    by_name: dict[str, str] = {}
    for text in models:
        name, separator, model = text.partition("=")
        if not separator or Path(text).exists():
            path, model = Path(os.path.abspath(text)), text
            is_checkpoint = re.fullmatch(r"checkpoint-\d+", path.name)
            name = f"{path.parent.name}/{path.name}" if is_checkpoint else path.name
        if not name or not model:
            raise InputError(f"{text!r} is not a model: write NAME=MODEL, or the model alone")
        if name in by_name:
            raise InputError(
                f"{by_name[name]!r} and {model!r} are both called {name!r}: name one "
                f"of them differently, such as other={model}"
            )
        by_name[name] = model
    return by_name


def generate(settings: GenerationSettings) -> dict[str, int]:
    """Append to the output a description of each image that it does not describe yet.

    A model that cannot be loaded is skipped, and reported after the others are done.

    Returns:
        The number of new descriptions, by the model's name in the rows.

    Raises:
        ConfigError: the dataset, or a model, cannot be loaded.
        InputError: the output has other content.
        MissingDependencyError: the engine is not installed.
    """
    dataset, rows = settings.load()
    uuids = dataset["uuid"][: rows.stop]
    if settings.max_pixels is None and len(settings.models) > 1:
        settings = replace(settings, max_pixels=_common_cap(settings.models))
    counts: dict[str, int] = {}
    failed: list[str] = []
    with closing(Journal(settings.output)) as journal:
        earlier = list(journal.rows())
        _warn_of_other_caps(earlier, settings.max_pixels)
        done = {(row["model"], row["id"]) for row in earlier}
        for name, model in settings.models.items():
            label = settings.label(name)
            todo = [row for row in rows if (label, uuids[row]) not in done]
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
    """List what would be described, without loading weights; status 3 if something is missing.

    Raises:
        ConfigError: the dataset cannot be loaded.
    """
    _, rows = settings.load()
    lines = [f"images: {len(rows)} of {settings.dataset_name}, {settings.split}"]
    folders: dict[str, str] = {}
    missing = []
    for name, model in settings.models.items():
        lines.append(f"model: {name}, {model}")
        try:
            folders[name] = str(_local_model(model))
        except ConfigError as error:
            missing.append(str(error))
    # Only of local models: another one's processor would have to be downloaded.
    cap = settings.max_pixels or _common_cap(folders)
    lines.append(f"images of at most {cap:,} pixels" if cap else "images as the models take them")
    if not settings.max_pixels and len(folders) < len(settings.models):
        lines[-1] += ", going by the models that are here"
    if settings.engine == "vllm" and find_spec("vllm") is None:
        missing.append(NO_VLLM)
    lines.append(f"output: {settings.output}")
    return [*lines, *(f"not here: {line}" for line in missing)], 3 if missing else 0


def _local_model(model: str) -> Path:
    """Return a model's folder, or raise ConfigError if it is not on this machine."""
    path = Path(model)
    if path.exists():
        if not any((path / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise ConfigError(f"{model} is not a model, it has no config.json: name another folder")
        return path
    check_name_of_hub(model)
    folder = local_folder(Asset("model", "model", model))
    if folder is None:
        raise ConfigError(f"{model}: hf download {model}, or run it where the hub can be reached")
    return folder


def _common_cap(models: Mapping[str, str]) -> int | None:
    """Return the smallest pixel cap of the models' processors; None if none is known.

    A model from the hub has a larger cap than one that was trained from it with ``max_pixels``: its
    images would be larger, and the comparison unfair.
    """
    caps: dict[str, int] = {}
    for name, model in models.items():
        with suppress(Exception):  # a model that cannot be loaded is reported when its turn comes
            sizes = sizes_of(load_processor(model))
            if sizes is not None:
                caps[name] = sizes.max_pixels
    if len(set(caps.values())) > 1:
        listed = ", ".join(f"{name} {cap:,}" for name, cap in caps.items())
        logger.warning(
            "the models cap images at different numbers of pixels (%s): all use %s now; "
            "--max_pixels sets another", safe(listed), f"{min(caps.values()):,}",
        )  # fmt: skip
    return min(caps.values(), default=None)


def _warn_of_other_caps(rows: Sequence[Mapping[str, Any]], max_pixels: int | None) -> None:
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
