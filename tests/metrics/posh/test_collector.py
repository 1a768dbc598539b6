"""The collector is patient while a batch is scored, and as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from posh_reward.metrics.posh.posh import PATIENCE, fewer_collections


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_it_is_put_back(threshold: tuple[int, int, int]) -> None:
    with fewer_collections():
        with fewer_collections():
            assert gc.get_threshold()[0] == PATIENCE
        assert gc.get_threshold()[0] == PATIENCE
    assert gc.get_threshold() == threshold


def failing_batch() -> None:
    with fewer_collections():
        raise ZeroDivisionError


def test_it_is_put_back_after_an_error(threshold: tuple[int, int, int]) -> None:
    with pytest.raises(ZeroDivisionError):
        failing_batch()
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("chosen", [0, PATIENCE * 2])
def test_what_the_user_has_chosen_is_left_alone(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    with fewer_collections():
        assert gc.get_threshold()[0] == chosen
