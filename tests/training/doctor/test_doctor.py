"""A dry run of a node, and each fault that it names, provoked for real."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Some
from typing import Any

import pytest
import torch

from posh_reward.cli import main
from posh_reward.errors import ConfigError
from posh_reward.training.doctor import diagnosis
from posh_reward.training.doctor.diagnosis import (
    NodePlace,
    _judge_checks,
    diagnose,
    load_recipe,
    read_answer,
    recipe_settings,
    run_ranks,
    start_trial,
    try_ranks,
)
from posh_reward.training.doctor.node_checks import (
    GIB,
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
from posh_reward.training.launch import parse_settings
from posh_reward.training.run_check import wrong_versions
from posh_reward.training.run_settings import import_failure
from recipes import sft
from recipes.demo import tiny_qwen
from tests.models.conftest import python
from tests.process.kernel_files import kernel_files
from tests.processes import start
from tests.slurm.test_scripts import command

__all__ = ["python"]

ROOT = Path(__file__).resolve().parents[3]
SMOKE = ROOT / "configs" / "smoke" / "dapo.yaml"
NODE = ROOT / "configs" / "dapo" / "qwen2_5_vl_7b.yaml"


def states(checks: Iterator[NodeCheck]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


def failed(checks: Iterator[NodeCheck]) -> NodeCheck:
    """The one failed check; each of them has a remedy, or is one."""
    [check] = [check for check in checks if check.state == "FAILED"]
    return check


GPUS = """printf 'H100, {driver}, 81920, {used}, {mode}\\n%.0s' 1 2"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a program of that name on the path, which says what a GPU would."""

    def make(used: object = 0, mode: str = "Default", driver: str = "570.1") -> None:
        code = GPUS.format(used=used, mode=mode, driver=driver)
        command(tmp_path / "bin", "nvidia-smi", code)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    return make


@pytest.mark.parametrize(
    ("used", "mode", "wanted", "name", "words"),
    [
        (0, "Default", 8, "driver", "2 x H100, driver 570.1, and the run needs 8"),
        (0, "Exclusive_Process", 2, "compute mode", "EXCLUSIVE_PROCESS"),
        (60_000, "Default", 2, "GPU memory", "21 GiB free on each, of 63"),
    ],
)
def test_gpus_that_are_few_exclusive_or_full(
    nvidia_smi: Callable[..., None], used: int, mode: str, wanted: int, name: str, words: str
) -> None:
    nvidia_smi(used, mode)
    check = failed(check_gpus(read_gpus(), wanted, 63.0, shared=True))
    assert check.name == name
    assert words in check.detail
    assert check.remedy


@pytest.mark.parametrize(("used", "memory"), [(0, "ok"), ("[N/A]", "warning")])
def test_gpus_that_are_free_or_do_not_tell(
    nvidia_smi: Callable[..., None], used: object, memory: str
) -> None:
    nvidia_smi(used)
    found = states(check_gpus(read_gpus(), 2, 63.0, shared=True))
    assert found == {"driver": "ok", "compute mode": "ok", "GPU memory": memory}


def test_no_driver_no_compiler_and_a_torch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_gpus() is None
    assert failed(check_gpus(None, 8, 63.0, shared=True)).name == "driver"
    monkeypatch.delenv("CC", raising=False)
    assert (check_torch(1).state, check_compiler().state) == ("FAILED", "FAILED")


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("570.148.08", "13.0", "FAILED"),
        ("580.65.06", "13.0", "ok"),
        ("570.148.08", "12.8", "ok"),
        ("515.1", "12.8", "FAILED"),
    ],
)
def test_a_driver_is_new_enough_for_torchs_cuda(
    nvidia_smi: Callable[..., None], driver: str, cuda: str, state: str
) -> None:
    nvidia_smi(driver=driver)
    check = check_driver(read_gpus() or [], cuda)
    assert (check.state, f"driver {driver}" in check.detail) == (state, True)
    assert bool(check.remedy) == (state == "FAILED")


def test_triton_needs_a_c_compiler_and_pythons_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    assert check_compiler().state == "ok"
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h" in check_compiler().detail
    assert "python3-dev" in check_compiler().remedy
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert "/nowhere/cc" in check_compiler().detail


def test_memory_that_is_short(tmp_path: Path) -> None:
    check = failed(check_memory(1e6))
    assert check.name == "host memory"
    assert "of 1000000" in check.detail
    small = mounted(tmp_path)
    check = failed(check_memory(0.1, small))
    assert check.name == "shared memory"
    assert "--shm-size" in check.remedy


def test_memory_that_may_grow_is_not_called_short(tmp_path: Path) -> None:
    machine = kernel_files(tmp_path, available_gib=3, present_gib=24, managed_gib=4)

    def check(needed: float) -> NodeCheck:
        return next(check_memory(needed, tmp_path, root=machine))

    assert check(3).state == "ok"
    assert check(23).state == "warning"
    assert "3 GiB available, of 23 that the run needs" in check(23).detail
    assert "may grow with its use, to 23 GiB" in check(23).detail
    assert check(24).state == "FAILED"
    (machine / "proc/zoneinfo").unlink()
    assert "how far is unknown" in check(24).detail
    (machine / "proc/self/cgroup").write_text("0::/job\n")
    limit = machine / "sys/fs/cgroup/job/memory.max"
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{20 * GIB}\n")
    assert check(20).state == "warning"
    assert check(21).state == "FAILED"


def mounted(folder: Path) -> Path:
    """A file system of one megabyte."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    return folder


@pytest.fixture(autouse=True)
def unmounted(tmp_path: Path) -> Iterator[None]:
    yield
    if tmp_path.is_mount():
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_disk_that_is_good_full_slow_or_not_one(tmp_path: Path) -> None:
    good = check_files(tmp_path / "runs" / "x", 0.1, 0.1, 15)
    assert good.state == "ok"
    assert not list(tmp_path.iterdir())
    slow = check_files(tmp_path, 0.1, 1e6, 15)
    assert slow.state == "warning"
    assert "--stop_before" in slow.remedy
    assert "GB free, of 1000000.0" in check_files(tmp_path, 1e6, 1.0, 15).detail
    full = check_files(mounted(tmp_path) / "runs", 0.0001, 0.1, 15)
    assert full.state == "FAILED"
    assert "No space left" in full.detail
    assert "cannot be written" in check_files(Path("/proc/posh"), 0.0, 0.1, 15).detail
    assert "Not a directory" in check_files(Path(__file__) / "runs", 0.0, 0.1, 15).detail


def test_a_run_that_continues_needs_no_room_for_what_it_has_saved(tmp_path: Path) -> None:
    """A requeued job must not be refused for its own checkpoints."""
    saved = tmp_path / "checkpoint-100" / "global_step100" / "states.pt"
    saved.parent.mkdir(parents=True)
    with saved.open("wb") as file:
        file.truncate(10**13)  # ten thousand GB without content
    assert check_files(tmp_path, 10_000.1, 0.1, 15).state == "ok"
    assert check_files(tmp_path, 20_000, 0.1, 15).state == "FAILED"


def test_a_port_that_is_taken() -> None:
    with socket.socket() as owner:
        owner.bind(("", 0))
        owner.listen()
        port = owner.getsockname()[1]
        check = check_port(port)
    assert (check.state, check.detail.partition(" (")[0]) == ("FAILED", f"{port} cannot be used")
    assert (check_port(99_999).state, check_port(0).state) == ("FAILED", "ok")


def test_a_package_of_a_wrong_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(wrong_versions())
    folder = tmp_path / "vllm-0.9.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.9.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert any("vllm 0.9.0 is installed: pip install 'vllm" in line for line in wrong_versions())


def test_ranks_that_talk_and_ranks_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    place = NodePlace(port=free_port())
    failure, answer = run_ranks(["ranks", "cpu", "60"], place, 2, 60)
    assert failure is None
    assert answer["seconds"] > 0
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere0")
    failure, _ = run_ranks(["ranks", "cpu", "60"], NodePlace(port=free_port()), 1, 60)
    assert failure is not None
    assert "nowhere0" in failure


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_ranks_that_are_meant_for_gpus_do_not_fall_back_to_the_cpu() -> None:
    failure, _ = run_ranks(["ranks", "cuda", "60"], NodePlace(port=free_port()), 1, 60)
    assert failure is not None
    assert "finds no GPU that it can use" in failure


def test_one_broken_rank_of_two_does_not_hold_the_doctor_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two ranks cannot start; the first would wait for it for ten minutes."""
    dies = "import os\nif os.environ.get('RANK') == '1': os._exit(9)\n"
    (tmp_path / "sitecustomize.py").write_text(dies)
    monkeypatch.setattr(diagnosis, "RANK_GRACE_SECONDS", 1.0)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    began = time.monotonic()
    failure, _ = run_ranks(["ranks", "cpu", "600"], NodePlace(port=free_port()), 2, 600)
    assert failure is not None
    assert "ended with status 9" in failure
    assert time.monotonic() - began < 60


def test_a_judge_that_cannot_judge_fails_unless_it_is_not_checked(unfit_judge: Path) -> None:
    def told(check_judge: bool) -> list[tuple[str, str]]:
        script = Some(metric=None, judge=str(unfit_judge), check_judge=check_judge)
        result: Any = Some(script=script, on_cpu=True)
        return [(check.name, check.state) for check in _judge_checks(result, 120)]

    assert told(True) == [("judge", "FAILED")]
    assert told(False) == [("judge", "ok"), ("check_judge", "warning"), ("reading", "ok")]


def judged(python: str, model: str, seconds: float = 120) -> list[NodeCheck]:
    """What the doctor says of a judge in a child process with a small engine in it."""
    judge = {"name": "vllm", "model": model, "python": python}
    result: Any = Some(script=Some(metric=None, judge=judge), on_cpu=True)
    return list(_judge_checks(result, seconds))


@pytest.mark.slow
def test_a_judge_that_sleeps_wakes_and_grades_alike(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles where the first rank of a run will look."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    judge, reading = judged(python, f"tells:{tmp_path / 'told'}")
    assert (judge.state, reading.state) == ("ok", "ok")
    assert "slept, woke" in judge.detail
    told = (tmp_path / "told").read_text()
    assert told.startswith(str(tmp_path / "cache"))
    assert told.endswith("-gpu-0")


def test_a_judge_whose_grades_change_when_it_wakes(python: str) -> None:
    [check] = judged(python, "forgets")
    assert check.state == "FAILED"
    assert "after the judge has slept and woken" in check.detail


def test_the_judge_gets_all_of_the_seconds(python: str) -> None:
    """It took what ranks and ZeRO-3 had left of two minutes, and at least 20 s."""
    [check] = judged(python, "someone/tiny", 0.5)
    assert "no answer in 0 s (--timeout allows more)" in check.detail


def test_a_trial_ends_with_the_doctor() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        start_trial(["judge", "cpu", "2", "{}", "true"], {}) as child,
    ):
        raise KeyboardInterrupt
    assert not child.is_running


def test_a_trial_imports_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    failure, answer = run_ranks(["ranks", "cpu", "60"], NodePlace(port=free_port()), 1, 60)
    assert (failure, answer["backend"]) == (None, "gloo")


def test_one_process_is_not_said_to_have_met_others() -> None:
    alone: Any = Some(layout=Some(processes=1, zero_stage=0), on_cpu=True)
    ranks, zero3 = try_ranks(alone, NodePlace(port=free_port()), 1, 60)
    assert (ranks.state, zero3.state) == ("ok", "skipped")
    assert ranks.detail == "one process started gloo; there is no other to communicate with"


def test_a_deepspeed_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deepspeed.py").write_text("raise RuntimeError('no CUDA_HOME')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "deepspeed", raising=False)
    smoke = str(Path(__file__).resolve().parents[3] / "configs/smoke/sft.yaml")
    with pytest.raises(ConfigError, match=r"no CUDA_HOME.*pip uninstall deepspeed"):
        parse_settings(sft.SETTINGS, ["--config", smoke])
    assert import_failure("json") is None
    assert import_failure("not_installed_at_all") is None


def test_no_key_is_in_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_sesame_open")
    with start_trial(["hf_sesame_open"], {}) as child:
        failure, _ = read_answer(child, 60)
    assert failure == "KeyError: '***'"


def test_a_configuration_that_cannot_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("# python recipes/dapo_posh.py --config mine.yaml\nlearning_rat: 1\n")
    assert main(["doctor", "--config", str(path)]) == 2
    assert "FAILED   settings" in capfd.readouterr().out
    path.write_text("learning_rate: 1\n")
    detail = failed(diagnose(path)).detail
    assert "names no recipe: begin it with `# python recipes/sft.py" in detail


@pytest.mark.parametrize("line", ["evil.py", "{folder}/evil.py", "recipes/dapo_posh.py"])
def test_a_program_that_somebody_elses_launch_line_names_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    path, recipe = tmp_path / "theirs.yaml", tmp_path / "recipes" / "dapo_posh.py"
    recipe.parent.mkdir()
    for program in (recipe, tmp_path / "evil.py"):
        program.write_text(f"open({str(tmp_path / 'pwned')!r}, 'w').close()\nSETTINGS = ()\n")
    path.write_text(f"# python {line.format(folder=tmp_path)}\nseed: 1\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "no recipe of ours and not in ./recipes" in failed(diagnose(path)).detail
    assert not (tmp_path / "pwned").exists()
    monkeypatch.setenv("POSH_TRUST_SETTINGS", "1")
    assert recipe_settings(path) == ()
    assert (tmp_path / "pwned").exists()


def test_a_copied_recipe_is_ours_and_one_need_not_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, recipe = tmp_path / "mine.yaml", Path("recipes", "dapo_posh.py")
    path.write_text("# python recipes/dapo_posh.py\nseed: 1\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_recipe(path).__file__ == str(ROOT / recipe)
    (tmp_path / "recipes").mkdir()
    (tmp_path / recipe).write_bytes((ROOT / recipe).read_bytes())
    assert load_recipe(path).__file__ == str(ROOT / recipe)
    (tmp_path / recipe).write_text("SETTINGS = ()\n")  # changed, and run from its folder
    monkeypatch.chdir(tmp_path)
    assert recipe_settings(path) == ()


@pytest.mark.slow
def test_a_node_without_gpus_is_told_all_that_it_lacks() -> None:
    """The 7B configuration here: each line once."""
    checks = list(diagnose(NODE))
    lines = [str(check) for check in checks]
    assert all(check.remedy or ":" in check.detail for check in checks if check.state == "FAILED")
    for words in ("vllm, for use_vllm", "en_core_web_trf", "posh-reward fetch", "nvidia-smi"):
        assert any(line.startswith("FAILED") and words in line for line in lines), words


@pytest.mark.slow
def test_a_good_node_and_a_dead_judge(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=0)
    flags = ["--model_name_or_path", str(tmp_path / "tiny"), "--output_dir", str(tmp_path / "x")]
    port = ["--port", str(free_port())]
    assert main(["doctor", "--config", str(SMOKE), *port, "--", *flags]) == 0
    assert "ok       judge          scored a pair" in capfd.readouterr().out
    dead_server = "name: server\nbase_urls: [http://127.0.0.1:9]\nmodel: a/b\ntimeout: 2\n"
    (tmp_path / "dead.yaml").write_text(dead_server)
    weights = tmp_path / "tiny" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])  # copied in part
    dead = [*flags, "--judge", str(tmp_path / "dead.yaml")]
    assert main(["doctor", "--config", str(SMOKE), *port, "--", *dead]) == 2
    said = capfd.readouterr().out
    assert "FAILED   judge" in said
    assert f"FAILED   policy         {tmp_path / 'tiny'} has no complete {weights.name}" in said


@pytest.mark.deepspeed
def test_a_step_of_zero3_is_saved_and_resumed(deepspeed_python: str, tmp_path: Path) -> None:
    code = (
        "import sys; from posh_reward.training.doctor.diagnosis import NodePlace, run_ranks;"
        "place = NodePlace(port=int(sys.argv[2]));"
        "failure, _ = run_ranks(['zero3', 'cpu', '120', sys.argv[1]], place, 2, 120);"
        "print(failure)"
    )
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    for folder, words in ((tmp_path, "None"), (Path("/proc/posh"), "FileNotFoundError")):
        done = subprocess.run(
            [deepspeed_python, "-W", "ignore", "-c", code, str(folder), str(free_port())],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert words in done.stdout, done.stdout + done.stderr[-2000:]
    assert shutil.which(sys.executable)


@pytest.mark.deepspeed
def test_two_nodes_leave_no_checkpoint_behind(deepspeed_python: str, tmp_path: Path) -> None:
    code = (
        "import sys; from types import SimpleNamespace as Some;"
        "from posh_reward.training.doctor.diagnosis import NodePlace, try_ranks;"
        "from posh_reward.training.run_settings import Processes;"
        "run = Some(layout=Processes(2, 2, zero_stage=3), args=Some(output_dir=sys.argv[1]),"
        " on_cpu=True);"
        "place = NodePlace(2, int(sys.argv[3]), port=int(sys.argv[2]));"
        "print(*try_ranks(run, place, 1, 120), sep='\\n')"
    )
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    port = str(free_port())
    nodes = [
        start(
            deepspeed_python, "-W", "ignore", "-c", code, tmp_path, port, rank,
            env=environment, stdout=subprocess.PIPE,
        )
        for rank in "01"
    ]  # fmt: skip
    for node in nodes:
        output, _ = node.communicate(timeout=200)
        assert "ok       ZeRO-3 step" in output, output
    assert list(tmp_path.iterdir()) == []
