"""What installing says before it starts: whether torch comes with CUDA."""

from __future__ import annotations

import sys

import pytest

from tools.install import with_cuda

NEEDS_CUDA = ['nvidia-cudnn-cu13==9.19; platform_system == "Linux"', "filelock"]


def test_the_public_build_for_linux_brings_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert with_cuda("2.13.0", NEEDS_CUDA)
    assert not with_cuda("2.13.0+cpu", ["filelock"])
    assert not with_cuda("", []), "pip could not say"


def test_macos_never_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not with_cuda("2.13.0", NEEDS_CUDA)
