"""vLLM's process, with a small engine in it: how it is started, and what it answers."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from posh_reward import JudgeError
from posh_reward.models.hub import fingerprint_files
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits, load_prompt_image, resize_for_model
from posh_reward.models.vllm import VllmModel
from posh_reward.models.vllm.vllm_engine import (
    UNEXPECTED_TOKENS,
    ImageInputs,
    add_token_counts,
    build_engine_prompt,
)
from posh_reward.models.vllm.vllm_model import (
    BATCH_GIVEN_UP,
    CRASHES_ENGINE,
    JUDGE_GIVEN_UP,
    NO_ANSWER_IN_TIME,
)
from posh_reward.models.vllm.vllm_worker import EngineReply, parse_prompts, prompts_json
from posh_reward.types import PromptImage
from tests.models.children import LABELS, Make, ask, prompts, right, tell
from tests.models.stand_in import SIZES, WORDS_THAT_KILL, masses
from tests.models.tiny_vl import prompt_image
from tests.processes import alive, soon


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
    monkeypatch.setattr("posh_reward.models.vllm.vllm_model.MAX_SILENCE_SECONDS", 0.6)
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
    assert found["VLLM_CACHE_ROOT"].startswith("/mine/"), "a folder of this GPU"
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
    found = environment(make())
    assert {name for name, value in found.items() if value == "very secret"} == {"HF_TOKEN"}
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
    one = fingerprint_files(tmp_path / "one")
    assert fingerprint_files(tmp_path / "copy") == one
    with (tmp_path / "copy" / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"b")
    assert fingerprint_files(tmp_path / "copy") != one


slow = pytest.mark.slow


def test_a_child_that_dies_in_mid_batch_is_replaced(make: Make, tmp_path: Path) -> None:
    model = make()
    suffixes = [*(f"dog {i}" for i in range(20)), f"once {tmp_path / 'mark'}", "cat", "cow"]
    assert ask(model, *suffixes) == pytest.approx([right(s) for s in suffixes])
    assert json.loads(tell(model, "asked")) == suffixes[20:], "what was answered is kept"


@pytest.mark.parametrize(
    "word",
    [word if word in ("die", "stuck", "half", "garbage") else pytest.param(word, marks=slow)
     for word in WORDS_THAT_KILL],
)  # fmt: skip
def test_only_the_prompt_that_children_die_of_fails(make: Make, word: str) -> None:
    model = make(timeout={"stop": 0.6, "stuck": 0.6}.get(word, 30))
    suffixes = [f"dog {i}" for i in range(40)]
    suffixes[30] = word
    expected = [None if s == word else pytest.approx(right(s)) for s in suffixes]
    for _ in range(2):
        found = model.choose(prompts(*suffixes), LABELS)
        assert [verdict.grade for verdict in found] == expected
        hangs = word in ("stop", "stuck")
        assert found[30].failure == (NO_ANSWER_IN_TIME if hangs else CRASHES_ENGINE)
    assert tell(model, "pid")


def test_many_culprits_do_not_touch_their_neighbours(make: Make) -> None:
    model = make(max_restarts=20)
    suffixes = ["die 1", *(f"dog {i}" for i in range(30)), "die 2", "cat"]
    found = ask(model, *suffixes)
    assert [grade is None for grade in found] == ["die" in suffix for suffix in suffixes]
    assert ask(model, *suffixes) == found


@slow
def test_a_prompt_that_sticks_costs_three_timeouts(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    model = make(timeout=1.2)
    suffixes = [*(f"dog {i}" for i in range(300)), "stuck", *(f"cat {i}" for i in range(300))]
    expected = [None if s == "stuck" else pytest.approx(right(s)) for s in suffixes]
    assert ask(model, *suffixes) == expected
    assert caplog.text.count("vLLM's process failed: it") == 3


def test_a_lost_batch_is_not_the_end(make: Make) -> None:
    model = make(max_restarts=2)
    deadly = prompts(*(f"die {i}" for i in range(20)))
    found = model.choose([*deadly, *prompts("dog")], LABELS)
    assert {verdict.failure for verdict in found} == {BATCH_GIVEN_UP}
    assert ask(model, "dog") == [right("dog")]
    assert {verdict.failure for verdict in model.choose(deadly, LABELS)} == {BATCH_GIVEN_UP}


def test_after_too_many_restarts_every_judgment_fails_at_once(make: Make) -> None:
    model = make(max_restarts=2)
    for reason in (BATCH_GIVEN_UP, JUDGE_GIVEN_UP):
        found = model.choose(prompts(*(f"die {i}" for i in range(20))), LABELS)
        assert {verdict.failure for verdict in found} == {reason}
    started = time.monotonic()
    model.wake()
    [verdict] = model.choose(prompts("dog"), LABELS)
    [rewrite] = model.write(prompts("dog"), 20)
    model.sleep()
    assert verdict.failure == rewrite.failure == found[0].failure
    assert time.monotonic() - started < 0.1


def test_an_interrupt_ends_the_child(make: Make) -> None:
    model = make()
    pid = int(tell(model, "pid"))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ask(model, "stuck")
    assert not alive(pid)
    assert ask(model, "dog") == [right("dog")]


def test_last_words_are_logged_without_secrets(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789")
    model = make()
    with caplog.at_level(logging.DEBUG):
        ask(model, "die", "raise")
    assert "out of memory, token ***" in caplog.text
    assert "illegal memory access" in caplog.text
    assert "very_secret" not in caplog.text
    assert json.loads(tell(model, "environment"))["HF_TOKEN"] == "hf_very_secret"


PARENT = """
import os, sys, threading, time
from posh_reward.models.vllm import VllmModel
from posh_reward.models.model import Prompt
python, how = sys.argv[1:]
model = VllmModel("x/y", python=python)
def tell(what):
    return model.write([Prompt("", what)], 9)[0].text
if "thread" in how:
    start = threading.Thread(target=model.wake)
    start.start()
    start.join()
offspring = {"offspring": "offspring", "escaped": "escaped offspring"}.get(how, "pid")
print(tell("pid"), tell(offspring), flush=True)
if how == "fork" and os.fork() == 0:
    time.sleep(5)  # holds the parent's end of the pipe
if how == "busy":
    tell("stuck")
if "deaf" in how:
    tell("deaf")
if how == "close":
    model.close()
    print("closed", flush=True)
if how != "exit":
    time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    "how", "idle busy thread deaf thread-deaf fork stopped offspring escaped close exit".split()
)
def test_a_parent_that_ends_leaves_no_orphan(python: str, how: str) -> None:
    command = [sys.executable, "-c", PARENT, python, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        try:
            if how == "close":
                assert parent.stdout.readline() == "closed\n"
                assert not any(map(alive, pids))
            elif how != "exit":
                assert all(map(alive, pids))
            if "deaf" in how:
                time.sleep(0.5)  # until the request has reached it
            if how == "stopped":
                os.kill(pids[0], signal.SIGSTOP)
            if how != "exit":
                parent.kill()
            parent.wait()
            assert soon(lambda: not any(map(alive, pids)), 4), "a child outlived its parent"
        finally:
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("what", ["offspring", "escaped offspring"])
def test_what_a_child_has_started_ends_with_it(make: Make, what: str) -> None:
    model = make()
    for end in (model.close, lambda: ask(model, "exit")):
        pid = int(tell(model, what))
        assert alive(pid)
        end()
        try:
            assert soon(lambda pid=pid: not alive(pid), 4)  # type: ignore[misc]
        finally:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


FORKING = """
import os, sys
from posh_reward.models.vllm import VllmModel
from posh_reward.models.model import Prompt
model = VllmModel("x/y", python=sys.argv[1])
def pid():
    return model.write([Prompt("", "pid")], 9)[0].text
before = pid()
fork = os.fork()
if fork == 0:
    model.sleep()
    model.close()
    own = pid()
    model.close()
    os._exit(0 if own not in (None, before) else 1)
assert os.waitpid(fork, 0)[1] == 0
assert pid() == before
"""


def test_a_fork_leaves_its_parents_child_alone(python: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, python]
    subprocess.run(command, check=True, timeout=60)


def test_the_process_ends_with_its_model(python: str) -> None:
    model = VllmModel("x/y", python=python)
    pid = int(tell(model, "pid"))
    assert alive(pid)
    del model
    gc.collect()
    assert not alive(pid)


SMALL, LARGE = prompt_image(30, 20), prompt_image(90, 60)


def probabilities_of(prompt: Prompt) -> list[float]:
    """The probabilities that a sound engine gives, which depend on each byte that it sees."""
    images = [resize_for_model(each.image, *SIZES) for each in prompt.images]  # type: ignore[arg-type]
    found = masses(prompt.text, len(LABELS), sum(sum(image.tobytes()) for image in images))
    return [mass / sum(found) for mass in found]


def test_images_are_seen_to_the_last_byte(make: Make) -> None:
    model = make("sees")
    assert model.sees
    asked = [
        prompt._replace(images=prompt_images)
        for prompt_images in ((), (SMALL,), (LARGE,), (LARGE, SMALL))
        for prompt in prompts("dog", "cat")
    ]
    for prompt, verdict in zip(asked, model.choose(asked, LABELS), strict=True):
        assert verdict.probabilities == pytest.approx(probabilities_of(prompt))
    [reply] = model.write([Prompt("", "sizes", (SMALL, LARGE))], 20)
    assert reply.text == "(32, 16) (48, 32)", "multiples of 8, of at most 2000 pixels"


def test_an_image_crosses_the_pipe_once() -> None:
    asked = [Prompt("Look. ", word, (SMALL,)) for word in "abc"]
    request = prompts_json(asked, {SMALL: SMALL.image})
    assert list(request["images"]) == [SMALL.digest]
    back = parse_prompts(request)
    assert back == asked
    assert {load_prompt_image(each.images[0].image) for each in back} == {SMALL}
    assert "images" not in prompts_json(prompts("dog"), {})


def test_an_image_that_cannot_be_shown_fails_alone(make: Make) -> None:
    odd = PromptImage("0dd", object())
    thin = prompt_image(4000, 10)
    asked = [Prompt("", "dog", (each,)) for each in (odd, SMALL, thin)]
    first, sound, last = make("sees").choose(asked, LABELS)
    assert "object is not a PIL image" in str(first.failure)
    assert sound.probabilities == pytest.approx(probabilities_of(asked[1]))
    assert "too long and thin" in str(last.failure)


SIGHT = ImageInputs(SizeLimits(*SIZES), placeholder=7)


def test_vllm_gets_one_placeholder_an_image_and_its_digest() -> None:
    prompt = Prompt("", "dog", (SMALL, LARGE))
    given = build_engine_prompt(prompt, [1, 7, 2, 7, 3])
    assert given["prompt_token_ids"].count(7) == 2
    assert given["multi_modal_data"]["image"] == [SMALL.image, LARGE.image]
    assert given["multi_modal_uuids"]["image"] == [SMALL.digest, LARGE.digest]
    assert build_engine_prompt(Prompt("", "dog"), [1]) == {"prompt_token_ids": [1]}
    settled_ones = Prompt("", "dog", (prompt_image(32, 16), prompt_image(48, 32)))
    assert SIGHT.count_image_tokens(settled_ones) == 4 * 2 + 6 * 4 - 2


def test_other_tokens_than_were_asked_for_are_no_answer() -> None:
    """A placeholder that is expanded twice shows in the number of tokens (huggingface/trl#6294)."""

    class Reply:
        prompt_token_ids = (1,) * 12
        num_cached_tokens = 4
        outputs: tuple[Any, ...] = (type("Output", (), {"token_ids": [5]})(),)

    given = EngineReply(masses=(0.5, 0.5))
    answer = add_token_counts(given, Reply(), 12)
    assert (answer.submitted, answer.computed, answer.masses) == (12, 8, given.masses)
    assert add_token_counts(given, Reply(), 9).failure == UNEXPECTED_TOKENS
