"""vLLM's process, with a small engine in it: how it is started, and what it answers."""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from posh_reward import InputError, JudgeError, PoSh
from posh_reward.metrics.posh.judges.load_judge import load_judge
from posh_reward.models.hub import fingerprint
from posh_reward.models.vllm import VllmModel
from posh_reward.models.vllm.boot import about
from posh_reward.models.vllm.vllm_engine import (
    INCOMPLETE,
    check_scoring,
    likeliest,
    read_labels,
)
from posh_reward.models.vllm.wire import EngineReply
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


def test_the_name_says_what_answers_depend_on(make: Make) -> None:
    assert make().name == "vllm-0.0.1:someone/tiny@0123abc:bfloat16:labels"
    other = make(revision="v2", dtype="float16", reading="top-20", batch_invariant=True)
    assert other.name == "vllm-0.0.1:someone/tiny@v2:float16:top-20:batch-invariant"


def test_the_engine_is_made_as_asked_for(make: Make) -> None:
    told = json.loads(tell(make(memory_gb=2.5, max_model_len=1234), "settings"))
    assert told["kv_cache_memory_bytes"] == 2.5 * 2**30
    assert (told["max_model_len"], told["revision"]) == (1234, "0123abc")


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


def test_a_slow_start_is_waited_for(make: Make) -> None:
    assert ask(make("slow", timeout=0.5), "dog") == [right("dog")]


def test_a_slow_answer_is_waited_for_as_long_as_there_are_signs_of_life(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posh_reward.models.vllm.engine_process.SILENCE", 0.6)
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
        with pytest.raises(JudgeError, match=rf"not installed in {sys.executable}.*posh-reward\["):
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


@pytest.mark.parametrize(
    ("rank", "visible", "gpu"),
    [
        (None, None, "0"),
        ("3", None, "3"),
        ("1", "5, GPU-8f", "GPU-8f"),
        ("3", "7", "7"),
        ("0", "", ""),
    ],
)
def test_the_child_sees_its_ranks_card(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    rank: str | None,
    visible: str | None,
    gpu: str,
) -> None:
    for name, value in {"LOCAL_RANK": rank, "CUDA_VISIBLE_DEVICES": visible}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert environment(make())["CUDA_VISIBLE_DEVICES"] == gpu


def test_a_rank_without_a_card_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(InputError, match="LOCAL_RANK is 2"):
        make().wake()


def test_values_that_cannot_be_used_are_named(make: Make) -> None:
    with pytest.raises(InputError, match="unknown reading 'top-5'"):
        make(reading="top-5")
    with pytest.raises(InputError, match="memory_gb is 0"):
        make(memory_gb=0)


def test_a_missing_folder_is_named_even_if_vllm_has_no_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    folder = str(tmp_path / "absent")
    assert f"there is no folder {folder}" in about(folder, None)["fatal"]


def test_pickles_leave_the_process_behind(make: Make) -> None:
    model = make()
    first = ask(model, "dog")
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.name, copy.usage.tokens_decoded) == (model.name, 0)
    assert ask(copy, "dog") == first
    assert tell(copy, "pid") != tell(model, "pid")
    copy.close()


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


def test_the_sampled_token_is_not_one_of_the_twenty() -> None:
    found = {7: SimpleNamespace(logprob=-9.0, rank=21), 8: SimpleNamespace(logprob=-1.0, rank=20)}
    assert likeliest(found) == {8: -1.0}


def test_a_label_that_the_engine_left_out_is_a_failure() -> None:
    found = {i: SimpleNamespace(logprob=-1.0) for i in (7, 8, 9)}
    share = math.exp(-1)
    assert read_labels(found, [(7,), (8,)]).masses == (share, share)
    assert read_labels(found, [(7,), (8, 6)]) == EngineReply(failure=INCOMPLETE)
    found[8] = SimpleNamespace(logprob=-math.inf)
    assert read_labels(found, [(7,), (8,)]) == EngineReply(failure=INCOMPLETE)


def test_an_engine_that_cannot_score_chosen_tokens_is_refused() -> None:
    check_scoring(lambda max_tokens, logprob_token_ids: None, "0.32.0")
    with pytest.raises(ImportError, match=r"vLLM 0\.11\.0 .*top-20"):
        check_scoring(lambda max_tokens, logprobs: None, "0.11.0")


def test_it_judges_for_the_metric(python: str) -> None:
    texts = ["A tall man holds a red cup."], ["A man in a coat holds a cup."]
    judge = load_judge({"name": "vllm", "model": "someone/tiny", "python": python})
    posh = PoSh(judge)
    [scores] = posh.score(*texts)
    assert scores.f1 is not None
    assert "vllm-0.0.1:someone/tiny@0123abc:bfloat16:labels" in scores.signature
    judge.close()
