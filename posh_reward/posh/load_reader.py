"""Sentence readers by name or by settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.models.model import ADDRESS_PREFIXES, MODELS, SHIPPED_MODELS, model_settings
from posh_reward.posh.judge import Judge, PromptJudge, SentenceReader
from posh_reward.settings import SETTINGS_SUFFIXES, build_from_settings
from posh_reward.store import Store

READERS = {
    "embedded": "posh_reward.embedded.judge:EmbeddedJudge",
    "nli": "posh_reward.models.nli:NliReader",
}
"""Readers that are no language models: name -> ``module:class``."""


def resolve_reader(
    which: str | Mapping[str, Any] | SentenceReader,
    judge: Judge,
    preset: str = "released",
    store: Store | None = None,
) -> SentenceReader:
    """Return a reader that was passed in, or load one.

    Args:
        which: "judge"; "embedded"; a language model, as for ``load_judge``; or an NLI
            cross-encoder: a folder, a name on the hub, ``module:function``, or
            ``{"name": "nli", "model": ...}``.
        judge: the metric's own, without a cascade around it.
        preset: wording before the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the reader is unknown, or the judge cannot read sentences.
        ConfigError: the settings have a value that cannot be used.
    """
    if which == "judge":
        which = judge  # type: ignore[assignment]  # if it reads
    if not isinstance(which, str | Mapping):
        if not hasattr(which, "read"):
            raise InputError(
                f"{getattr(which, 'name', repr(which))} does not read sentences: as reader, name "
                "embedded, a model or its settings, or pass a SentenceReader"
            )
        return which
    options = read_reader(which)
    if options["name"] in READERS:
        reader: SentenceReader = build_from_settings(READERS, options, "reader")
        return reader
    options.pop("preset", None)
    return PromptJudge(build_from_settings(MODELS, options, "reader"), preset, store)


def read_reader(which: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a reader's settings, with its ``name``: embedded, nli, or a language model's."""
    if isinstance(which, str) and not _names_model(which):
        return {"name": "nli", "model": which}
    return model_settings(which, (*READERS, *MODELS), "reader")


def _names_model(which: str) -> bool:
    """Return True for a known name, an address or settings; any other is a cross-encoder's."""
    is_file = Path(which).suffix.lower() in SETTINGS_SUFFIXES
    known = (*MODELS, *SHIPPED_MODELS, *READERS)
    return is_file or which in known or which.startswith(ADDRESS_PREFIXES)
