"""Lists of texts as callers give them -> what can be scored."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.errors import InputError
from posh_reward.graph.read import is_missing
from posh_reward.types import Failure

LONGEST = 20_000
"""Characters of a text that is scored. A longer one is a runaway generation."""


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
            raise InputError(
                f"{len(values)} {first} but {len(each)} {name}: pass one of the {name} for each "
                f"of the {first}"
            )


def usable(text: object, what: str) -> str | Failure:
    """A text that can be put into a prompt, stripped; a failure if it cannot.

    Args:
        text: anything.
        what: it is, for the reason: "the text".
    """
    if is_missing(text):
        return Failure("text", f"{what} is missing")
    if not isinstance(text, str):
        return Failure("text", f"{what} is not a text but a value of type {type(text).__name__}")
    stripped = text.strip()
    if len(stripped) > LONGEST:
        return Failure("text", f"{what} is longer than {LONGEST:,} characters: shorten it")
    if any("\ud800" <= character <= "\udfff" for character in stripped):
        return Failure("text", f"{what} holds half a surrogate pair, which is not Unicode text")
    return stripped
