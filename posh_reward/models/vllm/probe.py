"""Which vLLM is here, and which commit of a model: runs in the child's interpreter."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from posh_reward.models.hub import commit, downloaded, fingerprint, kind


def about(model: str, revision: str | None) -> dict[str, str]:
    """``{"vllm": version, "revision": commit, "kind": model_type}``, or ``{"fatal": why}``."""
    if find_spec("vllm") is None:
        return {
            "fatal": f"vLLM is not installed in {sys.executable}: pip install 'posh-reward[vllm]', "
            "or name the interpreter of an environment that has it by the setting `python`"
        }
    path = Path(model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            return {"fatal": f"the folder {model} holds no model: there is no config.json in it"}
        which = f"sha256-{fingerprint(path)}"
        return {"vllm": vllm_version(), "revision": which, "kind": kind(path / "config.json")}
    if path.is_absolute() or model.startswith("."):
        return {"fatal": f"there is no folder {model}: give a model's folder or its name on a hub"}
    try:
        which = commit(model, revision)
        read = kind(downloaded(model, which, "config.json"))
        return {"vllm": vllm_version(), "revision": which, "kind": read}
    except Exception as error:
        return {
            "fatal": f"the model {model!r} at revision {revision or 'main'!r} is neither in the "
            f"cache nor on the hub as seen from here ({type(error).__name__}): check its name, "
            "the connection, and HF_TOKEN if it is gated"
        }


def vllm_version() -> str:
    """The version of the distribution that has the package, which may not be called ``vllm``."""
    names = metadata.packages_distributions().get("vllm", ["vllm"])
    return metadata.version(names[0])
