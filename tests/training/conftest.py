"""A tiny model and an environment with DeepSpeed for the tests below."""

import os
from pathlib import Path

import pytest

from recipes.demo import tiny_qwen
from tests.models.tiny import byte_tokenizer, tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_qwen.build(folder, warm_up_steps=0, pretrain_steps=0)
    return folder


@pytest.fixture(scope="session")
def unfit_judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of a judge of random weights."""
    folder = tmp_path_factory.mktemp("judge")
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    tiny_model(tokenizer).save_pretrained(folder / "model")
    file = folder / "judge.yaml"
    file.write_text(f"name: transformers\nmodel: {folder / 'model'}\nmemory_gb: 0.1\n")
    return file


@pytest.fixture(scope="session")
def deepspeed_python() -> str:
    """The interpreter of an environment with DeepSpeed."""
    python = os.environ.get("POSH_DEEPSPEED_PYTHON")
    if not python:
        pytest.skip("POSH_DEEPSPEED_PYTHON is not set: see tests/training/test_zero3.py")
    return python
