"""The weights of a sleeping model in host memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

import torch

logger = logging.getLogger(__name__)

BUFFER_BYTES = 2**30
"""Usual size of a pinned buffer. torch rounds each up to a power of two."""
ALIGNMENT_BYTES = 512  # of a storage in a buffer, as in torch's allocator of GPU memory


class HostCopy:
    """Copies of a model's parameters, which never change: made once, on its first sleep.

    Whole storages are copied, byte by byte, so that parameters that share one go on sharing it.
    The copies are pinned, which a GPU reads several times as fast as pageable memory, and lie
    together in few buffers: one buffer each would round Qwen3-14B's 27.5 GiB up to 41.5.

    Raises:
        RuntimeError: host memory is too small.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        storages = {each.data_ptr(): each for each in map(_storage_bytes, self._parameters)}
        places, sizes = pack_storages(list(map(torch.numel, storages.values())))
        buffers = _allocate_buffers(sizes)
        self._copies = []
        for storage, (buffer, start) in zip(storages.values(), places, strict=True):
            copy = buffers[buffer][start : start + storage.numel()]
            self._copies.append(copy.copy_(storage, non_blocking=True))
        for device in {storage.device for storage in storages.values()}:
            _wait_for_copies(device)
        # Of each parameter, the index of its storage and its offset there.
        indices = {pointer: index for index, pointer in enumerate(storages)}
        self._indices, self._offsets = [], []
        for parameter in self._parameters:
            self._indices.append(indices[_storage_bytes(parameter).data_ptr()])
            self._offsets.append(parameter.storage_offset())

    def put_away(self) -> None:
        """Let the parameters be these copies, which frees their memory elsewhere."""
        self._set_parameters(self._copies)

    def bring_back(self, device: torch.device) -> None:
        """Move the parameters to a device.

        Raises:
            torch.OutOfMemoryError: they do not fit; then they stay here, all of them.
        """
        moved = [each.to(device, non_blocking=True, copy=True) for each in self._copies]
        _wait_for_copies(device)
        self._set_parameters(moved)

    def _set_parameters(self, storages: Sequence[torch.Tensor]) -> None:
        """Lay each parameter into its storage's bytes as it lay in the original."""
        for parameter, index, offset in zip(
            self._parameters, self._indices, self._offsets, strict=True
        ):
            values = storages[index].view(parameter.dtype)
            parameter.data = values.as_strided(
                parameter.shape, parameter.stride(), values.storage_offset() + offset
            )


def pack_storages(sizes: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Place storages of these bytes into buffers: the largest first, each where it first fits.

    Buffers are of ``BUFFER_BYTES`` or, if one storage is larger, the next power of two. In units of
    512 bytes and with buffers of 8, sizes 5, 2, 4, 3 become [5 3] and [4 2].

    Returns:
        each storage's buffer and its start there, and the bytes of each buffer.
    """
    largest = max(BUFFER_BYTES, 1 << (max(sizes, default=1) - 1).bit_length())
    places = [(0, 0)] * len(sizes)
    used: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        size = math.ceil(sizes[index] / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        fitting = (buffer for buffer, taken in enumerate(used) if taken + size <= largest)
        buffer = next(fitting, len(used))
        if buffer == len(used):
            used.append(0)
        places[index] = buffer, used[buffer]
        used[buffer] += size
    return places, used


def _allocate_buffers(sizes: Sequence[int]) -> list[torch.Tensor]:
    """Pinned buffers of these bytes, or pageable ones from the first that cannot be pinned."""
    buffers: list[torch.Tensor] = []
    pin = True
    for size in sizes:
        try:
            buffers.append(torch.empty(size, dtype=torch.uint8, pin_memory=pin))
        except RuntimeError as error:
            if not pin:
                raise
            pin = False
            logger.warning(
                "the judge will wake slowly: %.1f of its %.1f GB in host memory cannot be pinned "
                "(%s): free host memory, or raise the limit on locked memory (ulimit -l)",
                (sum(sizes) - sum(map(len, buffers))) / 1e9, sum(sizes) / 1e9,
                str(error).splitlines()[0],
            )  # fmt: skip
            buffers.append(torch.empty(size, dtype=torch.uint8))
    return buffers


def _storage_bytes(parameter: torch.Tensor) -> torch.Tensor:
    """The whole storage of a parameter, as a vector of bytes."""
    storage = parameter.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=parameter.device).set_(storage)


def _wait_for_copies(device: torch.device) -> None:
    """Wait until copies from and to a device are done."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
