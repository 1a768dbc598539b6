"""The wording of prompts, which is data: files of texts under ``[headings]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def sections(package: str, name: str) -> Mapping[str, str]:
    """The texts of a package's ``prompts/NAME.txt``, by heading."""
    text = resources.files(package).joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")
    pieces = re.split(r"^\[([a-z._]+)\]\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], (piece.strip("\n") for piece in pieces[1::2]), strict=True))
