"""Models whose child is a real process with a small engine in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posh_reward.models.vllm import VllmModel
from tests.models.children import Make


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
