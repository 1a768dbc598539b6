"""Weights come back from host memory as they were, bit for bit."""

import logging
import time
from collections.abc import Callable
from itertools import pairwise
from math import nan

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import Parameter

from posh_reward.models.packed.host_copy import (
    ALIGNMENT_BYTES,
    BUFFER_BYTES,
    HostCopy,
    pack_storages,
)
from tests.models.tiny import byte_tokenizer, tiny_model

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def test_weights_come_back_bit_for_bit_and_share_what_they_shared() -> None:
    whole = torch.arange(60.0).reshape(6, 10)
    parameters = [
        Parameter(torch.tensor([1.0, nan, -0.0, 1e-45])),
        Parameter(torch.randn(3, 5).T),  # not contiguous
        Parameter(whole[:, 2:9:3]),  # a part of a storage, and not dense
        Parameter(whole[1:]),  # another part of the same
        Parameter(torch.randn(7).to(torch.bfloat16)),
        Parameter(torch.arange(5, dtype=torch.int8), requires_grad=False),
        Parameter(torch.empty(0, 3)),
        Parameter(torch.tensor(2.0, dtype=torch.float64)),
    ]
    expected = [each.detach().clone() for each in parameters]
    strides = [each.stride() for each in parameters]
    copy = HostCopy(parameters)
    moves: list[Callable[[], None]] = [copy.put_away, lambda: copy.bring_back(CPU)]
    for move in moves * 3:
        before = [each.data_ptr() for each in parameters]
        move()
        torch.testing.assert_close(parameters, expected, rtol=0, atol=0, equal_nan=True)
        assert str(parameters[0][2].item()) == "-0.0"
        assert [each.stride() for each in parameters] == strides
        assert all(
            each.data_ptr() != old or not each.numel()
            for each, old in zip(parameters, before, strict=True)
        )
        with torch.no_grad():  # row 1, column 2 of the whole
            assert parameters[2][1, 0] == parameters[3][0, 2] == 12
            parameters[3][0, 2] = -1.0
            assert parameters[2][1, 0] == -1
            parameters[3][0, 2] = 12.0


def test_tied_weights_stay_tied() -> None:
    model = tiny_model(byte_tokenizer(), tie_word_embeddings=True)
    copy = HostCopy(model.parameters())
    moves: list[Callable[[], None]] = [copy.put_away, lambda: copy.bring_back(CPU)]
    for move in moves:
        move()
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


SIZES = st.lists(st.integers(0, 3 * BUFFER_BYTES), max_size=20)


@given(SIZES)
def test_storages_lie_apart_in_buffers_that_are_nearly_full(sizes: list[int]) -> None:
    places, buffers = pack_storages(sizes)
    ends = [0] * len(buffers)
    for (buffer, start), size in sorted(zip(places, sizes, strict=True)):
        assert start % ALIGNMENT_BYTES == 0
        assert start >= ends[buffer]
        ends[buffer] = start + size
    assert all(end <= size for end, size in zip(ends, buffers, strict=True))
    most = next(BUFFER_BYTES << n for n in range(3) if BUFFER_BYTES << n >= max(sizes, default=0))
    assert all(size <= most for size in buffers)
    # Any two have more than one could hold, or they would be one.
    assert all(one + other > most for one, other in pairwise(buffers))


def test_the_largest_storages_are_placed_first() -> None:
    unit = BUFFER_BYTES // 8
    places, buffers = pack_storages([5 * unit, 2 * unit, 4 * unit, 3 * unit])
    assert places == [(0, 0), (1, 4 * unit), (1, 0), (0, 5 * unit)]
    assert buffers == [8 * unit, 6 * unit]
    assert pack_storages([1, 1, 513]) == ([(0, 1024), (0, 1536), (0, 0)], [2048])
    assert pack_storages([]) == ([], [])


def test_weights_stay_whole_when_they_cannot_be_moved() -> None:
    parameters = [Parameter(torch.arange(3.0)), Parameter(torch.ones(2))]
    copy = HostCopy(parameters)
    copy.put_away()
    with pytest.raises((RuntimeError, AssertionError)):  # the latter from torch without CUDA
        copy.bring_back(torch.device("cuda", 99))
    assert [each.tolist() for each in parameters] == [[0, 1, 2], [1, 1]]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU's driver pins memory")
def test_memory_that_cannot_be_pinned_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without a GPU's driver none can."""
    parameters = [Parameter(torch.randn(10))]
    with caplog.at_level(logging.WARNING):
        copy = HostCopy(parameters)
        copy.put_away()
        copy.bring_back(CPU)
    [record] = caplog.records
    assert "cannot be pinned (" in record.message
    assert "ulimit -l" in record.message


@pytest.mark.gpu
def test_pinned_weights_wake_faster_and_leave_the_card_free() -> None:
    parameters = [Parameter(torch.randn(2**26, device=CUDA)) for _ in range(8)]  # 2 GiB
    expected = [each.detach().cpu() for each in parameters]
    copy = HostCopy(parameters)
    seconds: list[float] = []
    for _ in range(3):
        copy.put_away()
        assert torch.cuda.memory_allocated() < 2**20
        assert all(each.is_pinned() for each in parameters)
        start = time.perf_counter()
        copy.bring_back(CUDA)
        seconds.append(time.perf_counter() - start)
        for parameter, each in zip(parameters, expected, strict=True):
            assert torch.equal(parameter.detach().cpu(), each)
    del parameters, copy
    start = time.perf_counter()
    from_pageable = [each.to(CUDA) for each in expected]
    assert min(seconds) < time.perf_counter() - start
    assert all(each.is_cuda for each in from_pageable)


@pytest.mark.gpu
def test_weights_that_no_longer_fit_stay_away() -> None:
    parameters = [Parameter(torch.randn(2**26, device=CUDA)) for _ in range(8)]  # 2 GiB
    copy = HostCopy(parameters)
    copy.put_away()
    torch.cuda.empty_cache()
    taken = torch.empty(torch.cuda.mem_get_info()[0] - 2**30, dtype=torch.uint8, device=CUDA)
    with pytest.raises(torch.OutOfMemoryError):
        copy.bring_back(CUDA)
    assert all(each.is_cpu for each in parameters)
    assert torch.cuda.memory_allocated() == taken.nbytes
    del taken
    torch.cuda.empty_cache()
    copy.bring_back(CUDA)
    assert all(each.is_cuda for each in parameters)
