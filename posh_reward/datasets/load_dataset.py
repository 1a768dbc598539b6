"""Load images with references, as columns ``uuid``, ``image`` and ``reference``.

A dataset's name is ``scenes`` (generated), a local path, or a dataset on the Hugging Face hub, such
as ``amitha/docent``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from posh_reward.datasets.image_files import decoding_error, open_image
from posh_reward.datasets.sources import existing_split, open_split
from posh_reward.errors import ConfigError, InputError, MissingDependencyError, install
from posh_reward.settings import brief, brief_list

if TYPE_CHECKING:
    from datasets import Dataset

    from posh_reward.datasets.scenes import Split

PROMPT = (
    "Generate a detailed description of this painting, avoiding interpretation and focusing on "
    "only its visual elements."
)
"""The instruction to the model (paper, A.3.5)."""

logger = logging.getLogger(__name__)

COLUMNS = ("uuid", "image", "reference")
REFERENCE_COLUMN = (
    "name its column of references: load_images(..., reference_column=...), or for a recipe "
    "--reference_column"
)
EXAMPLES = 5  # broken images named in an error

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class SceneOptions:
    """Options in a name such as ``scenes:train=4000:heldout=512:seed=1:uneven=1:scale=2``."""

    train: int = 2000
    """Images in the training split."""
    heldout: int = 256
    """Images in the validation split, and in the test split."""
    seed: int = 0
    plain: int = 0
    """1: no hats or poses, for tiny models."""
    uneven: int = 0
    """1: references omit details at random."""
    scale: int = 1
    """Factor on both sides of an image; at 1 it has 168 x 56 pixels."""


def is_drawn(name: object) -> bool:
    """Return True for ``scenes``, with or without options."""
    return isinstance(name, str) and name.partition(":")[0] == "scenes"


def prompt(text: str = PROMPT) -> Messages:
    """Return an instruction, by default the paper's, as a conversation.

    Trainers put the image before the text.

    Raises:
        InputError: the text is empty.
    """
    if not text.strip():
        raise InputError("the prompt is empty: write an instruction, such as 'Describe the image.'")
    return [{"role": "user", "content": text}]


def answer(reference: str) -> Messages:
    """Return a description as the assistant's turn.

    Raises:
        InputError: the reference is a list; supervised fine-tuning needs one text.
    """
    if not isinstance(reference, str):
        raise InputError(f"a reference is {brief(reference)}: SFT learns one text for each image")
    return [{"role": "assistant", "content": reference}]


def with_other_images(dataset: Dataset) -> Dataset:
    """Give each image the previous row's texts: a control that a blind model can match.

    The texts move because moving the images would write them again.
    """
    others = dataset.select_columns([name for name in dataset.column_names if name != "image"])
    rows = len(dataset)
    moved = others.select([(row - 1) % rows for row in range(rows)])[:]
    result = dataset.select_columns(["image"])
    for name, values in moved.items():
        result = result.add_column(name, values)
    return result


def load_images(
    name: str = "scenes",
    split: str = "train",
    reference_column: str = "reference",
    *,
    skip_broken: bool = False,
) -> Dataset:
    """Load one split.

    Args:
        name: ``scenes`` with options (``SceneOptions``), a local directory (from
            ``save_to_disk``, of parquet files, or an imagefolder with metadata), a file (Parquet;
            CSV or JSON lines with paths of images), or a dataset on the hub.
        split: its name; ``val`` and ``validation`` are the same split.
        reference_column: the column of references, renamed to ``reference``.
        skip_broken: leave out rows of a local dataset whose image is missing or broken.

    Returns:
        Columns uuid (text; by default split and row), image (PIL) and reference (text).

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks the split or a column.
        InputError: an option of ``scenes`` is unknown, an image is missing, or an image of a local
            dataset is broken.
        MissingDependencyError: Hugging Face datasets is not installed.
    """
    dataset = open_images(name, split, reference_column)
    where = f"{name!r}, split {split!r}"
    if not is_drawn(name) and Path(name).exists():
        return without_broken(dataset, where, skip_broken=skip_broken)
    missing = _rows_without_image(dataset)
    if missing:
        raise InputError(
            f"{where} has {missing} of {len(dataset)} rows without an image: name another dataset, "
            "or a copy of this one from `python data/docent.py copy ... --skip_broken`"
        )
    return dataset


def _rows_without_image(dataset: Dataset) -> int:
    import pyarrow.compute as pc

    stored = dataset.data.column("image")
    content, path = (pc.is_null(pc.struct_field(stored, name)) for name in ("bytes", "path"))
    return int(pc.sum(pc.and_(content, path)).as_py() or 0)


def open_images(name: str, split: str, reference_column: str = "reference") -> Dataset:
    """Load one split as ``load_images`` does, without looking at its images."""
    _require_datasets()
    if is_drawn(name):
        return _draw(scene_options(name), split)
    loaded = _rename_reference(open_split(name, split), reference_column, name)
    dataset = _with_columns(loaded, name, split)
    _warn_of_empty_references(dataset, f"{name!r}, split {split!r}")
    return dataset


def check_dataset(name: str, splits: Iterable[str], reference_column: str = "reference") -> None:
    """Check that a dataset has these splits, with the columns of ``load_images``.

    Decodes no images. A dataset on the hub is downloaded first, if it is not here.

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks a split or a column.
    """
    for split in splits:
        if is_drawn(name):
            _drawn_split(split)
        else:
            open_images(name, split, reference_column)


def _require_datasets() -> None:
    if find_spec("datasets") is None:
        raise MissingDependencyError(
            "loading images needs packages: pip install datasets pillow, or, for training, "
            f"{install('train')}"
        )


def _warn_of_empty_references(dataset: Dataset, where: str) -> None:
    # SFT would learn to say nothing from them, and DAPO gets no reward.
    rows = enumerate(dataset["reference"])
    empty = [row for row, text in rows if text is None or not str(text).strip()]
    if empty:
        logger.warning(
            "%s has %d of %d references that are empty, the first for %s: remove these rows",
            where, len(empty), len(dataset), dataset["uuid"][empty[0]],
        )  # fmt: skip


def without_broken(dataset: Dataset, where: str, *, skip_broken: bool) -> Dataset:
    """Select the rows whose image can be decoded.

    Raises:
        InputError: an image is missing or broken, and ``skip_broken`` is False.
    """
    broken = broken_images(dataset)
    if not broken:
        return dataset
    if not skip_broken:
        uuids = dataset["uuid"] if "uuid" in dataset.column_names else range(len(dataset))
        reasons = [(f"{uuids[row]}", why) for row, why in broken.items()]
        raise InputError(
            f"{where} has {len(broken)} of {len(dataset)} images that cannot be read: "
            f"{first_few(reasons)}; repair or remove these rows, or skip them with "
            "load_images(..., skip_broken=True), or for a recipe with "
            "`python data/docent.py copy ... --skip_broken`"
        )
    return dataset.select([row for row in range(len(dataset)) if row not in broken])


def load_rows(name: str, split: str = "test", *, images: bool = False) -> list[dict[str, Any]]:
    """Load all rows of one split of any dataset, such as human judgments.

    Args:
        name: a local path, as for ``load_images``, or a dataset on the hub.
        split: the split's name.
        images: keep images, as mappings with the ``bytes`` and ``path`` of their files.

    Raises:
        ConfigError: the dataset cannot be loaded.
        MissingDependencyError: Hugging Face datasets is not installed.
    """
    _require_datasets()
    from datasets import Image

    dataset = open_split(name, split)
    columns = [key for key, feature in dataset.features.items() if isinstance(feature, Image)]
    if not images:
        return list(dataset.remove_columns(columns))
    for column in columns:
        dataset = dataset.cast_column(column, Image(decode=False))
    return list(dataset)


def broken_images(dataset: Dataset) -> dict[int, str]:
    """Map each row whose image is missing or cannot be decoded to the reason."""
    from datasets import Image

    stored = dataset.select_columns(["image"]).cast_column("image", Image(decode=False))
    reasons = {row: why_broken(item["image"]) for row, item in enumerate(stored)}
    return {row: why for row, why in reasons.items() if why is not None}


def source_of(stored: Mapping[str, Any] | None) -> Any:
    """Return the content or path of a stored image, or nothing."""
    return stored and (stored["bytes"] or stored["path"])


def why_broken(stored: Mapping[str, Any] | None) -> str | None:
    """Return the reason why a stored image cannot be decoded, if it cannot."""
    if not source_of(stored):
        return "there is none"
    try:
        with open_image(source_of(stored)) as image:
            image.draft("RGB", (64, 64))  # reads a JPEG to its end, but decodes it small: fast
            image.load()
    except Exception as error:  # decoders raise many types of error
        return decoding_error(error)
    return None


def first_few(reasons: Sequence[tuple[str, str]]) -> str:
    """List the first few images with reasons, and the number of the others."""
    examples = ", ".join(f"{name} ({why})" for name, why in reasons[:EXAMPLES])
    return examples + (f" and {len(reasons) - EXAMPLES} more" if len(reasons) > EXAMPLES else "")


def scene_options(name: str) -> SceneOptions:
    """Parse the options after ``scenes``.

    Raises:
        InputError: an option is unknown, or its value is not a number.
    """
    names = [field.name for field in fields(SceneOptions)]
    options: dict[str, int] = {}
    for part in name.split(":")[1:]:
        key, _, value = part.partition("=")
        if key not in names or not value.isdecimal():
            raise InputError(
                f"{name!r}: {part!r} is not an option: use scenes:option=number, "
                f"with the options {', '.join(names)}"
            )
        options[key] = int(value)
    return SceneOptions(**options)


def _drawn_split(split: str) -> Split:
    from posh_reward.datasets.scenes import SPLITS

    return cast("Split", existing_split(split, SPLITS, "scenes"))


def _draw(options: SceneOptions, split: str) -> Dataset:
    from datasets import Dataset, Features, Image, Value

    from posh_reward.datasets.scenes import scene_rows

    part = _drawn_split(split)
    count = options.train if part == "train" else options.heldout
    plain, uneven = bool(options.plain), bool(options.uneven)
    rows = list(
        scene_rows(part, count, seed=options.seed, plain=plain, uneven=uneven, scale=options.scale)
    )
    features = Features({"uuid": Value("string"), "image": Image(), "reference": Value("string")})
    columns = {name: [row[name] for row in rows] for name in features}
    return Dataset.from_dict(columns, features=features)


def _rename_reference(dataset: Dataset, column: str, name: str) -> Dataset:
    if column == "reference":
        return dataset
    if column not in dataset.column_names:
        raise ConfigError(
            f"{name!r} has no column {column!r} (it has {brief_list(dataset.column_names)}): "
            f"{REFERENCE_COLUMN}"
        )
    others = [other for other in dataset.column_names if other != "reference"]
    return dataset.select_columns(others).rename_column(column, "reference")


def _with_columns(dataset: Dataset, name: str, split: str) -> Dataset:
    """Select the three columns, with images decoded on access."""
    from datasets import Image

    for column in COLUMNS[1:]:
        if column not in dataset.column_names:
            raise ConfigError(
                f"{name!r} has no column {column!r} (it has {brief_list(dataset.column_names)}): "
                + (REFERENCE_COLUMN if column == "reference" else "rename its column of images")
            )
    check_columns(dataset, name)
    if "uuid" not in dataset.column_names:
        split = "validation" if split == "val" else split
        uuids = [f"{split}-{row:05d}" for row in range(len(dataset))]
        dataset = dataset.add_column("uuid", uuids)
    dataset = dataset.select_columns(list(COLUMNS))
    if not isinstance(dataset.features["image"], Image):
        dataset = dataset.cast_column("image", Image())
    return dataset


def check_columns(
    dataset: Dataset, name: str, reference_column: str = "reference", image_column: str = "image"
) -> None:
    """Refuse columns whose type would fail in every row, before a run starts.

    Args:
        dataset: a dataset with features; missing columns are not checked.
        name: its name, for the message.
        reference_column: texts, or lists of texts.
        image_column: images, or bytes or paths of their files.

    Raises:
        ConfigError: a column has another type.
    """
    from datasets import Features, Image, Value

    contents = [(reference_column, "texts, or lists of texts"), (image_column, "images")]
    for column, content in contents:
        kind = dataset.features.get(column)
        inner = getattr(kind, "feature", kind)  # of a list
        if kind is None or (content == "images" and isinstance(inner, Image | dict | Features)):
            continue
        dtypes = ["string", "large_string"] + (["binary"] if content == "images" else [])
        if not (isinstance(inner, Value) and inner.dtype in dtypes):
            dtype = getattr(inner, "dtype", type(inner).__name__)
            raise ConfigError(
                f"{name!r}: the column {column!r} holds {dtype}, not {content}: use another "
                "column, or convert this one"
            )
