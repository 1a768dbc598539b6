"""Sentence readers by name or by settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posh_reward.embedded.judge.embedded_judge import EmbeddedJudge
from posh_reward.embedded.judge.facts_reader import FactsReader
from posh_reward.errors import InputError
from posh_reward.models.model import ADDRESS_PREFIXES, MODELS, SHIPPED_MODELS, model_settings
from posh_reward.posh.judge import Judge, PromptJudge, SentenceReader
from posh_reward.posh.prompt_reader import PromptReader
from posh_reward.settings import SETTINGS_SUFFIXES, build_from_settings
from posh_reward.store import Store

READERS = {"nli": "posh_reward.models.nli:NliReader"}
"""Readers with settings of their own: name -> ``module:class``. Every model of ``MODELS`` is one,
too."""
OWN_READERS = ("judge", "facts")  # those without settings


def resolve_reader(
    which: str | Mapping[str, Any] | SentenceReader,
    judge: Judge,
    preset: str = "released",
    store: Store | None = None,
) -> SentenceReader:
    """Return a reader that was passed in, or load one.

    Args:
        which: "judge", the language model or the facts of ``judge``; "facts", those of an embedded
            judge; a language model, as for ``load_judge``; or an NLI cross-encoder: a folder, a
            name on the hub, ``module:function``, or ``{"name": "nli", "model": ...}``.
        judge: the metric's own, without a cascade around it.
        preset: wording before the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the reader is unknown, or the judge cannot read sentences.
        ConfigError: the settings have a value that cannot be used.
    """
    if not isinstance(which, str | Mapping):
        if not hasattr(which, "read"):
            raise InputError(f"reader is {which!r}: pass a name, settings or a SentenceReader")
        return which
    options = read_reader(which)
    if options["name"] == "judge":
        return _read_by_judge(judge, preset)
    if options["name"] == "facts":
        return FactsReader(judge if isinstance(judge, EmbeddedJudge) else EmbeddedJudge())
    if options["name"] in READERS:
        reader: SentenceReader = build_from_settings(READERS, options, "reader")
        return reader
    options.pop("preset", None)
    return PromptReader(build_from_settings(MODELS, options, "reader"), preset, store)


def read_reader(which: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a reader's settings, with its ``name``: judge, facts, nli, or a language model's."""
    if which in OWN_READERS:
        return {"name": which}
    if isinstance(which, str) and not _names_model(which):
        return {"name": "nli", "model": which}
    return model_settings(which, (*READERS, *MODELS), "reader")


def _read_by_judge(judge: Judge, preset: str) -> SentenceReader:
    if isinstance(judge, EmbeddedJudge):
        return FactsReader(judge)
    if isinstance(judge, PromptJudge):
        return PromptReader(judge.model, preset, judge.store)
    raise InputError(
        f"the judge {judge.name!r} cannot read sentences: name another reader, such as facts"
    )


def _names_model(which: str) -> bool:
    """Return True for a language model's name, address or settings; an encoder's is any other."""
    known = (*MODELS, *SHIPPED_MODELS, *READERS)
    return (
        which in known
        or which.startswith(ADDRESS_PREFIXES)
        or Path(which).suffix.lower() in SETTINGS_SUFFIXES
    )
