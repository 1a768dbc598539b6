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
from posh_reward.models.hub import lacking_file
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
from posh_reward.training.fetch import assets_of, is_here
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

SECONDS = 900.0  # of each trial: a cold node compiles the judge's kernels for minutes
PORT = 29500  # the launcher's default
ON_CPU = 2.0  # GiB of a rank with a small model on the CPU
TAIL = 300  # characters of a child's last output that a line repeats
TRIAL = tuple(python_module("posh_reward.training.doctor.trial"))
GRACE = 20.0  # seconds for the other ranks to end after one has failed


@dataclass(frozen=True, slots=True)
class NodePlace:
    """This node's place in its job."""

    machines: int = 1
    rank: int = 0
    address: str = "127.0.0.1"  # of the first node
    port: int = PORT
    processes: int | None = None  # on this node; None: from the launch line


def diagnose(
    config: Path,
    flags: Sequence[str] = (),
    place: NodePlace | None = None,
    seconds: float = SECONDS,
) -> Iterator[NodeCheck]:
    """Try everything that a run of a configuration needs on this node, in the order of a run.

    ``config``, or one that it inherits from, has the launch line; ``seconds`` limits each trial.
    """
    place = place or NodePlace()
    try:
        result, own = settle(config, flags, place)
    except PoshError as error:
        yield NodeCheck("settings", "FAILED", str(error))
        return
    layout = result.layout
    yield NodeCheck("settings", "ok", f"{layout.processes} processes, ZeRO-{layout.zero_stage}")
    yield from check_node(result, config, flags, place, own)
    yield from try_ranks(result, place, own, seconds)
    if not place.rank and hasattr(result.script, "metric"):
        yield from _judge_checks(result, seconds)  # one is enough, and its weights are read once


def settle(config: Path, flags: Sequence[str], place: NodePlace) -> tuple[RunCheck, int]:
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
        path = _to_import(path) if path.is_file() else path
        spec = spec_from_file_location(path.stem, path) if path.is_file() else None
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


def device_of(result: RunCheck) -> str:
    """Return the device that a run is meant for: a trial never falls back to the CPU."""
    return "cpu" if result.on_cpu else "cuda"


def check_node(
    result: RunCheck, config: Path, flags: Sequence[str], place: NodePlace, own: int
) -> Iterator[NodeCheck]:
    """Check packages, downloads and the machine; start nothing."""
    yield from _check_packages(result, config, flags)
    run, args = result.run, result.args
    need = 0 if result.on_cpu else own
    gib = max((phase.gib for phase in phases(run)), default=0.0) if run else 0.0
    shared = bool(run and (run.graders or run.coref == "maverick"))
    gpus = read_gpus() if need else None
    yield from check_gpus(gpus, need, gib, shared=shared)
    if gpus:
        yield check_driver(gpus)
    yield check_torch(need)
    if need:
        yield check_compiler()
    host = machine_memory(run).gib if run else 0.0
    yield from check_memory(host if need else ON_CPU * own)
    yield check_files(
        Path(args.output_dir),
        disk_size(run) if run else 1.0,
        checkpoint_size(run) if run else 0.0,
        getattr(result.script, "stop_before", STOP_BEFORE_MINUTES),
    )
    yield check_port(place.port)


def _check_packages(result: RunCheck, config: Path, flags: Sequence[str]) -> Iterator[NodeCheck]:
    wrong = list(wrong_versions())
    yield from (NodeCheck("package", "FAILED", f"not here: {line}") for line in result.missing)
    yield from (NodeCheck("version", "FAILED", line) for line in wrong)
    if not wrong and not result.missing:
        yield NodeCheck("packages", "ok", "all that this run needs, in tested versions")
    try:
        assets = assets_of(str(config), flags)
    except ConfigError as error:  # such as a policy that an earlier recipe has yet to write
        yield NodeCheck("downloads", "FAILED", str(error))
        return
    assets = [asset for asset in assets if asset.kind in ("model", "dataset")]  # see packages above
    policy = Path(result.model.model_name_or_path)
    if policy.is_dir() and (name := lacking_file(policy)):
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
    device, patience = device_of(result), str(seconds)
    if place.machines == 1:
        own = max(own, 2) if result.layout.processes > 1 else own
        place = replace(place, port=free_port())  # the run's own port has been checked already
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
    parent = disk_of(result)
    try:
        with tempfile.TemporaryDirectory(prefix=".posh-doctor-", dir=parent) as scratch:
            # All nodes save to one folder, as in a run: its name has to be the same on each.
            folder = scratch if place.machines == 1 else str(parent / f".posh-doctor-{place.port}")
            failure, _ = run_ranks(["zero3", device, patience, folder], place, own, seconds)
            # The trial ends in a collective after loading, so no node reads the folder any more.
            if not place.rank and folder != scratch:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        failure = str(error)
    if failure is None:
        who = f"{world} ranks" if world > 1 else "one process, which shards nothing"
        yield NodeCheck("ZeRO-3 step", "ok", f"trained, saved and resumed by {who}")
    else:
        remedy = "correct it: the run would fail at its first step or its first checkpoint"
        yield NodeCheck("ZeRO-3 step", "FAILED", failure, remedy)


def disk_of(result: RunCheck) -> Path:
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
    yield from (NodeCheck("reading", "warning", f"{line}; 15 s a step") for line in slow)
    if not slow:
        reading = f"parsed a reference in {answer['reading']:.2f} s"
        yield NodeCheck("reading", "ok", f"{reading} on the {answer.get('parser', 'CPU')}")


def try_judge(result: RunCheck, wakings: int, seconds: float) -> Answer:
    """Score a pair after each waking in a separate process, which frees all memory at its end."""
    settings = {k: v for k, v in read_metric_settings(result.script).items() if k != "witness"}
    arguments = ["judge", device_of(result), str(wakings), json.dumps(settings)]
    arguments.append(json.dumps(checks_judge(result.script)))
    # As the first rank of a run: on its GPU, with its compile cache.
    with trial(arguments, {"LOCAL_RANK": "0"}) as child:
        return answer_of(child, seconds)


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
            children.append(stack.enter_context(trial(arguments, variables | own_variables)))
        deadline = time.monotonic() + seconds
        first: Trial | None = None  # whose failure made the others fail, or wait
        while time.monotonic() < deadline and any(child.runs for child in children):
            if first is None and (first := next(filter(Trial.failed, children), None)):
                deadline = min(deadline, time.monotonic() + GRACE)
            time.sleep(0.1)
        answers = [answer_of(child, max(deadline - time.monotonic(), 1.0)) for child in children]
    order = sorted(range(own), key=lambda rank: children[rank] is not first)
    reasons = [reason for rank in order if (reason := answers[rank][0]) is not None]
    return (reasons[0] if reasons else None), answers[0][1]


@dataclass(frozen=True, slots=True)
class Trial:
    """A child process, and what it prints: into files, since a full pipe would stop it."""

    process: subprocess.Popen[str]
    output: IO[str]
    errors: IO[str]

    @property
    def runs(self) -> bool:
        """True until it has ended."""
        return self.process.poll() is None

    def failed(self) -> bool:
        """Return True if it has ended with another status than 0."""
        return bool(self.process.poll())


@contextmanager
def trial(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    start: Sequence[str] = TRIAL,
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


def answer_of(child: Trial, seconds: float) -> Answer:
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
    failures = [str(answer["failure"]) for answer in answers if "failure" in answer]
    if failures or status:
        ended = f"ended with status {status}: {errors.strip()[-TAIL:]}"
        return (failures[0] if failures else ended), {}
    return None, answers[-1] if answers else {}
