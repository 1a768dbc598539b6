"""Dry run of a configuration on this node: one line per check, with the remedy if it fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from posh_reward.errors import ConfigError, PoshError
from posh_reward.models.hub import find_missing_file
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.process.child import find_secrets, kill_child, redact, wrap_in_keeper
from posh_reward.process.python import SAFE_PATH, python_module
from posh_reward.settings import TRUST_VARIABLE
from posh_reward.shipped import shipped_path
from posh_reward.training.doctor.node_checks import (
    NodeCheck,
    check_compiler,
    check_driver,
    check_files,
    check_gpus,
    check_memory,
    check_port,
    check_torch,
    free_port,
    read_gpus,
)
from posh_reward.training.fetch import is_here, list_assets
from posh_reward.training.fit import checkpoint_size, disk_size, machine_memory, phases
from posh_reward.training.run_check import (
    RunCheck,
    accelerate_config,
    check_run,
    launch_line,
    wrong_versions,
)
from posh_reward.training.run_settings import (
    Processes,
    checks_judge,
    read_metric_settings,
    read_processes,
)
from posh_reward.training.stopping import STOP_BEFORE_MINUTES

TRIAL_SECONDS = 900.0  # of each trial: a cold node compiles the judge's kernels for minutes
DEFAULT_PORT = 29500  # the launcher's default
CPU_RANK_GIB = 2.0  # of a rank with a small model on the CPU
OUTPUT_TAIL_CHARACTERS = 300  # of a child's last output, which a line repeats
TRIAL_COMMAND = tuple(python_module("posh_reward.training.doctor.trial"))
RANK_GRACE_SECONDS = 20.0  # for the other ranks to end after one has failed


@dataclass(frozen=True, slots=True)
class NodePlace:
    """This node's place in its job."""

    machines: int = 1
    rank: int = 0
    address: str = "127.0.0.1"  # of the first node
    port: int = DEFAULT_PORT
    processes: int | None = None  # on this node; None: from the launch line


def diagnose(
    config: Path,
    flags: Sequence[str] = (),
    place: NodePlace | None = None,
    seconds: float = TRIAL_SECONDS,
) -> Iterator[NodeCheck]:
    """Try everything that a run of a configuration needs on this node, in the order of a run.

    ``config``, or one that it inherits from, has the launch line; ``seconds`` limits each trial.
    """
    place = place or NodePlace()
    try:
        result, own = resolve_run(config, flags, place)
    except PoshError as error:
        yield NodeCheck("settings", "FAILED", str(error))
        return
    layout = result.layout
    yield NodeCheck("settings", "ok", f"{layout.processes} processes, ZeRO-{layout.zero_stage}")
    yield from check_node(result, config, flags, place, own)
    yield from try_ranks(result, place, own, seconds)
    if not place.rank and hasattr(result.script, "metric"):
        yield from _judge_checks(result, seconds)  # one is enough, and its weights are read once


def resolve_run(config: Path, flags: Sequence[str], place: NodePlace) -> tuple[RunCheck, int]:
    """Check a run's settings; also return the number of its processes on this node."""
    launcher = accelerate_config(config)
    layout = read_processes(launcher) if launcher else Processes()
    machines = max(layout.machines, place.machines)
    own = place.processes or max(layout.processes // machines, 1)
    layout = replace(layout, processes=own * machines, machines=machines)
    return check_run(recipe_settings(config), ["--config", str(config), *flags], layout), own


def recipe_settings(config: Path) -> tuple[type, ...]:
    """Load the dataclasses (``SETTINGS``) of the recipe in a configuration's launch line."""
    settings: tuple[type, ...] = load_recipe(config).SETTINGS
    return settings


def load_recipe(config: Path) -> ModuleType:
    """Load the recipe in a configuration's launch line.

    Raises:
        ConfigError: there is none, or the line names a program that only a trusted one may.
    """
    if not config.is_file():
        raise ConfigError(f"no file {str(config)!r}: name a recipe's configuration")
    file, words = launch_line(config)
    recipe = next((word for word in words if word.endswith(".py")), None)
    for folder in (Path(), *file.resolve().parents, shipped_path(".")) if recipe else ():
        path = folder / str(recipe)
        if not path.is_file():
            continue
        path = _to_import(path)
        spec = spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        sys.modules[path.stem] = module  # where dataclasses resolve their annotations
        spec.loader.exec_module(module)
        if hasattr(module, "SETTINGS"):
            return module
    raise ConfigError(
        f"{config} names no recipe: begin it with `# python recipes/sft.py --config {config}`, or "
        "with the line that launches another recipe"
    )


def _to_import(path: Path) -> Path:
    """Return the recipe to import for a path; a copy of a shipped one is not imported itself."""
    own, ours = Path("recipes").resolve(), shipped_path("recipes") / path.name
    if path.resolve().parent == own or os.environ.get(TRUST_VARIABLE):
        return path
    if ours.is_file() and ours.read_bytes() == path.read_bytes():
        return ours
    raise ConfigError(
        f"the launch line names the program {str(path)!r}, which is no recipe of ours and not in "
        "./recipes: run this where its recipes/ is, or add --trust-settings if you trust its author"
    )


def choose_device(result: RunCheck) -> str:
    """Return the device that a run is meant for: a trial never falls back to the CPU."""
    return "cpu" if result.on_cpu else "cuda"


def check_node(
    result: RunCheck, config: Path, flags: Sequence[str], place: NodePlace, own: int
) -> Iterator[NodeCheck]:
    """Check packages, downloads and the machine; start nothing."""
    yield from _check_packages(result, config, flags)
    gib, host, disk, checkpoint, shared = 0.0, 0.0, 1.0, 0.0, False  # of a model of unknown shape
    if run := result.run:
        gib, host = max(phase.gib for phase in phases(run)), machine_memory(run).gib
        disk, checkpoint = disk_size(run), checkpoint_size(run)
        shared = bool(run.graders) or run.coref == "maverick"
    gpus, need = None, 0
    if result.on_cpu:
        host = CPU_RANK_GIB * own
    else:
        gpus, need = read_gpus(), own
    yield from check_gpus(gpus, need, gib, shared=shared)
    if gpus:
        yield check_driver(gpus)
    yield check_torch(need)
    if need:
        yield check_compiler()
    yield from check_memory(host)
    minutes = getattr(result.script, "stop_before", STOP_BEFORE_MINUTES)
    yield check_files(Path(result.args.output_dir), disk, checkpoint, minutes)
    yield check_port(place.port)


def _check_packages(result: RunCheck, config: Path, flags: Sequence[str]) -> Iterator[NodeCheck]:
    wrong = list(wrong_versions())
    for line in result.missing:
        yield NodeCheck("package", "FAILED", f"not here: {line}")
    for line in wrong:
        yield NodeCheck("version", "FAILED", line)
    if not wrong and not result.missing:
        yield NodeCheck("packages", "ok", "all that this run needs, in tested versions")
    try:
        assets = list_assets(str(config), flags)
    except ConfigError as error:  # such as a policy that an earlier recipe has yet to write
        yield NodeCheck("downloads", "FAILED", str(error))
        return
    assets = [asset for asset in assets if asset.kind in ("model", "dataset")]  # see packages above
    policy = Path(result.model.model_name_or_path)
    if policy.is_dir() and (name := find_missing_file(policy)):
        detail, remedy = f"{policy} has no complete {name}", "copy it again, or save it again"
        yield NodeCheck("policy", "FAILED", detail, remedy)
    missing = [asset.name for asset in assets if not is_here(asset)]
    if missing:
        remedy = f"posh-reward fetch --config {config}; a folder is written by an earlier recipe"
        yield NodeCheck("downloads", "FAILED", f"not here: {', '.join(missing)}", remedy)
    else:
        yield NodeCheck("downloads", "ok", f"{len(assets)} models and datasets are here")


def try_ranks(result: RunCheck, place: NodePlace, own: int, seconds: float) -> Iterator[NodeCheck]:
    """Let ranks communicate, and train, save and resume a step under ZeRO-3; one does alone."""
    device, patience = choose_device(result), str(seconds)
    if place.machines == 1:
        place = replace(place, port=free_port())  # the run's own port has been checked already
        if result.layout.processes > 1:
            own = max(own, 2)
    world = own * place.machines
    failure, answer = run_ranks(["ranks", device, patience], place, own, seconds)
    if failure is not None:
        remedy = "set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; NCCL_DEBUG=INFO shows more"
        detail = f"{world} ranks do not reach each other: {failure}"
        yield NodeCheck("ranks", "FAILED", detail, remedy)
        return
    rate = 64 / max(answer["seconds"], 1e-9)
    detail = f"{world} communicate over {answer['backend']}, 64 MiB summed at {rate:,.0f} MiB/s"
    if world == 1:
        detail = f"one process started {answer['backend']}; there is no other to communicate with"
    yield NodeCheck("ranks", "ok", detail)
    if result.layout.zero_stage != 3 or find_spec("deepspeed") is None:
        yield NodeCheck("ZeRO-3 step", "skipped", "not in this run, or DeepSpeed is not here")
        return
    parent = find_disk(result)
    try:
        with tempfile.TemporaryDirectory(prefix=".posh-doctor-", dir=parent) as scratch:
            # All nodes save to one folder, as in a run: its name has to be the same on each.
            folder = scratch
            if place.machines > 1:
                folder = str(parent / f".posh-doctor-{place.port}")
            failure, _ = run_ranks(["zero3", device, patience, folder], place, own, seconds)
            # The trial ends in a collective after loading, so no node reads the folder any more.
            if not place.rank and folder != scratch:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        failure = str(error)
    if failure is None:
        who = "one process, which shards nothing" if world == 1 else f"{world} ranks"
        yield NodeCheck("ZeRO-3 step", "ok", f"trained, saved and resumed by {who}")
    else:
        remedy = "correct it: the run would fail at its first step or its first checkpoint"
        yield NodeCheck("ZeRO-3 step", "FAILED", failure, remedy)


def find_disk(result: RunCheck) -> Path:
    """Return a folder that exists, on the disk with room for the run's checkpoints."""
    output = Path(result.args.output_dir).absolute()
    return next(each for each in (output, *output.parents) if each.exists())


def _judge_checks(result: RunCheck, seconds: float) -> Iterator[NodeCheck]:
    failure, answer = try_judge(result, 2, seconds)
    if failure is not None:
        remedy = "correct it (docs/judges.md): without a judge the run has no rewards"
        yield NodeCheck("judge", "FAILED", failure, remedy)
        return
    first, second = answer["waking"]
    detail = (
        f"scored a pair ({first:.1f} s to load), slept, woke ({second:.1f} s), and scored it "
        f"alike ({answer['scoring'][1]:.1f} s)"
    )
    yield NodeCheck("judge", "ok", detail)
    if not checks_judge(result.script):
        yield NodeCheck("check_judge", "warning", NOT_CHECKED)
    metric = read_metric_settings(result.script)
    slow = []
    if not result.on_cpu:
        if answer.get("parser") == "CPU" and str(metric.get("parser", "")).endswith("_trf"):
            slow.append("the parser runs on the CPU: pip install cupy-cuda13x, or parser_device: "
                        "cpu if meant")  # fmt: skip
        if answer.get("coref") == "CPU" and metric.get("coref") == "maverick":
            slow.append("Maverick runs on the CPU: docs/coref.md")
    for line in slow:
        yield NodeCheck("reading", "warning", f"{line}; 15 s a step")
    if not slow:
        reading = f"parsed a reference in {answer['reading']:.2f} s"
        yield NodeCheck("reading", "ok", f"{reading} on the {answer.get('parser', 'CPU')}")


def try_judge(result: RunCheck, wakings: int, seconds: float) -> Answer:
    """Score a pair after each waking in a separate process, which frees all memory at its end."""
    settings = dict(read_metric_settings(result.script))
    settings.pop("witness", None)
    check = json.dumps(checks_judge(result.script))
    arguments = ["judge", choose_device(result), str(wakings), json.dumps(settings), check]
    # As the first rank of a run: on its GPU, with its compile cache.
    with start_trial(arguments, {"LOCAL_RANK": "0"}) as child:
        return read_answer(child, seconds)


# Child processes.

Answer = tuple[str | None, Mapping[str, Any]]
"""The reason of a trial's failure, if any, and what it reported."""


def run_ranks(arguments: Sequence[str], place: NodePlace, own: int, seconds: float) -> Answer:
    """Run a trial in this node's ranks; return the first failure, and the first rank's answer."""
    variables = {
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(place.port),
        "WORLD_SIZE": str(own * place.machines),
        "LOCAL_WORLD_SIZE": str(own),
    }
    with ExitStack() as stack:
        children = []
        for rank in range(own):
            own_variables = {"RANK": str(place.rank * own + rank), "LOCAL_RANK": str(rank)}
            children.append(stack.enter_context(start_trial(arguments, variables | own_variables)))
        deadline = time.monotonic() + seconds
        first: Trial | None = None  # whose failure made the others fail, or wait
        while time.monotonic() < deadline and any(child.is_running for child in children):
            if first is None and (first := next(filter(Trial.has_failed, children), None)):
                deadline = min(deadline, time.monotonic() + RANK_GRACE_SECONDS)
            time.sleep(0.1)
        answers = [read_answer(child, max(deadline - time.monotonic(), 1.0)) for child in children]
    for child, (reason, _) in zip(children, answers, strict=True):
        if child is first and reason is not None:
            return reason, answers[0][1]
    reasons = (reason for reason, _ in answers if reason is not None)
    return next(reasons, None), answers[0][1]


@dataclass(frozen=True, slots=True)
class Trial:
    """A child process, and what it prints: into files, since a full pipe would stop it."""

    process: subprocess.Popen[str]
    output: IO[str]
    errors: IO[str]

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self.process.poll() is None

    def has_failed(self) -> bool:
        """Return True if it has ended with another status than 0."""
        return bool(self.process.poll())


@contextmanager
def start_trial(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    start: Sequence[str] = TRIAL_COMMAND,
    patience: float = 5.0,
) -> Iterator[Trial]:
    """Start a trial; end it, with all its descendants, on leaving the context, or with us.

    ``start`` begins its command, ``variables`` are added to its environment. It has ``patience``
    seconds to end in; torchrun ends its ranks within 30. Should this process be killed,
    ``process/keeper.py`` ends the trial: a judge would go on for a quarter of an hour.
    """
    command = wrap_in_keeper([*start, *arguments])
    own = {"PYTHONWARNINGS": "ignore", **SAFE_PATH}  # also in torchrun's ranks
    environment = {**os.environ, **own, **variables}
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        child = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            text=True, start_new_session=True,
        )  # fmt: skip
        try:
            yield Trial(child, output, errors)
        finally:
            child.send_signal(signal.SIGINT)  # torch's compiler then removes its lock
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=patience)
            kill_child(child)


def read_answer(child: Trial, seconds: float) -> Answer:
    """Wait for a trial, or for a launcher of several; return the first failure, or an answer."""
    try:
        status = child.process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no answer in {seconds:.0f} s (--timeout allows more)", {}
    texts = []
    for file in (child.output, child.errors):
        file.seek(0)
        texts.append(redact(find_secrets(os.environ), file.read()))
    output, errors = texts
    answers = []
    for line in output.splitlines():
        with suppress(ValueError):
            if isinstance(answer := json.loads(line), dict):
                answers.append(answer)
    for answer in answers:
        if "failure" in answer:
            return str(answer["failure"]), {}
    if status:
        return f"ended with status {status}: {errors.strip()[-OUTPUT_TAIL_CHARACTERS:]}", {}
    return None, answers[-1] if answers else {}
