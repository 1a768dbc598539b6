"""Judges and witnesses by name or by settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posh_reward.datasets.load_dataset import is_drawn
from posh_reward.errors import InputError
from posh_reward.models.model import MODELS, model_settings
from posh_reward.posh.judge import Judge, PromptJudge, Witness, takes_images
from posh_reward.posh.load_reader import read_reader
from posh_reward.settings import SETTINGS_SUFFIXES, build_from_settings, shorten
from posh_reward.store import Store

JUDGES = {
    "embedded": "posh_reward.embedded.judge:EmbeddedJudge",
    "cascade": "posh_reward.posh.cascade:Cascade",
    "fake": "posh_reward.posh.fake_judge:FakeJudge",
}
"""Judges that read scene graphs: name -> ``module:class``. Language models are in
``models.model.MODELS``. The ``judge`` of a cascade may be either."""

WITNESSES = {"oracle": "posh_reward.posh.oracle:Oracle"}
"""Witnesses that do not judge texts. Every model that takes images is a witness, too."""

ROLES = ("judge", "witness", "reader")  # settings of a metric that may be models
STAGES = ("judge", "first")  # settings of a cascade that are judges themselves


def load_judge(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Judge:
    """Load a judge by name, settings file or mapping.

    Args:
        which: a name, a path that ends in ``.yaml`` or ``.json``, or ``{"name": ..., ...}`` with
            the arguments of that judge's class.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the name is unknown; the message lists the known ones. Or the settings name
            another preset, the only one that the judge was trained on.
        ConfigError: the settings have a value that cannot be used.
    """
    options = _read_settings(which, (*JUDGES, *MODELS), "judge")
    _check_preset(options, preset, which)
    if options["name"] == "cascade":
        stages = [stage for stage in STAGES if options.get(stage)]
        options |= {stage: load_judge(options[stage], preset, store) for stage in stages}
    if options["name"] in JUDGES:
        judge: Judge = build_from_settings(JUDGES, options, "judge")
        return judge
    return PromptJudge(build_from_settings(MODELS, options, "judge"), preset, store)


def _check_preset(options: dict[str, Any], preset: str, which: object) -> None:
    """Take the preset out of a judge's settings; refuse it unless it is the metric's."""
    learned = options.pop("preset", preset)
    if learned != preset:
        raise InputError(
            f"{shorten(which)} has learned the wording of preset {shorten(learned)}, not of "
            f"{preset!r}: set preset to {shorten(learned)}"
        )


def _read_settings(which: object, names: Sequence[str], role: str) -> dict[str, Any]:
    """Return ``model_settings``; find the stages of a cascade's file in its own folder.

    So the folder of a distilled judge can be moved as a whole.
    """
    options = model_settings(which, names, role)
    if options["name"] == "cascade" and isinstance(which, str):
        for stage in STAGES:
            name = options.get(stage)
            if isinstance(name, str) and name.lower().endswith(SETTINGS_SUFFIXES):
                file = Path(which).parent / name
                if file.is_file():
                    options[stage] = str(file)
    return options


def load_witness(
    which: str | Mapping[str, Any], preset: str = "released", store: Store | None = None
) -> Witness:
    """Load a witness by name, settings file or mapping.

    Args:
        which: as for ``load_judge``, for the oracle or a model that takes images; or the name of
            drawn images, such as "scenes:train=2000:plain=1", for the oracle that knows them.
        preset: wording of the questions to language models.
        store: keeps language models' answers.

    Raises:
        InputError: the name is unknown, or the model does not take images.
        ConfigError: the settings have a value that cannot be used.
    """
    if is_drawn(which):
        which = {"name": "oracle", "dataset": which}
    options = model_settings(which, (*WITNESSES, *MODELS), "witness")
    _check_preset(options, preset, which)
    if options["name"] in WITNESSES:
        witness: Witness = build_from_settings(WITNESSES, options, "witness")
        return witness
    return PromptJudge(build_from_settings(MODELS, options, "witness"), preset, store)


def list_engines(metric: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """List the role and the settings of each model behind a metric, by the metric's settings."""
    found: list[tuple[str, dict[str, Any]]] = []
    for role in ROLES:
        found += engine_settings(metric.get(role), role)
    return found


def engine_settings(which: Any, role: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the role and the settings of each model behind a judge, a witness or a reader.

    A cascade may have two, the "judge" and the "first judge".
    """
    if which in (None, "judge") or is_drawn(which):
        return []
    if role == "reader":
        options = read_reader(which)
        return [] if options["name"] == "embedded" else [(role, options)]
    options = _read_settings(which, (*JUDGES, *WITNESSES, *MODELS), role)
    if options["name"] == "cascade":
        roles = {"judge": role, "first": f"first {role}"}
        found: list[tuple[str, dict[str, Any]]] = []
        for stage in STAGES:
            found += engine_settings(options.get(stage), roles[stage])
        return found
    if options["name"] not in MODELS:
        return []
    return [(role, options)]


def resolve_witness(
    which: str | Mapping[str, Any] | Witness, judge: Judge, preset: str, store: Store | None
) -> Witness:
    """Return a witness that was passed in, or load one by name; "judge" stands for ``judge``."""
    witness: Witness
    if which == "judge":
        witness = judge
    elif isinstance(which, str | Mapping):
        witness = load_witness(which, preset, store)
    else:
        witness = which
    if not hasattr(witness, "grade"):
        raise InputError(f"witness is {witness!r}: pass a name, a settings file or a Witness")
    if not takes_images(witness):
        raise InputError(
            f"the witness {witness.name!r} does not take images: name a model that sees"
        )
    return witness


def check_prompts_match(judge: PromptJudge, preset: str, store: Store | None) -> None:
    """Check that a judge or a reader uses the metric's preset and store."""
    if judge.preset != preset:
        raise InputError(
            f"{judge.name} asks by preset {judge.preset!r}, the metric by {preset!r}: use the same"
        )
    if store is not None and judge.store is None:
        raise InputError(
            f"{judge.name} was made without the store, so its answers would not be kept: pass "
            f"the store to {type(judge).__name__} as well"
        )
