"""Open one split of a local path or of a dataset on the Hugging Face hub, with all its columns."""

from __future__ import annotations

import errno
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError, on_one_line
from posh_reward.settings import guess

if TYPE_CHECKING:
    from datasets import Dataset

OTHER_NAME = {"val": "validation", "validation": "val"}
"""Two names of one split: DOCENT has ``val``, others ``validation``."""
FILES = {".csv": "csv", ".json": "json", ".jsonl": "json"}  # a file of another type is Parquet


def existing_split(split: str, names: Collection[str], where: str) -> str:
    """Return the name that a dataset has for a split, such as ``val[:10]`` for ``validation[:10]``.

    Raises:
        ConfigError: it has no such split.
    """
    parts = []
    for part in split.split("+"):
        name, bracket, rows = part.partition("[")
        found = next((each for each in (name, OTHER_NAME.get(name)) if each in names), None)
        if found is None:
            raise ConfigError(f"{where} has no split {name!r}: use one of {', '.join(names)}")
        parts.append(found + bracket + rows)
    return "+".join(parts)


def open_split(name: str, split: str) -> Dataset:
    """Load one split.

    Args:
        name: a local directory or file, or a dataset on the hub.
        split: its name.

    Raises:
        ConfigError: the dataset cannot be loaded, or has no such split.
    """
    path = Path(name)
    return _local(path, split) if path.exists() else _hub(name, split)


def _local(path: Path, split: str) -> Dataset:
    from datasets import DatasetDict, load_from_disk
    from datasets.exceptions import DatasetsError

    try:
        if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
            saved = load_from_disk(str(path))
            if not isinstance(saved, DatasetDict):
                return saved
            return saved[existing_split(split, saved, repr(str(path)))]
        return _read_file(path, split) if path.is_file() else _prepared(str(path), split)
    except ConfigError:
        raise
    except (OSError, ValueError, DatasetsError) as error:
        reason = on_one_line(str(error.__cause__ or error))
        remedy = (
            "use a directory from save_to_disk, Parquet files, a CSV or JSON lines file with the "
            "columns image (paths) and reference, or an imagefolder with metadata.csv"
        )
        if _is_about_cache(error.__cause__ or error):
            remedy = "set HF_DATASETS_CACHE to a folder with room that you can write"
        raise ConfigError(f"cannot read {path}, split {split!r}: {reason}; {remedy}") from error


def _prepared(name: str, split: str) -> Dataset:
    """Load a split of a folder, or of a dataset on the hub, from the cache that is made first."""
    from datasets import load_dataset_builder

    builder = load_dataset_builder(name)
    # The card may list the splits. Otherwise they follow from the names of files.
    names = list(builder.info.splits or builder.config.data_files or ())
    split = existing_split(split, names, repr(name))
    builder.download_and_prepare()
    return builder.as_dataset(split=split)


def _read_file(path: Path, split: str) -> Dataset:
    from datasets import load_dataset

    kind = FILES.get(path.suffix.lower(), "parquet")
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
    from datasets.exceptions import DatasetsError

    check_name_of_hub(name)
    if "/" not in name and (near := guess(name.partition(":")[0], ["scenes"])):
        raise ConfigError(f"there is no dataset {name!r}{near}")
    try:
        return _prepared(name, split)
    except ConfigError:
        raise
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        reason = on_one_line(f"{type(error).__name__}: {error.__cause__ or error}")
        raise ConfigError(
            f"cannot load {name!r}, split {split!r}: {reason}; check the "
            "name, the network and `hf auth login`, or use the path of a local copy "
            "(save_to_disk), or 'scenes'"
        ) from error
