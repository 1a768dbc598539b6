"""The child's first lines: a script for an interpreter without posh_reward installed.

It loads this package from its folder, and nothing else from there: the folder around it may hold
another torch. Run as ``python boot.py serve|probe SETTINGS``, with the settings as JSON.
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
    """Serve, or print which vLLM and which model this is."""
    del sys.path[0]  # this folder: its modules must only be found by their full names
    load_package(Path(__file__).resolve().parents[2])
    what, settings = sys.argv[1], json.loads(sys.argv[2])
    if what == "probe":
        print(json.dumps(about(settings["model"], settings["revision"])))
        return
    from posh_reward.models.vllm.vllm_engine import VllmEngine
    from posh_reward.models.vllm.vllm_worker import serve

    serve(VllmEngine, settings)


def about(model: str, revision: str | None) -> dict[str, str]:
    """Facts as ``{"vllm": version, "revision": commit, "kind": model_type}``, or a ``"fatal"``."""
    from posh_reward.models.hub import commit, fingerprint, model_file, model_type

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
        return {"vllm": vllm_version(), "revision": which, "kind": model_type(path / "config.json")}
    if path.is_absolute() or model.startswith("."):
        return {"fatal": f"there is no folder {model}: give a model's folder or its name on a hub"}
    try:
        which = commit(model, revision)
        read = model_type(model_file(model, which, "config.json"))
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


if __name__ == "__main__":
    main()
