"""The wording of prompts, which is data: files in a package's ``prompts/``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


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
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)
