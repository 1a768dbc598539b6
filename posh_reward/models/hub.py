"""Commits and fingerprints that identify a model's weights."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from posh_reward.errors import ConfigError

HASHED_END_BYTES = 1 << 20  # bytes hashed at the start and at the end of each file
FINGERPRINT_CHARACTERS, COMMIT_CHARACTERS = 16, 40
SAMPLE_BYTES = 1 << 12  # hashed of the beginning, the middle and the end of each tensor or image
UNKNOWN_IDENTITY = "unknown"
MODEL_FILES = ("config.json", "tokenizer*", "*.safetensors")
"""Patterns of the files that a model consists of."""
MERGED_MODEL_PREFIX = "started_from"
"""Beginning of the name of the folder in a run's own that has the model it began from, merged."""


def find_commit(model: str, revision: str | None) -> str:
    """The commit that a branch or tag points to: on the hub or, failing that, in the cache."""
    if revision is not None and re.fullmatch(f"[0-9a-f]{{{COMMIT_CHARACTERS}}}", revision):
        return revision
    from huggingface_hub import model_info, try_to_load_from_cache

    try:
        sha = model_info(model, revision=revision, timeout=10).sha
        assert sha is not None, "a model has a commit"
        return sha
    except Exception:
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
        if not isinstance(cached, str):
            raise
        return Path(cached).parent.name


def model_file(model: str, commit: str, name: str) -> Path:
    """A small file of a model on the hub, from the cache if present."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, name, revision=commit))


def is_complete(file: Path) -> bool:
    """Return False if a file of tensors is truncated; True for any other file."""
    from safetensors import SafetensorError, safe_open

    if file.suffix in (".pt", ".pth"):  # zip archives, whose directory is at the end
        return zipfile.is_zipfile(file)
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "np"):  # torch takes seconds to import
                return True
        except SafetensorError:
            return False
    return True


def find_missing_file(folder: Path, files: Iterable[str] = MODEL_FILES[1:]) -> str | None:
    """Name what a model's folder lacks: a pattern without a file, or a missing or torn shard."""
    names = [name for name in files if not any(folder.glob(name))]
    for index in folder.glob("*.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        names += sorted(shard for shard in shards if not (folder / shard).exists())
    names += [file.name for file in folder.glob("*.safetensors") if not is_complete(file)]
    return names[0] if names else None


def model_type(config: Path) -> str:
    """The ``model_type`` in a model's ``config.json``; empty if there is none."""
    fields = json.loads(config.read_text(encoding="utf-8"))
    if not isinstance(fields, dict):
        return ""
    return str(fields.get("model_type", ""))


def fingerprint_files(folder: Path) -> str:
    """Truncated SHA-256 over names, sizes and ends of a model's files; all bytes take a minute."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as content:
            digest.update(content.read(HASHED_END_BYTES))
            content.seek(max(HASHED_END_BYTES, size - HASHED_END_BYTES))
            digest.update(content.read(HASHED_END_BYTES))
    return digest.hexdigest()[:FINGERPRINT_CHARACTERS]


def weights_fingerprint(folder: Path) -> str | None:
    """Truncated SHA-256 of a model's or an adapter's tensors; None for a folder without any.

    The same for any number of shards, whatever else is in the folder. Of each tensor the name, type
    and shape count, and three samples of its bytes: training moves nearly all values, and reading
    all of a 7B model takes a minute.
    """
    samples: dict[str, bytes] = {}
    for file in folder.glob("*model*.safetensors"):
        samples.update(_tensor_samples(file))
    digest = hashlib.sha256()
    for name in sorted(samples):
        digest.update(name.encode() + samples[name])
    if not samples:
        return None
    return digest.hexdigest()[:FINGERPRINT_CHARACTERS]


def _tensor_samples(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each tensor's name, and its type, shape and samples."""
    # A file is the size of its header, the header in JSON, and the tensors' bytes.
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(size))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, end = entry["data_offsets"]
            sample = f"{entry['dtype']}{entry['shape']}".encode()
            yield name, sample + b"".join(read_samples(content, 8 + size + first, end - first))


def read_samples(file: BinaryIO, first: int, size: int) -> Iterator[bytes]:
    """Yield bytes of the beginning, the middle and the end of a part of a file."""
    for part in range(3):
        file.seek(first + max(size - SAMPLE_BYTES, 0) * part // 2)
        yield file.read(min(SAMPLE_BYTES, size))


def adapter_base(folder: Path) -> str | None:
    """Return the folder or name of the model that an adapter changes; None for a full model.

    Raises:
        ConfigError: the adapter names none.
    """
    config = folder / "adapter_config.json"
    if not config.is_file():
        return None
    try:
        fields = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        fields = None
    base = fields.get("base_model_name_or_path") if isinstance(fields, dict) else None
    if not isinstance(base, str) or not base or Path(base).absolute() == folder.absolute():
        raise ConfigError(f"{config} names no base_model_name_or_path: name the adapter's model")
    # A run that began from an adapter has its merged model in its own folder, which may have moved.
    name = Path(base).name
    if name.startswith(MERGED_MODEL_PREFIX):
        for merged in (folder / name, folder.parent / name):
            if merged.is_dir():
                return str(merged)
    return base


CONFIGURATION_FILES = (
    "config.json", "adapter_config.json", "generation_config.json", "tokenizer.json",
    "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json",
    "processor_config.json",
)  # fmt: skip
"""Files besides the weights on which a model's answers depend."""


def config_digest(model: str) -> str:
    """Return a digest of a folder's configuration, tokenizer and template; empty of other names.

    A commit on the hub is of these files, too.
    """
    folder, digest = Path(model), hashlib.sha256()
    files = [folder / name for name in CONFIGURATION_FILES if (folder / name).is_file()]
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    own = digest.hexdigest()[:FINGERPRINT_CHARACTERS] if files else ""
    base = adapter_base(folder)
    if base is None:
        return own
    return f"{own}+{config_digest(base)}"


def find_identity(model: str, revision: str | None = None) -> str:
    """Return the fingerprint of a folder's weights, or the commit of a model on the hub.

    ``ADAPTER+MODEL`` of an adapter, since its answers depend on both; ``UNKNOWN_IDENTITY`` of a
    model that is not here, offline.
    """
    folder = Path(model)
    if not folder.is_dir():
        try:
            return find_commit(model, revision)
        except Exception:  # of the hub's client: many kinds
            return UNKNOWN_IDENTITY
    own = weights_fingerprint(folder)
    if own is None:
        # Tensors in files older than safetensors are not read: the files stand for them.
        has_old_files = any(folder.glob("*model*.bin"))
        own = fingerprint_files(folder) if has_old_files else UNKNOWN_IDENTITY
    base = adapter_base(folder)
    if base is None:
        return own
    return f"{own}+{find_identity(base)}"
