"""Loads pictures with references under one set of columns: ``uuid``, ``image``, ``reference``.

Three kinds of name: ``scenes`` is drawn on the spot, a path is read from the disk, anything else
is looked for on the Hugging Face hub, ``amitha/docent`` above all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError, InputError

if TYPE_CHECKING:
    from datasets import Dataset

PROMPT = (
    "Generate a detailed description of this painting, avoiding interpretation and focusing on "
    "only its visual elements."
)
"""What the model is asked (paper, A.3.5)."""

COLUMNS = ("uuid", "image", "reference")

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class SceneOptions:
    """What ``scenes:train=4000:heldout=512:seed=1:uneven=1:scale=2`` says."""

    train: int = 2000
    """Pictures in the training split."""
    heldout: int = 256
    """Pictures in the validation split, and in the test split."""
    seed: int = 0
    plain: int = 0
    """1: no hats and no poses, for tiny models."""
    uneven: int = 0
    """1: references leave details out at random."""
    scale: int = 1
    """Times 168 x 56 pixels."""


def prompt() -> Messages:
    """The paper's prompt as a conversation; trainers put the picture before the text."""
    return [{"role": "user", "content": PROMPT}]


def answer(reference: str) -> Messages:
    """A description as the assistant's turn."""
    return [{"role": "assistant", "content": reference}]


def with_other_pictures(dataset: Dataset) -> Dataset:
    """The same rows, each with the next row's picture: the control that a blind model passes."""
    from datasets import concatenate_datasets

    rows = len(dataset)
    others = dataset.select([(row + 1) % rows for row in range(rows)]).select_columns(["image"])
    return concatenate_datasets([dataset.remove_columns(["image"]), others], axis=1)


def load_pictures(
    name: str = "scenes", split: str = "train", reference_column: str = "reference"
) -> Dataset:
    """Loads one split.

    Args:
        name: ``scenes`` with options (``SceneOptions``), a local directory (saved by
            ``save_to_disk``, or of parquet files, or an imagefolder with metadata), a parquet
            file, or a dataset on the hub.
        split: train, validation or test.
        reference_column: the dataset's column of references; it is called reference from here on.

    Returns:
        Columns uuid (text), image (a PIL picture) and reference (text); a missing uuid is made
        from split and row.

    Raises:
        ConfigError: The dataset cannot be had, or a column is missing.
        InputError: The split or an option of ``scenes`` is unknown.
    """
    if name == "scenes" or name.startswith("scenes:"):
        dataset = _drawn(scene_options(name), split)
    else:
        dataset = _local(Path(name), split) if Path(name).exists() else _hub(name, split)
    return _with_columns(_called_reference(dataset, reference_column, name), name, split)


def scene_options(name: str) -> SceneOptions:
    """Reads the options after ``scenes``.

    Raises:
        InputError: One is unknown or no number.
    """
    known = [field.name for field in fields(SceneOptions)]
    options: dict[str, int] = {}
    for part in name.split(":")[1:]:
        key, _, value = part.partition("=")
        if key not in known or not value.isdecimal():
            raise InputError(
                f"{name!r}: {part!r} is no option; write scenes:option=number, "
                f"with the options {', '.join(known)}"
            )
        options[key] = int(value)
    return SceneOptions(**options)


def _drawn(options: SceneOptions, split: str) -> Dataset:
    from datasets import Dataset, Features, Image, Value

    from posh_reward.datasets.scenes import scene as scenes

    if split not in scenes.SPLITS:
        raise InputError(f"no split {split!r}; use one of {', '.join(scenes.SPLITS)}")
    count = options.train if split == "train" else options.heldout
    rows = scenes.rows(
        split,
        count,
        seed=options.seed,
        plain=bool(options.plain),
        uneven=bool(options.uneven),
        scale=options.scale,
    )
    columns: dict[str, list[object]] = {"uuid": [], "image": [], "reference": []}
    for row in rows:
        columns["uuid"].append(row.uuid)
        columns["image"].append({"bytes": row.image, "path": None})
        columns["reference"].append(row.reference)
    features = Features({"uuid": Value("string"), "image": Image(), "reference": Value("string")})
    return Dataset.from_dict(columns, features=features)


def _local(path: Path, split: str) -> Dataset:
    from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

    try:
        if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
            saved = load_from_disk(str(path))
            return _pick(saved, path, split) if isinstance(saved, DatasetDict) else saved
        if path.is_file():
            return load_dataset("parquet", data_files={split: str(path)}, split=split)
        loaded = load_dataset(str(path), split=split)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read {path}, split {split!r}: {error}; give a directory of save_to_disk, "
            "parquet files, or an imagefolder whose metadata.jsonl has 'reference'"
        ) from error
    assert isinstance(loaded, Dataset)
    return loaded


def _pick(saved: Mapping[str, Dataset], path: Path, split: str) -> Dataset:
    if split not in saved:
        raise ConfigError(f"{path} has no split {split!r}; it has {', '.join(saved)}")
    return saved[split]


def _hub(name: str, split: str) -> Dataset:
    from datasets import load_dataset

    try:
        return load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot load {name!r}, split {split!r}: {type(error).__name__}: {error}; check the "
            "name, the network and `hf auth login`, or give the path of a local copy "
            "(save_to_disk), or use 'scenes'"
        ) from error


def _called_reference(dataset: Dataset, column: str, name: str) -> Dataset:
    """The dataset with ``column`` as its column reference."""
    if column == "reference":
        return dataset
    if column not in dataset.column_names:
        raise ConfigError(
            f"{name!r} has no column {column!r} (it has {', '.join(dataset.column_names)}): name "
            "its column of references by reference_column"
        )
    others = [other for other in dataset.column_names if other != "reference"]
    return dataset.select_columns(others).rename_column(column, "reference")


def _with_columns(dataset: Dataset, name: str, split: str) -> Dataset:
    """The three columns, the picture decoded to PIL when read."""
    from datasets import Image

    for column in COLUMNS[1:]:
        if column not in dataset.column_names:
            raise ConfigError(
                f"{name!r} has no column {column!r} (it has {', '.join(dataset.column_names)}): "
                f"rename one, e.g. dataset.rename_column(..., {column!r}); for references a "
                "recipe's reference_column does it"
            )
    if "uuid" not in dataset.column_names:
        uuids = [f"{split}-{row:05d}" for row in range(len(dataset))]
        dataset = dataset.add_column("uuid", uuids)
    dataset = dataset.select_columns(list(COLUMNS))
    if not isinstance(dataset.features["image"], Image):
        dataset = dataset.cast_column("image", Image())
    return dataset
