"""How models are asked: the wording in ``prompts/*.txt``, and a model awake only meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posh_reward.metrics.inputs import filled, wording
from posh_reward.models.asker import Asker
from posh_reward.models.model import Prompt
from posh_reward.types import PromptImage, Reply, Verdict

EDITION = "1"
"""Of the wording; signatures carry it. Raise it with any change of a prompt."""
SPLIT = "---\n"
"""Ends the part of a prompt that many questions share."""


def prompted(name: str, values: Mapping[str, str], images: tuple[PromptImage, ...] = ()) -> Prompt:
    """The prompt of one file, filled in a single pass.

    Args:
        name: file in ``prompts/``, without its ending.
        values: what replaces each name in braces.
        images: shown before the text.
    """
    prefix, _, suffix = wording(__package__ or "", name).strip().rpartition(SPLIT)
    return Prompt(filled(prefix, values), filled(suffix, values), images)


def written(asker: Asker, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
    """The model's reply to each prompt."""
    with asker.awake(prompts):
        return asker.write(prompts, max_tokens)


def chosen(asker: Asker, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
    """The model's distribution over the labels for each prompt."""
    with asker.awake(prompts):
        return asker.choose(prompts, labels)
