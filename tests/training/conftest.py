"""One tiny model for all tests of this folder and those below."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes import tiny_qwen


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_qwen.build(folder, warm_up_steps=0, pretrain_steps=0)
    return folder
