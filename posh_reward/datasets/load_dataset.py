"""Load images with references, as columns ``uuid``, ``image`` and ``reference``.

A dataset's name is ``scenes`` (generated), a local path, or a dataset on the Hugging Face hub, such
as ``amitha/docent``.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.image_files import decoding_error, open_image
from posh_reward.errors import ConfigError, InputError, MissingDependencyError, on_one_line
from posh_reward.settings import brief, brief_list, guess

if TYPE_CHECKING:
    from datasets import Dataset

PROMPT = (
    "Generate a detailed description of this painting, avoiding interpretation and focusing on "
    "only its visual elements."
)
"""The instruction to the model (paper, A.3.5)."""

logger = logging.getLogger(__name__)

COLUMNS = ("uuid", "image", "reference")
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


def prompt() -> Messages:
    """Return the paper's prompt as a conversation; trainers put the image before the text."""
    return [{"role": "user", "content": PROMPT}]


def answer(reference: str) -> Messages:
    """Return a description as the assistant's turn.

    Raises:
        InputError: the reference is a list; supervised fine-tuning needs one text.
    """
    if not isinstance(reference, str):
        raise InputError(f"a reference is {brief(reference)}: SFT learns one text for each image")
    return [{"role": "assistant", "content": reference}]


def with_other_images(dataset: Dataset) -> Dataset:
    """Give each row the next row's image: a control that a blind model can match."""
    from datasets import concatenate_datasets

    rows = len(dataset)
    others = dataset.select([(row + 1) % rows for row in range(rows)]).select_columns(["image"])
    return concatenate_datasets([dataset.remove_columns(["image"]), others], axis=1)


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
            ``save_to_disk``, of parquet files, or an imagefolder with metadata), a parquet file,
            or a dataset on the hub.
        split: train, validation or test.
        reference_column: the column of references, renamed to ``reference``.
        skip_broken: leave out rows of a local dataset whose image is missing or broken.

    Returns:
        Columns uuid (text; by default split and row), image (PIL) and reference (text).

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks a column.
        InputError: the split or an option of ``scenes`` is unknown, or an image of a local dataset
            is missing or broken.
        MissingDependencyError: Hugging Face datasets is not installed.
    """
    _require_datasets()
    if is_drawn(name):
        return _draw(scene_options(name), split)
    local = Path(name).exists()
    where = f"{name!r}, split {split!r}"
    loaded = _local(Path(name), split) if local else _hub(name, split)
    dataset = _with_columns(_rename_reference(loaded, reference_column, name), name, split)
    _warn_of_empty_references(dataset, where)
    return without_broken(dataset, where, skip_broken=skip_broken) if local else dataset


def _require_datasets() -> None:
    if find_spec("datasets") is None:
        raise MissingDependencyError(
            "loading images needs packages: pip install datasets pillow, or, for training, "
            "pip install 'posh-reward[train]' (in a clone: pip install -e '.[train]')"
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
        uuids = dataset["uuid"]
        reasons = [(uuids[row], why) for row, why in broken.items()]
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

    dataset = _local(Path(name), split) if Path(name).exists() else _hub(name, split)
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
    reasons = {row: _why_broken(item["image"]) for row, item in enumerate(stored)}
    return {row: why for row, why in reasons.items() if why is not None}


def _why_broken(stored: Mapping[str, Any] | None) -> str | None:
    source = stored and (stored["bytes"] or stored["path"])
    if not source:
        return "there is none"
    try:
        with open_image(source) as image:
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


def _draw(options: SceneOptions, split: str) -> Dataset:
    from datasets import Dataset, Features, Image, Value

    from posh_reward.datasets.scenes import generate_scenes as scenes

    if split not in scenes.SPLITS:
        raise InputError(f"no split {split!r}: use one of {', '.join(scenes.SPLITS)}")
    count = options.train if split == "train" else options.heldout
    plain, uneven = bool(options.plain), bool(options.uneven)
    rows = list(
        scenes.rows(
            split, count, seed=options.seed, plain=plain, uneven=uneven, scale=options.scale
        )
    )
    features = Features({"uuid": Value("string"), "image": Image(), "reference": Value("string")})
    columns = {name: [row[name] for row in rows] for name in features}
    return Dataset.from_dict(columns, features=features)


def _local(path: Path, split: str) -> Dataset:
    from datasets import Dataset, DatasetDict, load_dataset, load_from_disk
    from datasets.exceptions import DatasetsError

    try:
        if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
            saved = load_from_disk(str(path))
            if not isinstance(saved, DatasetDict):
                return saved
            if split not in saved:
                raise ConfigError(f"{path} has no split {split!r}; it has {', '.join(saved)}")
            return saved[split]
        if path.is_file():
            return load_dataset("parquet", data_files={split: str(path)}, split=split)
        loaded = load_dataset(str(path), split=split)
    except (OSError, ValueError, DatasetsError) as error:
        reason = on_one_line(str(error.__cause__ or error))
        remedy = (
            "use a directory from save_to_disk, parquet files, or an imagefolder whose "
            "metadata.jsonl has 'reference'"
        )
        if _is_about_cache(error.__cause__ or error):
            remedy = "set HF_DATASETS_CACHE to a folder with room that you can write"
        raise ConfigError(f"cannot read {path}, split {split!r}: {reason}; {remedy}") from error
    assert isinstance(loaded, Dataset)
    return loaded


def _is_about_cache(error: BaseException) -> bool:
    from datasets import config

    if not isinstance(error, OSError):
        return False
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or Path(error.filename or "").is_relative_to(config.HF_DATASETS_CACHE)


def check_name_of_hub(name: str) -> None:
    """Refuse names of missing local folders, instead of asking the hub for a minute.

    Raises:
        ConfigError: the name looks like a path, or begins with an existing folder.
    """
    first, slash, _ = name.partition("/")
    folder_exists = bool(slash) and Path(first).is_dir()
    if folder_exists or name.count("/") > 1 or name.startswith((".", "/", "~", "\\")):
        why = f", though there is a folder {first!r}" if folder_exists and first != "." else ""
        raise ConfigError(
            f"there is no file or folder {name!r}{why}: check the path, or first run what writes it"
        )


def _hub(name: str, split: str) -> Dataset:
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    check_name_of_hub(name)
    if "/" not in name and (near := guess(name.partition(":")[0], ["scenes"])):
        raise ConfigError(f"there is no dataset {name!r}{near}")
    try:
        return load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        reason = on_one_line(f"{type(error).__name__}: {error.__cause__ or error}")
        raise ConfigError(
            f"cannot load {name!r}, split {split!r}: {reason}; check the "
            "name, the network and `hf auth login`, or use the path of a local copy "
            "(save_to_disk), or 'scenes'"
        ) from error


def check_local_columns(path: Path, split: str, reference_column: str = "reference") -> None:
    """Check the columns of a local dataset without decoding images.

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks a column of ``load_images``.
    """
    name = str(path)
    _with_columns(_rename_reference(_local(path, split), reference_column, name), name, split)


def _rename_reference(dataset: Dataset, column: str, name: str) -> Dataset:
    if column == "reference":
        return dataset
    if column not in dataset.column_names:
        raise ConfigError(
            f"{name!r} has no column {column!r} (it has {brief_list(dataset.column_names)}): set "
            "reference_column to its column of references"
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
                f"rename one, e.g. dataset.rename_column(..., {column!r}), or for references "
                "set a recipe's reference_column"
            )
    check_columns(dataset, name)
    if "uuid" not in dataset.column_names:
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
