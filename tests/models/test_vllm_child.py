"""vLLM's process, with a small engine in it: how it is started, and what it answers."""

import json
import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from posh_reward import JudgeError
from posh_reward.models.hub import fingerprint
from posh_reward.models.vllm import VllmModel
from tests.models.children import LABELS, Make, ask, prompts, right, tell


def environment(model: VllmModel) -> dict[str, str]:
    found: dict[str, str] = json.loads(tell(model, "environment"))
    return found


def test_verdicts_are_in_order_and_counted(make: Make) -> None:
    model = make()
    suffixes = [f"dog {i}" for i in range(50)]
    found = model.choose(prompts(*suffixes), LABELS)
    assert [verdict.grade for verdict in found] == pytest.approx([right(s) for s in suffixes])
    assert [verdict.mass for verdict in found] == pytest.approx([0.5] * 50)
    [rewrite] = model.write(prompts("red dog"), 20)
    assert rewrite.text == "the red dog"
    usage = model.usage
    assert (usage.prompt_tokens_submitted, usage.prompt_tokens_computed) == (500, 200)
    assert usage.tokens_decoded == 52
    assert json.loads(tell(model, "asked")) == [*suffixes, "red dog"]
    assert model.choose([], LABELS) == []
    assert model.write([], 20) == []


def test_it_sleeps_and_wakes(make: Make) -> None:
    model = make()
    model.wake()
    pid = tell(model, "pid")
    model.sleep()
    assert tell(model, "asleep") == "True"
    model.wake()
    assert tell(model, "asleep") == "False"
    restless = make(sleep=False)
    restless.wake()
    restless.sleep()
    assert tell(restless, "asleep") == "False"
    assert tell(model, "pid") == pid


def test_a_slow_answer_is_waited_for_as_long_as_there_are_signs_of_life(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posh_reward.models.vllm.vllm_model.SILENCE", 0.6)
    model = make(max_restarts=0)
    assert ask(model, "dog", "slowly") == [right("dog"), right("slowly")]


def test_a_failure_at_the_start_is_reported_with_its_reason(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    for model, told in {
        "refuses": "ValueError: no kernel for this GPU",
        "killed": r"process died \(exit status -9\)(.|\n)*out of memory",
    }.items():
        with pytest.raises(JudgeError, match=told) as error:
            make(model).wake()
        assert "memory_gb" in str(error.value)
        assert "very_secret" not in str(error.value)
    with pytest.raises(JudgeError, match=r"within 0.5 s"):
        make("mute", start_timeout=0.5).wake()
    with pytest.raises(JudgeError, match="no kernel"):
        ask(make("refuses"), "dog")


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed here")
def test_an_interpreter_without_vllm_is_named(tmp_path: Path) -> None:
    for model in (VllmModel("x/y"), VllmModel("x/y", python=sys.executable)):
        with pytest.raises(JudgeError, match=rf"not installed in {sys.executable}.*\[vllm\]"):
            model.wake()
    with pytest.raises(JudgeError, match="cannot be run"):
        _ = VllmModel("x/y", python=str(tmp_path / "python")).name


def test_the_child_is_not_a_rank(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = (
        "RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME "
        "MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID ACCELERATE_USE_FSDP FSDP_VERSION PYTHONPATH "
        "VLLM_BATCH_INVARIANT VLLM_DP_RANK TORCH_NCCL_ASYNC_ERROR_HANDLING"
    ).split()
    for name in launcher:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/mine")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:64")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    found = environment(make())
    assert not set(launcher) & set(found)
    assert "LOCAL_RANK" not in found
    assert found["CUDA_VISIBLE_DEVICES"] == "6"
    assert found["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert found["VLLM_CACHE_ROOT"] == "/mine"
    assert found["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:64"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in found
    invariant = environment(make(batch_invariant=True))
    assert invariant["VLLM_BATCH_INVARIANT"] == "1"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1", "the trainer's own stay"


def test_the_child_compiles_no_sampler_and_reports_no_usage(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_USE_FLASHINFER_SAMPLER", raising=False)
    variables = environment(make())
    assert variables["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert variables["VLLM_NO_USAGE_STATS"] == "1"
    monkeypatch.setenv("VLLM_USE_FLASHINFER_SAMPLER", "1")
    assert environment(make())["VLLM_USE_FLASHINFER_SAMPLER"] == "1", "the user has a toolkit"


def test_the_child_gets_no_keys_but_the_one_to_its_model(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = {"WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "POSH_JUDGE_API_KEY", "VLLM_API_KEY"}
    for name in (*keys, "HF_TOKEN"):
        monkeypatch.setenv(name, "very secret")
    assert {name for name, value in environment(make()).items() if value == "very secret"} == {
        "HF_TOKEN"
    }
    assert "HF_TOKEN" not in environment(make(str(tmp_path))), "a folder needs no key"


def test_threads_take_turns(make: Make) -> None:
    model, found = make(), dict[int, list[float | None]]()

    def work(i: int) -> None:
        found[i] = ask(model, f"dog {i}", f"cat {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [right(f"dog {i}"), right(f"cat {i}")] for i in range(8)}


def test_a_folder_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    for name, weights in {"one": b"a" * 3_000_000, "copy": b"a" * 3_000_000}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
    one = fingerprint(tmp_path / "one")
    assert fingerprint(tmp_path / "copy") == one
    with (tmp_path / "copy" / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"b")
    assert fingerprint(tmp_path / "copy") != one
