"""Stretches of prompts that are computed together, and which of them fit well in one group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from posh_reward.models.packed.slots import Ints

STRETCH = 128
"""Most tokens in a row; longer runs are cut, so that the rows of a group are similar."""
GROUP_KEYS = 2**16
"""Most keys gathered at once, padding included; bounds memory."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of a prompt that are computed together."""

    ids: Ints
    """(n,) the tokens."""
    path: Ints
    """(m,) slots of the prompt's first m tokens; the last n are these tokens' own."""
    prompt: int | None = None
    """Which prompt ends with this row; None if none does."""


def segments(ids: Ints, path: Ints, start: int, prompt: int) -> list[Segment]:
    """The tokens of a prompt from ``start`` on, as rows of about equal length."""
    pieces = -(-(len(ids) - start) // STRETCH)
    bounds = np.linspace(start, len(ids), pieces + 1).round().astype(int).tolist()
    return [
        Segment(ids[first:end], path[:end], prompt if end == len(ids) else None)
        for first, end in pairwise(bounds)
    ]


def alike(rows: Sequence[Segment]) -> Iterator[list[int]]:
    """Indices of rows, in groups that need little padding and fit into memory."""
    group: list[int] = []
    longest = 0
    for index in sorted(
        range(len(rows)), key=lambda i: (len(rows[i].path) // 256, len(rows[i].ids))
    ):
        length, path = len(rows[index].ids), len(rows[index].path)
        if group and (
            (len(group) + 1) * max(longest, path) > GROUP_KEYS
            or length > len(rows[group[0]].ids) * 1.25 + 16
        ):
            yield group
            group, longest = [], 0
        group.append(index)
        longest = max(longest, path)
    yield group
