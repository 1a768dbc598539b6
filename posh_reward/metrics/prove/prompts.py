"""The wording of questions to models: ``prompts/*.txt``, with names in braces for what varies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from posh_reward.models.base import Prompt
from posh_reward.types import Picture

EDITION = "1"
"""Of the wording; signatures carry it. Raise it with any change of a prompt."""
SPLIT = "---\n"
"""Ends the part of a prompt that many questions share."""


def prompted(name: str, values: Mapping[str, str], pictures: tuple[Picture, ...] = ()) -> Prompt:
    """The prompt of one file, filled in a single pass.

    Args:
        name: file in ``prompts/``, without its ending.
        values: what replaces each name in braces.
        pictures: shown before the text.
    """
    prefix, _, suffix = _wording(name).rpartition(SPLIT)
    return Prompt(_filled(prefix, values), _filled(suffix, values), pictures)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


@cache
def _wording(name: str) -> str:
    path = resources.files(__package__).joinpath(f"prompts/{name}.txt")
    return path.read_text(encoding="utf-8").strip()
