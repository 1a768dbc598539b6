"""Which vLLM is here, and which commit of a model: asked in the child's interpreter."""

from __future__ import annotations

import hashlib
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

ENDS = 1 << 20
"""Bytes at the start and at the end of each file that its fingerprint reads."""


def about(model: str, revision: str | None) -> dict[str, str]:
    """``{"vllm": version, "revision": commit}``, or ``{"fatal": why}``."""
    if find_spec("vllm") is None:
        return {
            "fatal": f"vLLM is not installed in {sys.executable}: pip install 'posh-reward[vllm]', "
            "or name the interpreter of an environment that has it by the setting `python`"
        }
    path = Path(model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            return {"fatal": f"the folder {model} holds no model: there is no config.json in it"}
        return {"vllm": vllm_version(), "revision": f"sha256-{fingerprint(path)}"}
    if path.is_absolute() or model.startswith("."):
        return {"fatal": f"there is no folder {model}: give a model's folder or its name on a hub"}
    try:
        return {"vllm": vllm_version(), "revision": commit(model, revision)}
    except Exception as error:
        return {
            "fatal": f"the model {model!r} at revision {revision or 'main'!r} is neither in the "
            f"cache nor to be had from the hub ({type(error).__name__}): check its name, the "
            "connection, and HF_TOKEN if it is gated"
        }


def vllm_version() -> str:
    """Of whichever distribution brings the package: ``vllm``, or a build by another name."""
    names = metadata.packages_distributions().get("vllm", ["vllm"])
    return metadata.version(names[0])


def commit(model: str, revision: str | None) -> str:
    """The commit that a branch or tag is at: on the hub, else in the cache."""
    from huggingface_hub import model_info, try_to_load_from_cache

    try:
        found = model_info(model, revision=revision, timeout=10).sha
        assert found is not None, "a model has a commit"
        return found
    except Exception:
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
        if not isinstance(cached, str):
            raise
        return Path(cached).parent.name


def fingerprint(folder: Path) -> str:
    """Start of a SHA-256 over the names, sizes and ends of a model's files.

    Not over all of them: 28 GB take a minute, on every rank.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as content:
            digest.update(content.read(ENDS))
            content.seek(max(ENDS, size - ENDS))
            digest.update(content.read(ENDS))
    return digest.hexdigest()[:16]
