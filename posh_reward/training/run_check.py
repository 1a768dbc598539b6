"""``--check``: show what a recipe would run, and whether it fits, without weights or a GPU."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from posh_reward.datasets.load_dataset import check_dataset, is_drawn, prompt, scene_options
from posh_reward.errors import ConfigError, JudgeError, MissingDependencyError
from posh_reward.metrics.load_metric import load_metric, metric_flags, read_metric
from posh_reward.metrics.posh.judges.load_judge import WITNESSES
from posh_reward.models.model import MODELS, model_settings
from posh_reward.study.judges.question_set import read_question_set
from posh_reward.training.combinations import remarks, shaping_of
from posh_reward.training.fetch import Asset, is_here
from posh_reward.training.fit.memory import assumptions, fits, report
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

HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")  # form of a name on the hub


@dataclass(frozen=True, slots=True)
class RunCheck:
    """A run's checked settings."""

    launcher: Path | None  # accelerate's configuration, from the launch line
    layout: Processes
    script: Any
    args: Any
    model: Any
    run: TrainingRun | None  # None for a model of unknown shape
    missing: tuple[str, ...]  # packages and files that this machine lacks, with the remedy
    on_cpu: bool  # the run itself; ``args`` are always parsed for the CPU


def parse_settings(kinds: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Parse a recipe's settings into one object of each dataclass.

    Args:
        kinds: the recipe's own dataclass, the trainer's, the model's.
        argv: flags; by default those of the command line.

    Raises:
        ConfigError: a name is unknown, a value does not fit, or the trainer would refuse a
            combination after loading the weights.
        SystemExit: with ``--check``, after printing what would run.
    """
    flags = list(sys.argv[1:] if argv is None else argv)
    if CHECK in flags:
        flags.remove(CHECK)
        raise SystemExit(check(kinds, flags))
    settings = parse(kinds, flags)
    refuse(settings, Processes.of_this_run(settings[1]))
    return settings


def check(kinds: Sequence[type], flags: Sequence[str]) -> int:
    """Print what would run; return 1 if it does not fit, 3 if it fits but something is missing.

    Raises:
        ConfigError: the run would not start.
    """
    result = check_run(kinds, flags)
    print("\n".join(check_lines(result)))
    if result.run is not None and not result.on_cpu and not fits(result.run):
        return 1
    return 3 if result.missing else 0


def check_run(
    kinds: Sequence[type], flags: Sequence[str], layout: Processes | None = None
) -> RunCheck:
    """Check a run's settings with the run's own code, up to where weights would be loaded."""
    from trl import get_peft_config, get_quantization_config

    config = _value_of(flags, "--config")
    launcher = accelerate_config(Path(config)) if config else None
    if layout is None:
        layout = read_processes(launcher) if launcher else Processes()
    script, args, model = parse_for(kinds, flags, layout)
    _check_name("dataset_name", script.dataset_name)
    _check_name("model_name_or_path", model.model_name_or_path)
    get_peft_config(model)
    get_quantization_config(model)
    metric = metric_of(script)
    _check_oracle(metric.get("witness"), script.dataset_name)
    if hasattr(script, "prompt_text"):
        prompt(script.prompt_text)
        if data_is_here(script.dataset_name):
            check_dataset(script.dataset_name, used_splits(script, args), script.reference_column)
    missing = [*missing_packages(args, model, metric, layout), *_witness_problem(script, metric)]
    if hasattr(script, "max_prompt_tokens"):  # a student learns from a question set
        try:
            read_question_set(Path(script.dataset_name))
        except ConfigError as error:
            missing.append(str(error))
    name = model.model_name_or_path
    is_known = name in PUBLISHED or (Path(name) / "config.json").is_file()
    run = run_of(script, args, model, layout) if is_known else None
    on_cpu = _on_cpu(flags, config)
    return RunCheck(launcher, layout, script, args, model, run, tuple(missing), on_cpu)


def data_is_here(name: str) -> bool:
    """Return True if ``check_dataset`` would download nothing."""
    return is_drawn(name) or Path(name).exists() or is_here(Asset("dataset", "dataset", name))


def used_splits(script: Any, args: Any) -> list[str]:
    """Return the splits that a run loads."""
    evaluated = str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no"
    return [script.dataset_train_split, *([script.dataset_test_split] * evaluated)]


def _on_cpu(flags: Sequence[str], config: str | None) -> bool:
    if os.environ.get("ACCELERATE_TORCH_DEVICE") == "cpu":  # accelerate's own, before use_cpu
        return True
    if "--use_cpu" in flags:
        return (_value_of(flags, "--use_cpu") or "").lower() != "false"
    return bool(config and read_config(Path(config)).get("use_cpu"))


def accelerate_config(config: Path) -> Path | None:
    """Find the file after ``--config_file`` in a configuration's launch line, if it has one."""
    path, words = launch_line(config)
    name = _value_of(words, "--config_file")
    if name is None:
        return None
    for folder in (Path(), *path.resolve().parents):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{path}: its launch line names {name}, which does not exist: correct it")


def launch_line(config: Path) -> tuple[Path, list[str]]:
    """Split the launch line, a configuration's first comment, into words, if there is one.

    Without one, the line of the nearest ancestor (``like``) applies. Returns its file, too.
    """
    for path, _ in config_chain(config):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        words = first.lstrip("#").split()
        launches = "--config_file" in words or any(word.endswith(".py") for word in words)
        if first.startswith("#") and launches:
            return path, words
    return config, []


def _value_of(words: Sequence[str], flag: str) -> str | None:
    return next((value for word, value in pairwise(words) if word == flag), None)


def _check_name(setting: str, name: str | None) -> None:
    """Raise ConfigError or InputError unless ``name`` is a file, drawn images, or fits the hub."""
    if name is None:
        raise ConfigError(f"{setting} is not set: add it to the configuration or as a flag")
    if setting == "dataset_name" and is_drawn(name):
        scene_options(name)
    elif not Path(name).exists() and not HUB.fullmatch(name):
        raise ConfigError(
            f"{setting} is {name!r}, neither a file nor a valid name on the hub: name one of these"
        )


def check_lines(result: RunCheck) -> Iterator[str]:
    """Describe what would run, line by line."""
    args, layout = result.args, result.layout
    sharding = f"ZeRO-{layout.zero_stage}" if layout.zero_stage else "no DeepSpeed"
    yield f"processes: {layout.processes} on {layout.machines} machine(s), {sharding}"
    if result.launcher is not None:
        yield f"  from {result.launcher}"
    yield f"model: {result.model.model_name_or_path}, {_parameters(result)}"
    name = result.script.dataset_name
    unchecked = (
        "" if data_is_here(name) else " (not here, so its splits and columns are not checked)"
    )
    yield f"data: {name}{unchecked}"
    if hasattr(result.script, "prompt_text"):
        yield f"prompt: {result.script.prompt_text}"
    if hasattr(args, "num_generations"):
        yield f"reward: {_reward(result.script)}"
        yield f"metric: {', '.join(f'{k} {v}' for k, v in _metric(result.script).items())}"
    rows = args.per_device_train_batch_size * layout.processes * args.gradient_accumulation_steps
    unit = "completions" if hasattr(args, "num_generations") else "images"
    unit = "trees of up to 8 prompts" if hasattr(result.script, "max_prompt_tokens") else unit
    epochs = f"{args.num_train_epochs:g} epochs"
    length = f"{args.max_steps} steps" if args.max_steps > 0 else epochs
    yield f"each step: {rows} {unit}; learning rate {args.learning_rate:g}; {length}"
    yield f"output: {args.output_dir}"
    yield from (f"not here: {line}" for line in result.missing)
    yield from (f"note: {line}" for line in remarks(result.script, args, layout))
    if not result.on_cpu and _is_slow_in_windows(result):
        yield (
            "note: without flash attention Qwen2.5-VL's vision tower makes a call per window of an "
            "image, an estimated 4 to 6 s a step, not measured: if flash-attn is installed, set "
            "attn_implementation: flash_attention_2"
        )
    if result.on_cpu:
        yield "memory: no GPU, the run is on the CPU"
    elif result.run is None:
        yield f"memory: unknown, {result.model.model_name_or_path} does not exist yet"
    else:
        yield from report(result.run)
        yield from assumptions()


def _is_slow_in_windows(result: RunCheck) -> bool:
    sees = result.run is not None and bool(result.run.image)
    return sees and result.model.attn_implementation != "flash_attention_2"


def _reward(script: Any) -> str:
    """Describe the shaping: its objective, and settings other than the defaults."""
    shaping = shaping_of(script)
    return ", ".join(
        f"{each.name} {value}"
        for each in fields(shaping)
        if (value := getattr(shaping, each.name)) != each.default or each.name == "objective"
    )


def _parameters(result: RunCheck) -> str:
    if result.run is None:
        return "all parameters" if not result.model.use_peft else "adapters"
    parameters = result.run.parameters
    count = f"{parameters.trained / 1e6:,.1f} million"
    trained = f"{count} adapter parameters" if parameters.frozen else f"all {count} parameters"
    return f"{trained} in {result.model.dtype}"


def metric_of(script: Any) -> dict[str, Any]:
    """Return the metric's settings, without its store; empty for a recipe without a metric."""
    if not hasattr(script, "metric"):
        return {}
    settings = read_metric(script.metric, **metric_flags(script))
    settings.pop("store", None)
    return settings


def _check_oracle(witness: object, dataset: str) -> None:
    """Raise ConfigError if the witness is an oracle that knows other images than the run's."""
    if isinstance(witness, str) and is_drawn(witness):
        scenes = witness
    elif not isinstance(witness, str | Mapping) or witness == "judge":
        return
    else:
        options = model_settings(witness, (*WITNESSES, *MODELS), "witness")
        if options["name"] != "oracle":
            return
        scenes = str(options.get("dataset", "scenes"))
    remedy = f"witness names {scenes!r}, dataset_name {dataset!r}: name the same images"
    if not is_drawn(dataset):
        raise ConfigError(f"the oracle knows drawn images only ({remedy}, or another witness)")
    theirs, ours = scene_options(scenes), scene_options(dataset)
    alike = replace(theirs, train=ours.train, heldout=ours.heldout, uneven=ours.uneven) == ours
    if not alike or theirs.train < ours.train or theirs.heldout < ours.heldout:
        raise ConfigError(f"the oracle does not know these images ({remedy})")


def _metric(script: Any) -> dict[str, object]:
    defaults = {"judge": "embedded", "parser": "embedded", "coref": "rules", "preset": "released"}
    settings = defaults | metric_of(script)
    for name in ("judge", "witness"):
        if isinstance(options := settings.get(name), dict):
            settings[name] = options.get("model", options["name"])
    return settings


def _witness_problem(script: Any, metric: Mapping[str, Any]) -> Iterator[str]:
    """Check the metric's settings by making it, and yield what keeps its witness from answering."""
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
