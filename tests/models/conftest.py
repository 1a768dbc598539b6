"""Models whose child is a real process with a small engine in it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posh_reward.models.vllm import VllmModel
from tests.models.children import Make
from tests.processes import SITECUSTOMIZE


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that runs ``stand_in.py``, whatever script it is given."""
    path = tmp_path_factory.mktemp("stand_in") / "python"
    code = Path(__file__).with_name("stand_in.py").read_text(encoding="utf-8")
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def make(python: str) -> Iterator[Make]:
    made: list[VllmModel] = []

    def one(model: str = "someone/tiny", **options: object) -> VllmModel:
        made.append(VllmModel(model, python=python, **{"timeout": 30, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for model in made:
        model.close()


@pytest.fixture(scope="module")
def vllm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An interpreter that has vLLM, whatever its torchvision was built for."""
    path = os.environ.get("POSH_VLLM_PYTHON")
    if not path:
        pytest.skip("POSH_VLLM_PYTHON does not name an interpreter that has vLLM (CONTRIBUTING.md)")
    folder = tmp_path_factory.mktemp("python")
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {path} "$@"\n')
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than these tests
        settings.setenv("VLLM_USE_AOT_COMPILE", "0")
        settings.setenv("OMP_NUM_THREADS", "1")
        yield str(wrapper)
