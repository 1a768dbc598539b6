"""Prompts: text files of a metric, filled in a single pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def read_prompt_file(folder: str, name: str) -> str:
    """Text of ``prompts/NAME.txt`` in a folder of this package, such as "posh"."""
    file = resources.files("posh_reward").joinpath(f"{folder}/prompts/{name}.txt")
    return file.read_text(encoding="utf-8")


@cache
def load_sections(folder: str, name: str) -> Mapping[str, str]:
    """Map each ``[heading]`` of a folder's ``prompts/NAME.txt`` to the text below it."""
    pieces = re.split(r"^\[([a-z._]+)\]\n", read_prompt_file(folder, name), flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))


def fill_fields(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value in a single pass; other braces, such as JSON's, stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
