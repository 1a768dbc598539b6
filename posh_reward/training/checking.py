"""``--check``: what a recipe would run, and whether it fits. Loads no weights, needs no card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from posh_reward.datasets.load_dataset import scene_options
from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.metrics.load_metric import load_metric, metric_flags, read_metric
from posh_reward.metrics.posh.judges.load_judge import WITNESSES
from posh_reward.models.load_model import MODELS, model_settings
from posh_reward.training.arguments import parsed_for
from posh_reward.training.combinations import remarks
from posh_reward.training.fit.report import assumptions, fits, report
from posh_reward.training.fit.run import Run, run_of
from posh_reward.training.processes import Processes, read_processes

HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""The form of a name on the hub."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A run that was checked."""

    launched: Path | None
    """Accelerate's configuration, which the launch line names."""
    there: Processes
    script: Any
    args: Any
    model: Any
    run: Run | None
    """None for a model whose shape is not known."""
    missing: tuple[str, ...]
    """What would be needed, and is not installed here."""


def check(kinds: Sequence[type], flags: Sequence[str]) -> int:
    """Prints what would run; returns an exit status: 1 if it does not fit.

    Raises:
        ConfigError: the run would not start.
    """
    found = checked(kinds, flags)
    print("\n".join(described(found)))
    return 0 if found.run is None or fits(found.run) else 1


def checked(kinds: Sequence[type], flags: Sequence[str]) -> Checked:
    """Takes a run's settings through its own code, up to where weights would be read.

    Args:
        kinds: the recipe's dataclasses.
        flags: the recipe's flags.

    Raises:
        ConfigError: the run would not start.
    """
    from trl import get_peft_config, get_quantization_config

    config = following(flags, "--config")
    launched = accelerate_config(Path(config)) if config else None
    there = read_processes(launched) if launched else Processes()
    script, args, model = parsed_for(kinds, flags, there)
    check_name("dataset_name", script.dataset_name)
    check_name("model_name_or_path", model.model_name_or_path)
    get_peft_config(model)
    get_quantization_config(model)
    metric = metric_of(script)
    check_oracle(metric.get("witness"), script.dataset_name)
    missing = tuple(_missing(metric)) if hasattr(script, "metric") else ()
    run = run_of(script, args, model, there) if _shaped(model) else None
    return Checked(launched, there, script, args, model, run, missing)


def accelerate_config(config: Path) -> Path | None:
    """The file after ``--config_file`` in the launch line, a configuration's first comment.

    Raises:
        ConfigError: it is not there.
    """
    words = config.read_text(encoding="utf-8").partition("\n")[0].split()
    named = following(words, "--config_file")
    if named is None:
        return None
    for folder in (Path(), *config.resolve().parents):
        if (folder / named).is_file():
            return folder / named
    raise ConfigError(f"{config}: its launch line names {named}, which is not there")


def following(words: Sequence[str], flag: str) -> str | None:
    """The word after a flag, if it is there."""
    return next((value for word, value in pairwise(words) if word == flag), None)


def check_name(what: str, name: str | None) -> None:
    """Raises ConfigError, or InputError, unless a model or dataset could have this name."""
    if name is None:
        raise ConfigError(f"{what} is not set: add it to the configuration or as a flag")
    if what == "dataset_name" and _is_drawn(name):
        scene_options(name)
    elif not Path(name).exists() and not HUB.fullmatch(name):
        raise ConfigError(f"{what} is {name!r}: there is no such file, and no such name on a hub")


def described(found: Checked) -> Iterator[str]:
    """What would run, line by line."""
    args, there = found.args, found.there
    yield f"processes: {there.processes} on {there.machines} machine(s), {_sharding(there)}"
    if found.launched is not None:
        yield f"  from {found.launched}"
    yield f"model: {found.model.model_name_or_path}, {_trained(found)}"
    yield f"data: {found.script.dataset_name}"
    if hasattr(args, "num_generations"):
        yield f"metric: {', '.join(f'{k} {v}' for k, v in _metric(found.script).items())}"
    rows = args.per_device_train_batch_size * there.processes * args.gradient_accumulation_steps
    unit = "completions" if hasattr(args, "num_generations") else "images"
    length = (
        f"{args.max_steps} steps" if args.max_steps > 0 else f"{args.num_train_epochs:g} epochs"
    )
    yield f"each step: {rows} {unit}; learning rate {args.learning_rate:g}; {length}"
    yield f"output: {args.output_dir}"
    for line in found.missing:
        yield f"not here: {line}"
    for line in remarks(found.script, args, there):
        yield f"note: {line}"
    if found.run is None:
        yield f"memory: not worked out, {found.model.model_name_or_path} is not there yet"
    elif there.processes > 1 or not args.use_cpu or found.launched is not None:
        yield from report(found.run)
        yield from assumptions()


def _sharding(there: Processes) -> str:
    return f"ZeRO-{there.zero_stage}" if there.zero_stage else "no DeepSpeed"


def _trained(found: Checked) -> str:
    if found.run is None:
        return "all parameters" if not found.model.use_peft else "adapters"
    trained = found.run.parameters.trained
    what = "of adapters" if found.run.parameters.frozen else "of all parameters"
    return f"{trained / 1e6:,.1f} million {what} in {found.model.dtype}"


def metric_of(script: Any) -> dict[str, Any]:
    """Settings of the run's metric, without its store; empty for a recipe that has no metric."""
    if not hasattr(script, "metric"):
        return {}
    settings = read_metric(script.metric, **metric_flags(script))
    settings.pop("store", None)
    return settings


def check_oracle(witness: object, dataset: str) -> None:
    """Checks that an oracle knows the images of a run.

    Raises:
        ConfigError: it knows others.
        InputError: an option of the drawn images is unknown.
    """
    known = _oracles(witness)
    if known is None:
        return
    remedy = f"witness names {known!r}, dataset_name {dataset!r}: name the same images"
    if not _is_drawn(dataset):
        raise ConfigError(f"the oracle knows drawn images only ({remedy}, or another witness)")
    theirs, ours = scene_options(known), scene_options(dataset)
    alike = replace(theirs, train=ours.train, heldout=ours.heldout, uneven=ours.uneven) == ours
    if not alike or theirs.train < ours.train or theirs.heldout < ours.heldout:
        raise ConfigError(f"the oracle does not know these images ({remedy})")


def _oracles(witness: object) -> str | None:
    """The drawn images that an oracle knows; None of another witness."""
    if isinstance(witness, str) and _is_drawn(witness):
        return witness
    if not isinstance(witness, str | Mapping) or witness == "judge":
        return None
    options = model_settings(witness, (*WITNESSES, *MODELS), "witness")
    return str(options.get("dataset", "scenes")) if options["name"] == "oracle" else None


def _is_drawn(name: str) -> bool:
    return name == "scenes" or name.startswith("scenes:")


def _metric(script: Any) -> dict[str, object]:
    defaults = {"judge": "embedded", "parser": "embedded", "coref": "rules", "preset": "released"}
    settings = defaults | metric_of(script)
    for name in ("judge", "witness"):
        given = settings.get(name)
        if isinstance(given, dict):
            settings[name] = given.get("model", given["name"])
    return settings


def _missing(metric: Mapping[str, Any]) -> Iterator[str]:
    """What the metric needs and is not installed, or not downloaded, here."""
    settings = {name: value for name, value in metric.items() if name != "witness"}
    try:
        load_metric(settings)
    except MissingDependencyError as error:
        yield str(error)
        settings["coref"] = "rules"
        load_metric(settings)
    if "witness" not in metric:
        return
    try:
        load_metric(settings, witness=metric["witness"])
    except (MissingDependencyError, JudgeError) as error:
        yield f"whether the witness takes images cannot be found out: {error}"


def _shaped(model: Any) -> bool:
    """Whether the model is there, or is one of the hub's."""
    name = model.model_name_or_path
    from posh_reward.training.fit.shapes import PUBLISHED

    return name in PUBLISHED or (Path(name) / "config.json").is_file()
