"""The tiny model of the trainers' tests."""

from tests.training.conftest import tiny

__all__ = ["tiny"]
