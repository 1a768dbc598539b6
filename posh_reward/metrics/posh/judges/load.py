"""Names of judges -> judges. Each is imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.metrics.posh.judges.judge import Judge
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from posh_reward.models.load import MODELS, model_settings
from posh_reward.settings import make
from posh_reward.store import Store

JUDGES = {
    "embedded": "posh_reward.metrics.posh.judges.embedded:EmbeddedJudge",
    "cascade": "posh_reward.metrics.posh.judges.cascade:Cascade",
    "fake": "posh_reward.metrics.posh.judges.fake:FakeJudge",
}
"""Judges that read scene graphs: name -> ``module:class``. Language models are in
``models.load.MODELS``; the ``judge`` of a cascade may be any of both."""


def load_judge(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Judge:
    """The judge of that name, or the one that a settings file or mapping describes.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}`` with
            the arguments of that judge's class.
        preset: wording of the questions to language models.
        store: where language models' answers are kept.

    Raises:
        InputError: there is none of that name; the message lists those there are.
        ConfigError: the settings have a value that cannot be used.
    """
    options = model_settings(which, (*JUDGES, *MODELS), "judge")
    if options["name"] == "cascade" and "judge" in options:
        options["judge"] = load_judge(options["judge"], preset, store)
    if options["name"] in JUDGES:
        judge: Judge = make(JUDGES, options, "judge")
        return judge
    return PromptJudge(make(MODELS, options, "judge"), preset, store)
