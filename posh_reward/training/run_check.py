"""``--check``: show what a recipe would run, and whether it fits, without weights or a GPU."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from posh_reward.datasets import load_dataset
from posh_reward.distill.question_set import read_question_set
from posh_reward.errors import (
    ConfigError,
    JudgeError,
    MissingDependencyError,
    escape_controls,
    install_command,
    installed_version,
)
from posh_reward.graph.maverick import setup_command
from posh_reward.posh.load_judge import ROLES, list_engines
from posh_reward.posh.load_metric import load_metric
from posh_reward.reward.shaping import build_shaping
from posh_reward.training import run_settings
from posh_reward.training.base_model import find_base_model
from posh_reward.training.fetch import Asset, graph_assets, is_here
from posh_reward.training.fit import (
    ASSUMPTIONS,
    PUBLISHED_CONFIGS,
    TrainingRun,
    build_run,
    describe_memory,
    fits_memory,
)

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # form of a name on the hub
CHECKED_EXTRAS = ("train", "vllm", "server", "gpu")
"""Extras whose version bounds apply to a run, besides the package's own requirements."""
ENGINE_PACKAGES = {
    "vllm": ("vllm", "gpu"),
    "server": ("httpx", "server"),
    "nli": ("transformers", "train"),
}
"""Name of a judge in settings -> its package, and the extra that installs it."""


@dataclass(frozen=True, slots=True)
class RunCheck:
    """A run's checked settings."""

    launcher: Path | None  # accelerate's configuration, from the launch line
    layout: run_settings.Processes
    script: Any
    args: Any
    model: Any
    run: TrainingRun | None  # None for a model of unknown shape
    missing: tuple[str, ...]  # packages and files that this machine lacks, with the remedy
    on_cpu: bool  # the run itself; ``args`` are always parsed for the CPU
    launch: str  # command that starts the run; empty without a launch line


def print_run_check(kinds: Sequence[type], flags: Sequence[str]) -> int:
    """Print what would run; return 1 if it does not fit, 3 if it fits but something is missing."""
    result = check_run(kinds, flags)
    print("\n".join(check_lines(result)))
    if result.run is not None and not result.on_cpu and not fits_memory(result.run):
        return 1
    return 3 if result.missing else 0


def check_run(
    kinds: Sequence[type], flags: Sequence[str], layout: run_settings.Processes | None = None
) -> RunCheck:
    """Check a run's settings with the run's own code, up to where weights would be loaded."""
    from trl import get_peft_config, get_quantization_config

    config = _find_flag(flags, "--config")
    launcher: Path | None = None
    launch = ""
    if config:
        launcher, launch = accelerate_config(Path(config)), launch_command(Path(config))
    if layout is None:
        layout = run_settings.read_processes(launcher) if launcher else run_settings.Processes()
    script, args, model = run_settings.parse_for(kinds, flags, layout)
    _check_name("dataset_name", script.dataset_name)
    _check_name("model_name_or_path", model.model_name_or_path)
    get_peft_config(model)
    get_quantization_config(model)
    metric = run_settings.read_metric_settings(script)
    if hasattr(script, "prompt_text"):
        load_dataset.prompt(script.prompt_text)
        if _data_is_here(script.dataset_name):
            splits = [script.dataset_train_split]
            if run_settings.is_evaluated(args):
                splits.append(script.dataset_test_split)
            rows = load_dataset.check_dataset(script.dataset_name, splits, script.reference_column)
            oversample = getattr(script, "oversample", 1)
            run_settings.check_rows(rows[script.dataset_train_split], args, oversample)
    missing = list(missing_packages(args, model, metric, layout))
    if hasattr(script, "metric"):
        missing += _check_metric(metric)
    if hasattr(script, "max_prompt_tokens"):  # a student learns from a question set
        try:
            read_question_set(Path(script.dataset_name))
        except ConfigError as error:
            missing.append(str(error))
    name = find_base_model(model.model_name_or_path) or model.model_name_or_path
    is_known = name in PUBLISHED_CONFIGS or (Path(name) / "config.json").is_file()
    run = build_run(script, args, model, layout) if is_known else None
    on_cpu = _on_cpu(flags, config)
    return RunCheck(launcher, layout, script, args, model, run, tuple(missing), on_cpu, launch)


def _find_flag(words: Sequence[str], flag: str) -> str | None:
    """Return the word after ``flag``, its value."""
    return next((value for word, value in pairwise(words) if word == flag), None)


def _check_name(setting: str, name: str | None) -> None:
    """Raise ConfigError or InputError unless ``name`` is a file, drawn images, or fits the hub."""
    if name is None:
        raise ConfigError(f"{setting} is not set: add it to the configuration or as a flag")
    if setting == "dataset_name" and load_dataset.is_drawn(name):
        load_dataset.scene_options(name)
    elif not Path(name).exists() and not HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"{setting} is {name!r}, neither a file nor a valid name on the hub: name one of these"
        )


def _data_is_here(name: str) -> bool:
    """Return True if ``check_dataset`` would download nothing."""
    return (
        load_dataset.is_drawn(name)
        or Path(name).exists()
        or is_here(Asset("dataset", "dataset", name))
    )


def _on_cpu(flags: Sequence[str], config: str | None) -> bool:
    if os.environ.get("ACCELERATE_TORCH_DEVICE") == "cpu":  # accelerate's own, before use_cpu
        return True
    if "--use_cpu" in flags:
        return (_find_flag(flags, "--use_cpu") or "").lower() != "false"
    return bool(config and run_settings.read_config(Path(config)).get("use_cpu"))


def _check_metric(metric: Mapping[str, Any]) -> Iterator[str]:
    """Check the metric's settings by making it, and yield what keeps its witness from answering."""
    settings = {name: value for name, value in metric.items() if name != "witness"}
    try:
        load_metric(settings)
    except MissingDependencyError:
        settings["coref"] = "rules"
        load_metric(settings)
    if "witness" in metric:
        try:
            load_metric(settings, witness=metric["witness"])
        except (MissingDependencyError, JudgeError) as error:
            yield f"the witness could not be asked whether it takes images: {error}"


# The launch line.


def launch_line(config: Path) -> tuple[Path, list[str]]:
    """Split the launch line, a configuration's first comment, into words, if there is one.

    Without one, the line of the nearest ancestor (``like``) applies. Returns its file, too.
    """
    for path, _ in run_settings.config_chain(config):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        words = first.lstrip("#").split()
        launches = "--config_file" in words or any(word.endswith(".py") for word in words)
        if first.startswith("#") and launches:
            return path, words
    return config, []


def launch_command(config: Path) -> str:
    """Return the launch line with this configuration, whose own may be an ancestor's."""
    _, words = launch_line(config)
    for place, word in enumerate(words[:-1]):
        if word == "--config":
            words[place + 1] = str(config)
    return escape_controls(shlex.join(words))


def accelerate_config(config: Path) -> Path | None:
    """Find the file after ``--config_file`` in a configuration's launch line, if it has one."""
    path, words = launch_line(config)
    name = _find_flag(words, "--config_file")
    if name is None:
        return None
    for folder in (Path(), *path.resolve().parents):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{path}: its launch line names {name}, which does not exist: correct it")


# Packages.


def missing_packages(
    args: Any, model: Any, metric: Mapping[str, Any], layout: run_settings.Processes
) -> Iterator[str]:
    """Yield what a run needs and is not installed here, each with the remedy."""
    needs = {"trl": ("training", "train")}
    if getattr(args, "use_vllm", False):
        needs["vllm"] = ("use_vllm", "gpu")
    if layout.zero_stage:
        needs["deepspeed"] = (f"ZeRO-{layout.zero_stage}", "gpu")
    for tracker in {"wandb", "trackio"} & set(args.report_to or ()):
        needs[tracker] = (f"report_to {tracker}", "gpu")
    for user, engine in list_engines(metric):
        # A judge with its own interpreter has its package there.
        if engine["name"] in ENGINE_PACKAGES and not engine.get("python"):
            package, extra = ENGINE_PACKAGES[engine["name"]]
            needs.setdefault(package, (f"the {user}", extra))
    if broken := run_settings.broken_deepspeed():
        yield broken
    for package, (user, extra) in needs.items():
        if find_spec(package) is None:
            yield f"{package}, for {user}: {install_command(extra)}"
    if model.attn_implementation == "flash_attention_2" and find_spec("flash_attn") is None:
        yield "flash-attn, for attn_implementation: install it, or leave the setting out"
    name = str(model.model_name_or_path)
    if not Path(name).exists():
        try:
            load_dataset.check_name_of_hub(name)
        except ConfigError as error:
            yield f"model: {error}"
    for asset in graph_assets(metric):
        if asset.kind == "spacy" and not is_here(asset):
            yield f"{asset.name}, for the parser: python -m spacy download {asset.name}"
        elif asset.kind == "environment" and not is_here(asset):
            yield f"Maverick, for coref: {setup_command(Path(asset.name))}"


def wrong_versions() -> Iterator[str]:
    """Yield packages whose installed version is outside the tested range, with the remedy."""
    from packaging.requirements import Requirement

    for line in metadata.requires("posh-reward") or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in CHECKED_EXTRAS):
            continue
        version = installed_version(requirement.name)
        if version is None:
            continue  # missing_packages names it, if this run needs it
        if not requirement.specifier.contains(version, prereleases=True):
            yield (
                f"{requirement.name} {version} is installed: "
                f"pip install '{requirement.name}{requirement.specifier}'"
            )


# The report.


def check_lines(result: RunCheck) -> Iterator[str]:
    """Describe what would run, line by line."""
    script, args, layout = result.script, result.args, result.layout
    sharding = f"ZeRO-{layout.zero_stage}" if layout.zero_stage else "no DeepSpeed"
    yield f"processes: {layout.processes} on {layout.machines} machine(s), {sharding}"
    if result.launcher is not None:
        yield f"  from {result.launcher}"
    if result.launch:
        yield f"launch: {result.launch}"
    yield f"model: {result.model.model_name_or_path}, {_describe_parameters(result)}"
    unchecked = ""
    if not _data_is_here(script.dataset_name):
        unchecked = " (not here, so its splits and columns are not checked)"
    yield f"data: {script.dataset_name}{unchecked}"
    if hasattr(script, "prompt_text"):
        yield f"prompt: {script.prompt_text}"
    unit = "images"
    if hasattr(args, "num_generations"):
        unit = "completions"
        yield f"reward: {_describe_reward(script)}"
        yield f"metric: {_describe_metric(script)}"
    if hasattr(script, "max_prompt_tokens"):
        unit = "trees of up to 8 prompts"
    rows = args.per_device_train_batch_size * layout.processes * args.gradient_accumulation_steps
    length = f"{args.num_train_epochs:g} epochs"
    if args.max_steps > 0:
        length = f"{args.max_steps} steps"
    yield f"each step: {rows} {unit}; learning rate {args.learning_rate:g}; {length}"
    yield f"output: {args.output_dir}"
    for line in result.missing:
        yield f"not here: {line}"
    for line in run_settings.find_remarks(script, args, layout):
        yield f"note: {line}"
    if result.on_cpu:
        yield "memory: no GPU, the run is on the CPU"
    elif result.run is None:
        yield f"memory: unknown, {result.model.model_name_or_path} does not exist yet"
    else:
        yield from describe_memory(result.run)
        yield from ASSUMPTIONS


def _describe_parameters(result: RunCheck) -> str:
    if result.run is None:
        return "adapters" if result.model.use_peft else "all parameters"
    parameters, dtype = result.run.parameters, result.model.dtype
    count = f"{parameters.trained / 1e6:,.1f} million"
    if parameters.frozen:
        return f"{count} adapter parameters in {dtype}"
    return f"all {count} parameters in {dtype}"


def _describe_reward(script: Any) -> str:
    """Describe the shaping: its objective, and settings other than the defaults."""
    shaping = build_shaping(script)
    settings = {"objective": shaping.objective, **shaping.changed}
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _describe_metric(script: Any) -> str:
    """Describe the metric: its parts, with the model of a judge given by settings."""
    defaults = {"judge": "embedded", "parser": "embedded", "coref": "rules", "preset": "released"}
    settings = defaults | run_settings.read_metric_settings(script)
    for name in ROLES:
        if isinstance(options := settings.get(name), dict):
            settings[name] = options.get("model", options["name"])
    return ", ".join(f"{name} {value}" for name, value in settings.items())
