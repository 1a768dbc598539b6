"""The ladder of a first hour: each fault provoked makes its rung fail, with the reason."""

import json
import os
import re
import socket
import subprocess
import sysconfig
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from posh_reward.cli import main
from posh_reward.errors import ConfigError
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.training.doctor.diagnosis import NodePlace, resolve_run
from posh_reward.training.doctor.first_hour import (
    STAGES,
    Stage,
    StagedCheck,
    anonymise,
    build_header,
    passed_before,
    run_stages,
    write_record,
)
from posh_reward.training.doctor.node_checks import free_port
from posh_reward.training.doctor.trial import PhaseMeter
from posh_reward.training.fit import (
    GIB,
    GPU_GIB,
    TRAINER_CONTEXT_GIB,
    VLLM_ASLEEP_GIB,
    VLLM_OVERHEAD_GIB,
    JudgeOnGpu,
    judge_alone,
    phases,
)
from recipes.demo import tiny_qwen
from tests.slurm.test_scripts import command
from tests.training.conftest import deepspeed_python
from tools import first_hour as table

__all__ = ["deepspeed_python"]

ROOT = Path(__file__).resolve().parents[3]
SMOKE = ROOT / "configs" / "smoke" / "dapo.yaml"
NODE = ROOT / "configs" / "dapo" / "qwen2_5_vl_7b.yaml"
SCENES = "scenes:train=16:heldout=16:plain=1"
pytestmark = [pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")]


def ladder(config: Path, *flags: str) -> StagedCheck:
    result, _ = resolve_run(config, flags, NodePlace(processes=2, port=free_port()))
    return StagedCheck(config, flags, result, 2, 120)


def failed(rung: Stage) -> str:
    assert rung.status == "failed", rung
    return rung.reason


@pytest.fixture
def smoke(tmp_path: Path) -> Path:
    """The smoke configuration, with a policy of random weights and few images."""
    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=0)
    path = tmp_path / "dapo.yaml"
    path.write_text(
        f"{SMOKE.read_text().partition(chr(10))[0]}\nlike: {SMOKE}\n"
        f"model_name_or_path: {tmp_path / 'tiny'}\noutput_dir: {tmp_path / 'run'}\n"
        f"dataset_name: {SCENES}\nper_device_train_batch_size: 8\nmax_completion_length: 16\n"
        "mask_truncated_completions: false\n"
    )
    return path


def tried(config: Path) -> Stage:
    rung = Stage("node")
    ladder(config).try_stage(rung)
    return rung


def test_without_gpus_each_rung_says_that_it_needs_one(tmp_path: Path) -> None:
    file = tmp_path / "first_hour.json"
    rungs = list(run_stages(NODE, [], file))
    assert [rung.status for rung in rungs] == ["failed", *["needs a GPU"] * 4]
    assert "driver: nvidia-smi does not answer" in rungs[0].reason
    written = file.read_text()
    assert [rung["name"] for rung in json.loads(written)["rungs"]] == list(STAGES)
    for private in (socket.gethostname(), str(ROOT), str(Path.home()), str(tmp_path)):
        assert private not in written


def test_what_is_sent_on_has_no_key_host_or_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_sesame_open")
    text = f"{socket.gethostname()}: {Path.home()}/a.txt, /scratch/me/runs/x.bin: hf_sesame_open"
    assert anonymise(text) == "HOST: ~/a.txt, …/x.bin: ***"
    assert anonymise("runs/dapo and 3 / 4 of [0.1/0.2]") == "runs/dapo and 3 / 4 of [0.1/0.2]"


def test_a_driver_that_is_too_old_and_a_missing_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(tmp_path / "bin", "nvidia-smi", "printf 'H100, 570.1, 81920, 0, Default\\n%.0s' 1 2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    reason = failed(tried(NODE))
    assert "CUDA: driver 570.1, and CUDA 13.0 of torch needs 580 or newer" in reason
    assert "Python.h" in reason


def test_a_split_that_is_not_there(smoke: Path) -> None:
    text = smoke.read_text().replace(SCENES, "scenes:train=16:heldout=0")
    smoke.write_text(text)
    assert "is empty" in failed(tried(smoke))


def test_measurements_are_kept_as_they_come(smoke: Path) -> None:
    kept: list[int] = []
    rung = Stage("node", keep=lambda: kept.append(len(rung.figures)))
    ladder(smoke).try_stage(rung)
    assert kept == [1, 2, 3], "the file is written after each"
    assert rung.status == "ran"
    assert "keep" not in rung.as_record()


def test_memory_of_a_phase_stands_beside_what_fit_expects() -> None:
    meter, node, rung = PhaseMeter("cpu"), ladder(NODE), Stage("run")
    for phase, card, allocated in (("judging", 60, 20), ("updating", 50, 30), ("judging", 55, 25)):
        meter.enter_phase(phase)
        meter.record_peaks({"card": card, "allocated": allocated})
    meter.enter_phase("done")
    assert meter.gib == {
        "card": {"judging": 60, "updating": 50},
        "allocated": {"judging": 25, "updating": 30},
    }
    assert node.result.run is not None
    run = replace(node.result.run, share=None, policy_sleeps=False, generates=True)
    answer = {"seconds": {}, "gib": meter.gib}
    node._add_phases(rung, answer, run, "both steps")
    (_, judge, train) = phases(run)
    assert [(each.name, each.measured, each.fit) for each in rung.figures] == [
        ("judge, most memory of a GPU", 60, judge.gib),
        ("judge, allocated by torch", 25, judge.allocated),
        ("train, most memory of a GPU", 50, train.gib),
        ("train, allocated by torch", 30, train.allocated),
    ]
    rung.figures.clear()
    node._add_phases(rung, answer, node.result.run, "both steps")
    assert [each.fit is None for each in rung.figures] == [False, True] * 2, (
        "vLLM's are torch's too"
    )


def test_on_a_cpu_phases_have_no_memory() -> None:
    rung = Stage("run")
    with PhaseMeter("cpu") as meter:
        meter.enter_phase("judging")
    assert meter.gib == {}
    answer = {"seconds": dict(meter.seconds), "gib": meter.gib}
    ladder(NODE)._add_phases(rung, answer, None, "both steps")
    assert [each.unit for each in rung.figures] == ["s"]


def test_a_judge_alone_is_estimated_by_its_kind() -> None:
    packed = JudgeOnGpu(4 * GIB, 8 * GIB, sleeps=True, one_pass=1 * GIB)
    assert judge_alone(packed) == (4 + 8 + 1, 0)
    assert judge_alone(replace(packed, sleeps=False)) == (13, 4)
    half = replace(packed, cache=100 * GIB, share=0.5)
    assert judge_alone(half)[0] == 4 + (GPU_GIB - TRAINER_CONTEXT_GIB - 4) / 2 + 1
    assert judge_alone(replace(packed, one_pass=None)) == (
        4 + 8 + VLLM_OVERHEAD_GIB,
        VLLM_ASLEEP_GIB,
    )


def test_the_page_is_made_from_the_files() -> None:
    files = sorted((ROOT / "research" / "results").glob("first_hour_*.json"))
    assert files
    made = "\n".join(table.lines([json.loads(file.read_text("utf-8")) for file in files]))
    page = (ROOT / "research" / "results" / "performance.md").read_text("utf-8")
    assert page.partition(table.BEGIN)[2].partition(table.END)[0].strip() == made.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--learning_rate", "0"], r"weights are the same after 2 steps: the learning rate \(0\)"),
        (["--mask_truncated_completions", "true"], "100% of the completions were cut"),
    ],
)
def test_a_policy_that_learns_nothing_fails(smoke: Path, flags: list[str], reason: str) -> None:
    rung = Stage("policy")
    ladder(smoke, *flags).try_stage(rung)
    assert re.search(reason, failed(rung))


def test_a_ladders_file_is_of_a_checked_judge_or_not(smoke: Path, tmp_path: Path) -> None:
    def header(*flags: str) -> dict[str, Any]:
        return build_header(smoke, *resolve_run(smoke, flags, NodePlace(processes=2)))

    file, checked, unchecked = tmp_path / "a.json", header(), header("--check_judge", "false")
    write_record(file, unchecked, [Stage("judge", "ran")])
    document = json.loads(file.read_text())
    assert document["run"]["note"] == NOT_CHECKED
    assert f"**Not a real run: {NOT_CHECKED}.**" in list(table.lines([document]))
    assert list(passed_before(file, unchecked)) == ["judge"]
    with pytest.raises(ConfigError, match="of another machine, packages or run"):
        passed_before(file, checked)
    assert "note" not in checked["run"]


@pytest.mark.slow
def test_a_ladder_is_climbed_with_a_judge_of_random_weights(
    smoke: Path, unfit_judge: Path, tmp_path: Path
) -> None:
    flags = ["--judge", str(unfit_judge), "--check_judge", "false"]
    rungs = {rung.name: rung for rung in run_stages(smoke, flags, tmp_path / "first_hour.json", 2)}
    assert {name: rung.status for name, rung in rungs.items()} == dict.fromkeys(STAGES, "ran")
    noted = [name for name, rung in rungs.items() if NOT_CHECKED in str(rung.left_out)]
    assert noted == ["judge", "policy", "run"]


@pytest.mark.slow
def test_a_ladder_is_climbed_and_its_rungs_not_twice(
    smoke: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "first_hour.json"
    flags = ["doctor", "--config", str(smoke), "--first-hour", str(file), "--processes", "2"]
    broken = [*flags, "--", "--output_dir", "/proc/posh"]
    assert main(broken) == 2, "the first rung fails"
    assert main(flags) == 0, "and is tried again"
    document = json.loads(file.read_text())
    assert [(rung["name"], rung["status"]) for rung in document["rungs"]] == [
        (name, "ran") for name in STAGES
    ]
    figures = {f["name"]: f for rung in document["rungs"] for f in rung["figures"]}
    assert figures["descriptions with a score"]["measured"] == 16
    assert figures["checkpoint"]["measured"] == pytest.approx(figures["checkpoint"]["fit"], rel=0.1)
    assert figures["first, rotary buffers"]["measured"] == "float32"
    capfd.readouterr()
    assert main(flags) == 0
    said = capfd.readouterr().out
    assert said.count("ran   ") == 5
    assert json.loads(file.read_text()) == document, "nothing was measured twice"
    for config, more in ((NODE, []), (smoke, ["--preset", "prefix-first"])):
        with pytest.raises(ConfigError, match="of another machine, packages or run"):
            list(run_stages(config, more, file))
    assert not list(tmp_path.glob(".posh-first-hour-*"))


@pytest.fixture(scope="module")
def real(
    deepspeed_python: str, tmp_path_factory: pytest.TempPathFactory, shared_data: Path
) -> Path:
    """A folder for a ladder with vLLM, as policy and judge, and DeepSpeed, all on the CPU."""
    folder = tmp_path_factory.mktemp("ladder")
    about = folder / "site" / f"posh_reward-{metadata.version('posh-reward')}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(str(metadata.distribution("posh-reward").metadata))
    build = (
        "import sys; from pathlib import Path; from recipes.demo import tiny_qwen;"
        "from tests.models.tiny import save_tiny_qwen3; tiny_qwen.HIDDEN_SIZE = 384;"
        "tiny_qwen.build(Path(sys.argv[1], 'policy'), warm_up_steps=0, pretrain_steps=0);"
        "save_tiny_qwen3(Path(sys.argv[1], 'judge'), Path(sys.argv[2]))"
    )
    on_cpu(deepspeed_python, folder, "-c", build, str(folder), str(shared_data))
    (folder / "judge.yaml").write_text(
        f"name: vllm\nmodel: {folder / 'judge'}\ndtype: float32\nmemory_gb: 0.5\n"
        "max_model_len: 2048\nenforce_eager: true\nsleep: false\n"
    )
    (folder / "ladder.yaml").write_text(
        "# accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml "
        f"recipes/dapo_posh.py --config ladder.yaml\nmodel_name_or_path: {folder / 'policy'}\n"
        f"output_dir: {folder / 'run'}\njudge: {folder / 'judge.yaml'}\n{LADDER}"
    )
    return folder


LADDER = f"""\
dataset_name: {SCENES}
max_pixels: 200704
dtype: bfloat16
num_generations: 4
per_device_train_batch_size: 4
max_completion_length: 16
mask_truncated_completions: false
use_vllm: true
vllm_mode: colocate
vllm_enable_sleep_mode: false
vllm_max_model_length: 512
vllm_gpu_memory_utilization: 0.1
vllm_importance_sampling_correction: false
generation_kwargs: {{bad_words: ["<|image_pad|>"]}}
loss_type: dapo
beta: 0.0
learning_rate: 1.0e-4
gradient_checkpointing: false
"""


def on_cpu(python: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs an interpreter with DeepSpeed and vLLM's CPU build."""
    here = Path(__file__).parent / "without_gpus"
    environment = {
        **os.environ, "PYTHONPATH": f"{folder / 'site'}:{here}:{ROOT}", "OMP_NUM_THREADS": "1",
        "ACCELERATE_TORCH_DEVICE": "cpu", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "VLLM_USE_AOT_COMPILE": "0",
        "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    return subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def climbed(python: str, folder: Path, *flags: str) -> dict[str, dict[str, object]]:
    file = folder / f"first_hour{len(flags)}.json"
    done = on_cpu(
        python, folder, "-m", "posh_reward.cli", "doctor", "--config", str(folder / "ladder.yaml"),
        "--processes", "2", "--first-hour", str(file), *flags,
    )  # fmt: skip
    print(done.stdout, done.stderr[-3000:])
    return {rung["name"]: rung for rung in json.loads(file.read_text())["rungs"]}


@pytest.mark.vllm
@pytest.mark.deepspeed
def test_every_rung_runs_on_the_cpu(real: Path, deepspeed_python: str) -> None:
    """Fifteen minutes: real ZeRO-3 on two ranks, real vLLM as policy and judge."""
    rungs = climbed(deepspeed_python, real)
    assert [rung["status"] for rung in rungs.values()] == ["ran"] * 5
    assert "level-2 sleep" in str(rungs["policy"]["left_out"])


@pytest.mark.vllm
@pytest.mark.deepspeed
def test_a_vllm_that_samples_from_something_else(real: Path, deepspeed_python: str) -> None:
    """It is told another temperature than the trainer."""
    other = '{"bad_words": ["<|image_pad|>"], "temperature": 0.3}'
    rungs = climbed(deepspeed_python, real, "--", "--generation_kwargs", other)
    assert rungs["policy"]["status"] == "failed"
    assert "from the trainer's on average" in str(rungs["policy"]["reason"])
