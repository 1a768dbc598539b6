"""What installing says before it starts: whether torch comes with CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.install import FailedError, at_work, with_cuda

NEEDS_CUDA = ['nvidia-cudnn-cu13==9.19; platform_system == "Linux"', "filelock"]


def test_the_public_build_for_linux_brings_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert with_cuda("2.13.0", NEEDS_CUDA)
    assert not with_cuda("2.13.0+cpu", ["filelock"])
    assert not with_cuda("", []), "pip could not say"


def test_a_failure_shows_the_last_words(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="no such package"):
        at_work("failing", ["bash", "-c", "echo no such package; exit 1"], tmp_path / "log")
