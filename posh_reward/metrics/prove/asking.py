"""How models are asked: the wording in ``prompts/*.txt``, and a model awake only meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources

from posh_reward.models.ask import Asker
from posh_reward.models.base import Prompt
from posh_reward.types import Picture, Reply, Verdict

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


def written(asker: Asker, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    """The model's reply to each prompt."""
    with _awake(asker, prompts):
        return asker.write(prompts, max_tokens) if prompts else []


def chosen(asker: Asker, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
    """The model's distribution over the labels for each prompt."""
    with _awake(asker, prompts):
        return asker.choose(prompts, labels) if prompts else []


@contextmanager
def _awake(asker: Asker, prompts: Sequence[Prompt]) -> Iterator[None]:
    """Wakes the model, if it is going to be asked at all, and lets it sleep again."""
    if not prompts:
        yield
        return
    asker.model.wake()
    try:
        yield
    finally:
        asker.model.sleep()
