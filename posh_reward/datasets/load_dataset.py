"""Load images with references, as columns ``uuid``, ``image`` and ``reference``.

A dataset's name is ``scenes`` (generated), a local path, or a dataset on the Hugging Face hub, such
as ``amitha/docent``.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.datasets.images import find_defect
from posh_reward.errors import (
    ConfigError,
    InputError,
    MissingDependencyError,
    install_command,
    on_one_line,
)
from posh_reward.process.progress import say_while_waiting
from posh_reward.settings import shorten, shorten_list, suggest_name
from posh_reward.text_values import has_text, read_text
from posh_reward.types import Failure

if TYPE_CHECKING:
    from datasets import Dataset

PAPER_PROMPT = (
    "Generate a detailed description of this painting, avoiding interpretation and focusing on "
    "only its visual elements."
)
"""The instruction to the model (paper, A.3.5)."""

logger = logging.getLogger(__name__)

DATASET_COLUMNS = ("uuid", "image", "reference")
REFERENCE_COLUMN_REMEDY = (
    "name its column of references: load_images(..., reference_column=...), or a recipe's "
    "--reference_column, generate.py's --reference, otherwise --dataset-reference"
)
ASKS_HUB = " from the hub; without a network, half a minute passes before an error"
MAX_BROKEN_IMAGES_NAMED = 5  # in an error
OTHER_SPLIT_NAMES = {"val": "validation", "validation": "val"}
"""Two names of one split: DOCENT has ``val``, others ``validation``."""
FORMAT_BY_SUFFIX = {".csv": "csv", ".json": "json", ".jsonl": "json"}
"""Format of a file; one of another type is Parquet."""

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class SceneOptions:
    """Options in a name such as ``scenes:train=4000:heldout=512:seed=1:uneven=1:scale=2``."""

    train: int = 2000  # images in the training split
    heldout: int = 256  # images in the validation split, and in the test split
    seed: int = 0
    plain: int = 0  # 1: no hats or poses, for tiny models
    uneven: int = 0  # 1: references omit details at random
    scale: int = 1  # factor on both sides of an image; at 1 it has 168 x 56 pixels


def is_drawn(name: object) -> bool:
    """Return True for ``scenes``, with or without options."""
    return isinstance(name, str) and name.partition(":")[0] == "scenes"


def scene_options(name: str) -> SceneOptions:
    """Parse the options after ``scenes``."""
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


def prompt(text: str = PAPER_PROMPT) -> Messages:
    """Return an instruction, by default the paper's, as a conversation.

    Trainers put the image before the text.

    Raises:
        InputError: the text is empty.
    """
    if not text.strip():
        raise InputError("the prompt is empty: write an instruction, such as 'Describe the image.'")
    return [{"role": "user", "content": text}]


def answer(reference: object) -> Messages:
    """Return a description as the assistant's turn."""
    text = read_text(reference)
    reason = ""
    if isinstance(text, Failure):
        reason = f" ({text.about('it')})"
        text = ""
    if not text.strip():
        raise InputError(
            f"a reference is {shorten(reference)}{reason}: SFT learns one text for each image, so "
            "remove or complete such rows"
        )
    return [{"role": "assistant", "content": text}]


def with_other_images(dataset: Dataset) -> Dataset:
    """Give each image the previous row's texts: a control that a blind model can match.

    The texts move because moving the images would write them again.
    """
    others = dataset.select_columns([name for name in dataset.column_names if name != "image"])
    rows = len(dataset)
    previous = [(row - 1) % rows for row in range(rows)]
    moved = others.select(previous)[:]
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
        skip_broken: leave out rows whose image is missing or broken.

    Returns:
        Columns uuid (text; by default split and row), image (PIL) and reference (text).

    Raises:
        ConfigError: the dataset cannot be loaded, or lacks the split or a column.
        InputError: an option of ``scenes`` is unknown, an image is missing, or an image of a local
            dataset is broken.
        MissingDependencyError: Hugging Face datasets is not installed.
    """
    dataset = open_images(name, split, reference_column)
    if is_drawn(name):
        return dataset
    # The hub's images are decoded only where some must be missing: DOCENT takes minutes.
    if skip_broken or Path(name).exists() or _lacks_images(dataset):
        return without_broken(dataset, f"{name!r}, split {split!r}", skip_broken=skip_broken)
    return dataset


def _lacks_images(dataset: Dataset) -> bool:
    import pyarrow.compute as pc

    stored = dataset.data.column("image")
    no_content = pc.is_null(pc.struct_field(stored, "bytes"))
    no_path = pc.is_null(pc.struct_field(stored, "path"))
    return bool(pc.any(pc.and_(no_content, no_path)).as_py())


def open_images(name: str, split: str, reference_column: str = "reference") -> Dataset:
    """Load one split as ``load_images`` does, without looking at its images."""
    _require_datasets()
    if is_drawn(name):
        return _draw_scenes(scene_options(name), split)
    dataset = _with_columns(open_split(name, split), name, split, reference_column)
    # SFT would learn to say nothing from an empty reference, and DAPO gets no reward.
    empty = [row for row, text in enumerate(dataset["reference"]) if not has_text(text)]
    if empty:
        logger.warning(
            "%r, split %r has %d of %d references that are empty, the first for %s: remove these "
            "rows", name, split, len(empty), len(dataset), dataset["uuid"][empty[0]],
        )  # fmt: skip
    return dataset


def load_rows(name: str, split: str = "test", *, images: bool = False) -> list[dict[str, Any]]:
    """Load all rows of one split of any dataset, such as human judgments.

    ``images`` are kept on request, as mappings with the ``bytes`` and ``path`` of their files.
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


def check_dataset(
    name: str, splits: Iterable[str], reference_column: str = "reference"
) -> dict[str, int]:
    """Check that a dataset has these splits, with the columns of ``load_images``; count their rows.

    Decodes no images. A dataset on the hub is downloaded first, if it is not here.
    """
    if is_drawn(name):
        options = scene_options(name)
        rows = {"train": options.train}
        return {split: rows.get(_drawn_split(split), options.heldout) for split in splits}
    return {split: len(open_images(name, split, reference_column)) for split in splits}


def _require_datasets() -> None:
    if find_spec("datasets") is None:
        raise MissingDependencyError(
            "loading images needs packages: pip install datasets pillow, or, for training, "
            f"{install_command('train')}"
        )


def _drawn_split(split: str) -> Any:
    from posh_reward.datasets.scenes import SPLITS

    return existing_split(split, SPLITS, "scenes")


def _draw_scenes(options: SceneOptions, split: str) -> Dataset:
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


# Columns.


def _with_columns(dataset: Dataset, name: str, split: str, reference_column: str) -> Dataset:
    """Select the three columns, with images decoded on access."""
    from datasets import Image

    for column, remedy in (
        ("image", "rename its column of images"),
        (reference_column, REFERENCE_COLUMN_REMEDY),
    ):
        if column not in dataset.column_names:
            hint = suggest_name(column, dataset.column_names)
            known = shorten_list(dataset.column_names)
            raise ConfigError(f"{name!r} has no column {column!r}{hint}, but {known}: {remedy}")
    if reference_column != "reference":
        others = [other for other in dataset.column_names if other != "reference"]
        dataset = dataset.select_columns(others).rename_column(reference_column, "reference")
    check_columns(dataset, name)
    if "uuid" not in dataset.column_names:
        dataset = dataset.add_column("uuid", _list_ids(dataset, split))
    dataset = dataset.select_columns(list(DATASET_COLUMNS))
    if not isinstance(dataset.features["image"], Image):
        dataset = dataset.cast_column("image", Image())
    return dataset


def _list_ids(dataset: Dataset, split: str) -> list[str]:
    """List the ids of rows: those of a column ``id`` that tells them apart, else split and row."""
    if "id" in dataset.column_names:
        ids = list(map(str, dataset["id"]))
        if len(set(ids)) == len(ids):
            return ids
    split = "validation" if split == "val" else split
    return [f"{split}-{row:05d}" for row in range(len(dataset))]


def check_columns(
    dataset: Dataset, name: str, reference_column: str = "reference", image_column: str = "image"
) -> None:
    """Refuse columns whose type would fail in every row; missing columns are not checked.

    References are texts, or lists of texts; images may also be bytes or paths of their files.
    """
    from datasets import Features, Image, Value

    contents = [(reference_column, "texts, or lists of texts"), (image_column, "images")]
    for column, content in contents:
        kind = dataset.features.get(column)
        if kind is None:
            continue
        kind = getattr(kind, "feature", kind)  # of a list's items
        dtypes = ["string", "large_string"]
        if content == "images":
            if isinstance(kind, Image | dict | Features):
                continue
            dtypes.append("binary")
        if isinstance(kind, Value) and kind.dtype in dtypes:
            continue
        if isinstance(kind, dict) and {"role", "content"} <= kind.keys():
            raise ConfigError(
                f"{name!r}: the column {column!r} holds conversations, not {content}: take "
                f"their last message, as with dataset.map(lambda row: "
                f"{{{column!r}: row[{column!r}][-1]['content']}})"
            )
        dtype = getattr(kind, "dtype", type(kind).__name__)
        raise ConfigError(
            f"{name!r}: the column {column!r} holds {dtype}, not {content}: use another "
            "column, or convert this one"
        )


# Broken images.


def without_broken(dataset: Dataset, where: str, *, skip_broken: bool) -> Dataset:
    """Select the rows whose image can be decoded."""
    from datasets import Image

    stored = dataset.select_columns(["image"]).cast_column("image", Image(decode=False))
    reasons = [find_defect(item["image"]) for item in stored]
    broken = [row for row, reason in enumerate(reasons) if reason is not None]
    if not broken:
        return dataset
    if skip_broken:
        return dataset.select([row for row, reason in enumerate(reasons) if reason is None])
    uuids = dataset["uuid"] if "uuid" in dataset.column_names else range(len(dataset))
    named = broken[:MAX_BROKEN_IMAGES_NAMED]
    examples = ", ".join(f"{uuids[row]} ({reasons[row]})" for row in named)
    if len(broken) > len(named):
        examples += f" and {len(broken) - len(named)} more"
    raise InputError(
        f"{where} has {len(broken)} of {len(dataset)} images that cannot be read: {examples}; "
        "repair or remove these rows, or save the others for a recipe with "
        "load_images(..., skip_broken=True).save_to_disk(folder)"
    )


# Splits of a path or of the hub, with all their columns.


def existing_split(split: str, names: Collection[str], where: str) -> str:
    """Return a dataset's own name for a split, such as ``val[:10]`` for ``validation[:10]``."""
    parts = []
    for part in split.split("+"):
        name, bracket, rows = part.partition("[")
        known = name if name in names else OTHER_SPLIT_NAMES.get(name)
        if known is None or known not in names:
            hint = suggest_name(name, names)
            raise ConfigError(
                f"{where} has no split {name!r}{hint}: use one of {', '.join(names)} (--split; in "
                "a recipe --dataset_train_split or --dataset_test_split)"
            )
        parts.append(known + bracket + rows)
    return "+".join(parts)


def open_split(name: str, split: str) -> Dataset:
    """Load one split, with all its columns, of a local path or of a dataset on the hub."""
    from datasets import DatasetDict, load_from_disk
    from datasets.exceptions import DatasetsError

    path = Path(name)
    local = path.exists()
    if not local:
        check_name_of_hub(name)
        if "/" not in name and (near := suggest_name(name.partition(":")[0], ["scenes"])):
            raise ConfigError(f"there is no dataset {name!r}{near}")
    try:
        if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
            saved = load_from_disk(name)
            if not isinstance(saved, DatasetDict):
                return saved
            return saved[existing_split(split, saved, repr(name))]
        if path.is_file():
            return _read_file(path, split)
        where = "" if local else ASKS_HUB
        with say_while_waiting(f"still loading {name}{where}"):
            return _prepare_split(name, split)
    except ConfigError:
        raise
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        cause = error.__cause__ or error
        if not local:
            remedy = (
                "check the name, the network and `hf auth login`, or use the path of a local copy "
                "(save_to_disk), or 'scenes'"
            )
        elif _is_about_cache(cause):
            remedy = "set HF_DATASETS_CACHE to a folder with room that you can write"
        else:
            remedy = (
                "use a directory from save_to_disk, Parquet files, a CSV or JSON lines file with "
                "the columns image (paths) and reference, or an imagefolder with metadata.csv"
            )
        reason = on_one_line(f"{type(error).__name__}: {cause}")
        raise ConfigError(f"cannot read {name!r}, split {split!r}: {reason}; {remedy}") from error


def _prepare_split(name: str, split: str) -> Dataset:
    """Load a split of a folder, or of a dataset on the hub, from the cache that is made first."""
    from datasets import load_dataset_builder

    builder = load_dataset_builder(name)
    # The card may list the splits. Otherwise they follow from the names of files.
    names = list(map(str, builder.info.splits or builder.config.data_files or ()))
    split = existing_split(split, names, repr(name))
    builder.download_and_prepare()
    return builder.as_dataset(split=split)


def _read_file(path: Path, split: str) -> Dataset:
    from datasets import load_dataset

    kind = FORMAT_BY_SUFFIX.get(path.suffix.lower(), "parquet")
    rows = load_dataset(kind, data_files={split: str(path)}, split=split)
    dtype = getattr(rows.features.get("image"), "dtype", None)
    if kind == "parquet" or dtype not in ("string", "large_string"):
        return rows
    paths = [image and str(path.parent / image) for image in rows["image"]]
    return rows.remove_columns("image").add_column("image", paths)


def _is_about_cache(error: BaseException) -> bool:
    from datasets import config

    if not isinstance(error, OSError):
        return False
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or Path(error.filename or "").is_relative_to(config.HF_DATASETS_CACHE)


def check_name_of_hub(name: str) -> None:
    """Raise ConfigError for the name of a missing local folder; the hub would take a minute."""
    first, slash, _ = name.partition("/")
    folder_exists = bool(slash) and Path(first).is_dir()
    is_path = name.count("/") > 1 or name.startswith((".", "/", "~", "\\"))
    if folder_exists or is_path or name.lower().endswith((*FORMAT_BY_SUFFIX, ".parquet")):
        hint = ""
        if folder_exists and first != ".":
            hint = f", though there is a folder {first!r}"
        raise ConfigError(
            f"there is no file or folder {name!r}{hint}: check the path, or first run what "
            "writes it"
        )
