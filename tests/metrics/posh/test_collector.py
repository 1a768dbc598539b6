"""The collector is patient while a batch is scored, and as it was afterwards."""

import gc

import pytest

from posh_reward.metrics.posh.posh import PATIENCE, fewer_collections


def failing_batch(threshold: int) -> None:
    with fewer_collections():
        assert gc.get_threshold()[0] == threshold
        raise ZeroDivisionError


@pytest.mark.parametrize("chosen", [700, 0, PATIENCE * 2])
def test_it_is_put_back_even_after_an_error(chosen: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(chosen, 10, 10)
    try:
        with pytest.raises(ZeroDivisionError):
            failing_batch(PATIENCE if chosen == 700 else chosen)
        assert gc.get_threshold() == (chosen, 10, 10)
    finally:
        gc.set_threshold(*before)
