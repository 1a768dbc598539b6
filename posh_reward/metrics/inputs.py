"""Lists of texts as callers give them -> what can be scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posh_reward.errors import InputError
from posh_reward.graph.read import stripped_text
from posh_reward.types import Failure


def check_lists(**lists: Sequence[object]) -> None:
    """Checks that arguments are lists of equal length.

    Raises:
        InputError: one is a bare string, or two differ in length; the message names them.
    """
    for name, values in lists.items():
        if isinstance(values, str | bytes):
            raise InputError(f"{name} is one string: pass a list, [{values[:40]!r}]")
    (first, values), *others = lists.items()
    for name, each in others:
        if len(each) != len(values):
            raise InputError(f"{len(values)} {first} but {len(each)} {name}: pass one for each")


def check_sizes(**sizes: int) -> None:
    """Checks that arguments are at least 1.

    Raises:
        InputError: one is not; the message names it.
    """
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} is {size}: give a number from 1")


def usable(text: object, what: str) -> str | Failure:
    """A text that can be put into a prompt, stripped; a failure if it cannot.

    Args:
        text: anything.
        what: it is, for the reason: "the text".
    """
    found = stripped_text(text)
    return replace(found, detail=f"{what} {found}") if isinstance(found, Failure) else found
