"""Names of judges -> judges. Each is imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.posh.judges.cascade import Cascade
from posh_reward.metrics.posh.judges.embedded import EmbeddedJudge
from posh_reward.metrics.posh.judges.judge import Judge, Witness
from posh_reward.metrics.posh.judges.prompt_judge import PromptJudge
from posh_reward.models.model import MODELS, model_settings
from posh_reward.settings import ENDINGS, brief, make
from posh_reward.store import Store

JUDGES = {
    "embedded": "posh_reward.metrics.posh.judges.embedded:EmbeddedJudge",
    "cascade": "posh_reward.metrics.posh.judges.cascade:Cascade",
    "fake": "posh_reward.metrics.posh.judges.fake_judge:FakeJudge",
}
"""Judges that read scene graphs: name -> ``module:class``. Language models are in
``models.model.MODELS``; the ``judge`` of a cascade may be any of both."""

WITNESSES = {"oracle": "posh_reward.metrics.posh.judges.oracle:Oracle"}
"""Witnesses that are no judges of texts; any model that sees is one, too."""


def load_judge(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Judge:
    """The judge of that name, or the one that a settings file or mapping describes.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}`` with
            the arguments of that judge's class.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: there is none of that name; the message lists those there are. Or its settings
            name another preset, the only one whose wording it has learned.
        ConfigError: the settings have a value that cannot be used.
    """
    options = _settings(which, (*JUDGES, *MODELS), "judge")
    _check_wording(options, preset, which)
    if options["name"] == "cascade":
        stages = {role: options[role] for role in ("judge", "first") if options.get(role)}
        options |= {role: load_judge(stage, preset, store) for role, stage in stages.items()}
    if options["name"] in JUDGES:
        judge: Judge = make(JUDGES, options, "judge")
        return judge
    return PromptJudge(make(MODELS, options, "judge"), preset, store)


def _check_wording(options: dict[str, Any], preset: str, which: object) -> None:
    """Take the preset out of a judge's settings; another than the metric's is refused."""
    learned = options.pop("preset", preset)
    if learned != preset:
        raise InputError(
            f"{brief(which)} has learned the wording of preset {brief(learned)}, not of {preset!r}:"
            f" set preset to {brief(learned)}"
        )


def _settings(which: object, names: Sequence[str], role: str) -> dict[str, Any]:
    """``model_settings``; stages of a cascade's file may stand beside it."""
    options = model_settings(which, names, role)
    if options["name"] == "cascade" and isinstance(which, str):
        # A distilled judge's folder may be moved as a whole.
        stages = {stage: options[stage] for stage in ("judge", "first") if options.get(stage)}
        options |= {stage: _beside(Path(which), each) for stage, each in stages.items()}
    return options


def _beside(settings: Path, stage: Any) -> Any:
    """A stage's settings file, if it stands in the folder of the cascade's; else the stage."""
    if not isinstance(stage, str) or not stage.lower().endswith(ENDINGS):
        return stage
    file = settings.parent / stage
    return str(file) if file.is_file() else stage


def load_witness(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Witness:
    """The witness of that name, or the one that a settings file or mapping describes.

    Args:
        which: a name, a settings file or a mapping, as for ``load_judge``, of a model that sees or
            of the oracle; or the name of drawn images, such as "scenes:train=2000:plain=1", for
            the oracle that knows them.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: there is none of that name, or the model does not take images.
        ConfigError: the settings have a value that cannot be used.
    """
    if _is_drawn(which):
        which = {"name": "oracle", "dataset": which}
    options = model_settings(which, (*WITNESSES, *MODELS), "witness")
    _check_wording(options, preset, which)
    if options["name"] in WITNESSES:
        witness: Witness = make(WITNESSES, options, "witness")
        return witness
    return PromptJudge(make(MODELS, options, "witness"), preset, store)


def engine_settings(which: object, role: str) -> dict[str, Any]:
    """Settings of the language model behind a judge or a witness; empty if there is none.

    Args:
        which: settings, as for ``load_judge`` or ``load_witness``; "judge" has no model of its own.
        role: "judge" or "witness", for messages.

    Raises:
        InputError: there is none of that name.
        ConfigError: the settings cannot be read.
    """
    if which in (None, "judge") or _is_drawn(which):
        return {}
    options = _settings(which, (*JUDGES, *WITNESSES, *MODELS), role)
    if options["name"] == "cascade":
        return engine_settings(options.get("judge"), role)
    return options if options["name"] in MODELS else {}


def _is_drawn(which: object) -> bool:
    """True for the name of drawn images, which stands for the oracle that knows them."""
    return isinstance(which, str) and which.partition(":")[0] == "scenes"


def witness_of(
    which: str | Mapping[str, Any] | Witness, judge: Judge, preset: str, store: Store | None
) -> Witness:
    """The witness itself, or the one that is named; "judge" is the judge that is passed.

    Raises:
        InputError: there is no such witness, or it cannot look at images.
        ConfigError: its settings have a value that cannot be used.
    """
    if isinstance(which, str) and which == "judge":
        return check_sees(judge)
    if isinstance(which, str | Mapping):
        return check_sees(load_witness(which, preset, store))
    return check_sees(which)


def check_sees(witness: Witness) -> Witness:
    """Return the witness, if it can look at images.

    Raises:
        InputError: it is not a witness, reads texts only, or asks a model that takes no images.
    """
    if not hasattr(witness, "grade"):
        raise InputError(f"witness is {witness!r}: give a name, a settings file or a Witness")
    blind = isinstance(witness, PromptJudge) and not witness.model.sees
    if blind or isinstance(witness, EmbeddedJudge | Cascade):
        raise InputError(
            f"the witness {witness.name!r} does not take images: name a model that sees"
        )
    return witness


def check_asks_alike(judge: PromptJudge, preset: str, store: Store | None) -> None:
    """Check that a judge goes with the metric's preset and store.

    Raises:
        InputError: it does not.
    """
    if judge.preset != preset:
        raise InputError(
            f"the judge asks by preset {judge.preset!r}, the metric by {preset!r}: use the same"
        )
    if store is not None and judge.store is None:
        raise InputError(
            "the judge was made without the store, so its answers would not be kept: pass the "
            "store to PromptJudge as well"
        )
