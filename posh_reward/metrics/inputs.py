"""Inputs of all metrics: checks of lists and texts, and prompts as files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources

from posh_reward.errors import InputError
from posh_reward.graph.reader import stripped_text
from posh_reward.types import Failure


def check_lists(**lists: Sequence[object]) -> None:
    """Check that arguments are lists of equal length.

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
    """Check that arguments are at least 1.

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
        what: subject of the reason, such as "the text".
    """
    stripped = stripped_text(text)
    if isinstance(stripped, Failure):
        return replace(stripped, detail=f"{what} {stripped}")
    return stripped


def joined_references(references: Sequence[str]) -> str:
    """Several references of one image as one text, each as a sentence."""
    return " ".join(each.strip().rstrip(" .") + "." for each in references)


@cache
def wording(package: str, name: str) -> str:
    """The text of a package's ``prompts/NAME.txt``."""
    return resources.files(package).joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")


@cache
def sections(package: str, name: str) -> Mapping[str, str]:
    """The texts of a package's ``prompts/NAME.txt`` that stand under ``[headings]``."""
    pieces = re.split(r"^\[([a-z._]+)\]\n", wording(package, name), flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with each name in braces that has a value replaced by it, in a single pass.

    For texts with other braces in them, such as JSON.
    """
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
