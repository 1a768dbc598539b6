"""``--check``: what a recipe would run, and whether it fits; loads no weights, needs no card."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from posh_reward.datasets.load_dataset import check_local_columns, is_drawn, scene_options
from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.metrics.load_metric import load_metric, metric_flags, read_metric
from posh_reward.metrics.posh.judges.load_judge import WITNESSES
from posh_reward.models.model import MODELS, model_settings
from posh_reward.study.judges.question_set import read_question_set
from posh_reward.training.combinations import remarks, shaping_of
from posh_reward.training.fit.fit_report import assumptions, fits, report
from posh_reward.training.fit.model_shapes import PUBLISHED
from posh_reward.training.fit.training_run import TrainingRun, run_of
from posh_reward.training.processes import Processes, read_processes
from posh_reward.training.requirements import missing_packages
from posh_reward.training.run_settings import (
    CHECK,
    config_chain,
    parse,
    parse_for,
    read_config,
    refuse,
)

HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")  # the form of a name on the hub


@dataclass(frozen=True, slots=True)
class RunCheck:
    """A run whose settings have been taken through its own code."""

    launcher: Path | None  # Accelerate's configuration, which the launch line names
    there: Processes
    script: Any
    args: Any
    model: Any
    run: TrainingRun | None  # None for a model of unknown shape
    missing: tuple[str, ...]  # packages and files that this machine lacks, with the remedy
    on_cpu: bool  # the run is to use no card. args do not tell: they are made on the CPU.


def parse_settings(kinds: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Parse the settings of a recipe's run: one object of each dataclass.

    Args:
        kinds: the dataclasses of a recipe: its own, the trainer's, the model's.
        argv: flags; by default those of the command line.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or the trainer would refuse a
            combination later, after the weights have been loaded.
        SystemExit: with ``--check``, after saying what would run.
    """
    flags = list(sys.argv[1:] if argv is None else argv)
    if CHECK in flags:
        flags.remove(CHECK)
        raise SystemExit(check(kinds, flags))
    settings = parse(kinds, flags)
    refuse(settings, Processes.of_this_run(settings[1]))
    return settings


def check(kinds: Sequence[type], flags: Sequence[str]) -> int:
    """Print what would run; return an exit status.

    It is 1 if the run does not fit, and 3 if it fits but something is not here.

    Raises:
        ConfigError: the run would not start.
    """
    result = check_run(kinds, flags)
    print("\n".join(check_lines(result)))
    if result.run is not None and not result.on_cpu and not fits(result.run):
        return 1
    return 3 if result.missing else 0


def check_run(
    kinds: Sequence[type], flags: Sequence[str], there: Processes | None = None
) -> RunCheck:
    """Take a run's settings through its own code, up to where weights would be read.

    Raises:
        ConfigError: the run would not start.
    """
    from trl import get_peft_config, get_quantization_config

    config = following(flags, "--config")
    launcher = accelerate_config(Path(config)) if config else None
    if there is None:
        there = read_processes(launcher) if launcher else Processes()
    script, args, model = parse_for(kinds, flags, there)
    check_name("dataset_name", script.dataset_name)
    check_name("model_name_or_path", model.model_name_or_path)
    get_peft_config(model)
    get_quantization_config(model)
    metric = metric_of(script)
    check_oracle(metric.get("witness"), script.dataset_name)
    if Path(script.dataset_name).exists() and hasattr(script, "reference_column"):
        split = script.dataset_train_split
        check_local_columns(Path(script.dataset_name), split, script.reference_column)
    missing = (
        *missing_packages(args, model, metric, there),
        *_unasked_witness(script, metric),
        *_missing_questions(script),
    )
    run = run_of(script, args, model, there) if _is_here(model) else None
    return RunCheck(launcher, there, script, args, model, run, missing, _on_cpu(flags, config))


def _on_cpu(flags: Sequence[str], config: str | None) -> bool:
    if "--use_cpu" in flags:
        return (following(flags, "--use_cpu") or "").lower() != "false"
    return bool(config and read_config(Path(config)).get("use_cpu"))


def accelerate_config(config: Path) -> Path | None:
    """Find the file after ``--config_file`` in a configuration's launch line.

    Raises:
        ConfigError: it is not there, or the configuration cannot be read.
    """
    path, words = launch_line(config)
    name = following(words, "--config_file")
    if name is None:
        return None
    for folder in (Path(), *path.resolve().parents):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{path}: its launch line names {name}, which is not there")


def launch_line(config: Path) -> tuple[Path, list[str]]:
    """Split the launch line, a configuration's first comment, into words.

    A configuration without one is launched like that which it inherits from.

    Returns:
        The file that has the line, and no words if there is none.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    for path, _ in config_chain(config):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        words = first.lstrip("#").split()
        launches = "--config_file" in words or any(word.endswith(".py") for word in words)
        if first.startswith("#") and launches:
            return path, words
    return config, []


def following(words: Sequence[str], flag: str) -> str | None:
    """Return the word after a flag; None without the flag."""
    return next((value for word, value in pairwise(words) if word == flag), None)


def check_name(what: str, name: str | None) -> None:
    """Raise ConfigError, or InputError, unless a model or dataset could have this name."""
    if name is None:
        raise ConfigError(f"{what} is not set: add it to the configuration or as a flag")
    if what == "dataset_name" and is_drawn(name):
        scene_options(name)
    elif not Path(name).exists() and not HUB.fullmatch(name):
        raise ConfigError(f"{what} is {name!r}: there is no such file, and no such name on a hub")


def check_lines(result: RunCheck) -> Iterator[str]:
    """Describe what would run, line by line."""
    args, there = result.args, result.there
    sharding = f"ZeRO-{there.zero_stage}" if there.zero_stage else "no DeepSpeed"
    yield f"processes: {there.processes} on {there.machines} machine(s), {sharding}"
    if result.launcher is not None:
        yield f"  from {result.launcher}"
    yield f"model: {result.model.model_name_or_path}, {_parameters(result)}"
    yield f"data: {result.script.dataset_name}"
    if hasattr(args, "num_generations"):
        yield f"reward: {_reward(result.script)}"
        yield f"metric: {', '.join(f'{k} {v}' for k, v in _metric(result.script).items())}"
    rows = args.per_device_train_batch_size * there.processes * args.gradient_accumulation_steps
    unit = "completions" if hasattr(args, "num_generations") else "images"
    unit = "trees of up to 8 prompts" if hasattr(result.script, "max_prompt_tokens") else unit
    length = (
        f"{args.max_steps} steps" if args.max_steps > 0 else f"{args.num_train_epochs:g} epochs"
    )
    yield f"each step: {rows} {unit}; learning rate {args.learning_rate:g}; {length}"
    yield f"output: {args.output_dir}"
    yield from (f"not here: {line}" for line in result.missing)
    yield from (f"note: {line}" for line in remarks(result.script, args, there))
    if result.on_cpu:
        yield "memory: of no card, it runs on the CPU"
    elif result.run is None:
        yield f"memory: unknown, {result.model.model_name_or_path} is not there yet"
    else:
        yield from report(result.run)
        yield from assumptions()


def _reward(script: Any) -> str:
    """Name the objective, and what else of the shaping differs from its defaults."""
    shaping = shaping_of(script)
    return ", ".join(
        f"{each.name} {value}"
        for each in fields(shaping)
        if (value := getattr(shaping, each.name)) != each.default or each.name == "objective"
    )


def _parameters(result: RunCheck) -> str:
    if result.run is None:
        return "all parameters" if not result.model.use_peft else "adapters"
    trained = result.run.parameters.trained
    what = "of adapters" if result.run.parameters.frozen else "of all parameters"
    return f"{trained / 1e6:,.1f} million {what} in {result.model.dtype}"


def metric_of(script: Any) -> dict[str, Any]:
    """Return the metric's settings, without its store; empty for a recipe without a metric."""
    if not hasattr(script, "metric"):
        return {}
    settings = read_metric(script.metric, **metric_flags(script))
    settings.pop("store", None)
    return settings


def check_oracle(witness: object, dataset: str) -> None:
    """Check that an oracle knows the images of a run.

    Raises:
        ConfigError: it knows others.
        InputError: an option of the drawn images is unknown.
    """
    scenes = _scenes_of(witness)
    if scenes is None:
        return
    remedy = f"witness names {scenes!r}, dataset_name {dataset!r}: name the same images"
    if not is_drawn(dataset):
        raise ConfigError(f"the oracle knows drawn images only ({remedy}, or another witness)")
    theirs, ours = scene_options(scenes), scene_options(dataset)
    alike = replace(theirs, train=ours.train, heldout=ours.heldout, uneven=ours.uneven) == ours
    if not alike or theirs.train < ours.train or theirs.heldout < ours.heldout:
        raise ConfigError(f"the oracle does not know these images ({remedy})")


def _scenes_of(witness: object) -> str | None:
    """Return the name of an oracle's drawn images; None for another witness."""
    if isinstance(witness, str) and is_drawn(witness):
        return witness
    if not isinstance(witness, str | Mapping) or witness == "judge":
        return None
    options = model_settings(witness, (*WITNESSES, *MODELS), "witness")
    return str(options.get("dataset", "scenes")) if options["name"] == "oracle" else None


def _metric(script: Any) -> dict[str, object]:
    defaults = {"judge": "embedded", "parser": "embedded", "coref": "rules", "preset": "released"}
    settings = defaults | metric_of(script)
    for name in ("judge", "witness"):
        if isinstance(options := settings.get(name), dict):
            settings[name] = options.get("model", options["name"])
    return settings


def _unasked_witness(script: Any, metric: Mapping[str, Any]) -> Iterator[str]:
    """Check the metric's settings by making it, if it can be, and that its witness can be asked."""
    if not hasattr(script, "metric"):
        return
    settings = {name: value for name, value in metric.items() if name != "witness"}
    try:
        load_metric(settings)
    except MissingDependencyError:
        settings["coref"] = "rules"
        load_metric(settings)
    if "witness" not in metric:
        return
    try:
        load_metric(settings, witness=metric["witness"])
    except (MissingDependencyError, JudgeError) as error:
        yield f"the witness could not be asked whether it takes images: {error}"


def _missing_questions(script: Any) -> Iterator[str]:
    if not hasattr(script, "max_prompt_tokens"):
        return
    try:
        read_question_set(Path(script.dataset_name))
    except ConfigError as error:
        yield str(error)


def _is_here(model: Any) -> bool:
    name = model.model_name_or_path
    return name in PUBLISHED or (Path(name) / "config.json").is_file()
