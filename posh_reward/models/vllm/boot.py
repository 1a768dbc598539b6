"""The child's first lines: a script for an interpreter without posh_reward installed.

It loads this package from its folder, and nothing else from there: the folder around it may hold
another torch. Run as ``python boot.py serve|probe SETTINGS``, with the settings as JSON.
"""

import importlib.util
import json
import sys
from pathlib import Path


def load_package(folder: Path) -> None:
    """Makes ``posh_reward`` importable from its folder."""
    spec = importlib.util.spec_from_file_location("posh_reward", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["posh_reward"] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Serves, or says which vLLM and which model this is."""
    del sys.path[0]  # this folder: its modules must only be found by their full names
    load_package(Path(__file__).resolve().parents[2])
    what, settings = sys.argv[1], json.loads(sys.argv[2])
    if what == "probe":
        from posh_reward.models.vllm.probe import about

        print(json.dumps(about(settings["model"], settings["revision"])))
        return
    from posh_reward.models.vllm.vllm_engine import VllmEngine
    from posh_reward.models.vllm.vllm_worker import serve

    serve(VllmEngine, settings)


if __name__ == "__main__":
    main()
