"""vLLM's process, with a small engine in it: a real child, and everything that can go wrong."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from posh_reward.models.vllm import VllmModel
from posh_reward.models.vllm.vllm_model import DEADLY, ENDED, GIVEN_UP, STICKING
from tests.models.children import LABELS, Make, ask, prompts, right, tell
from tests.models.stand_in import WORDS_THAT_KILL
from tests.processes import alive, soon

slow = pytest.mark.slow


def test_a_child_that_dies_in_mid_batch_is_replaced(make: Make, tmp_path: Path) -> None:
    model = make()
    suffixes = [*(f"dog {i}" for i in range(20)), f"once {tmp_path / 'mark'}", "cat", "cow"]
    assert ask(model, *suffixes) == pytest.approx([right(s) for s in suffixes])
    assert json.loads(tell(model, "asked")) == suffixes[20:], "what was answered is kept"


@pytest.mark.parametrize(
    "word",
    [
        word if word in ("die", "stuck", "half", "garbage") else pytest.param(word, marks=slow)
        for word in WORDS_THAT_KILL
    ],
)
def test_only_the_prompt_that_children_die_of_fails(make: Make, word: str) -> None:
    model = make(timeout={"stop": 0.6, "stuck": 0.6}.get(word, 30))
    suffixes = [f"dog {i}" for i in range(40)]
    suffixes[30] = word
    expected = [None if s == word else pytest.approx(right(s)) for s in suffixes]
    for _ in range(2):
        found = model.choose(prompts(*suffixes), LABELS)
        assert [verdict.grade for verdict in found] == expected
        assert found[30].failure == (STICKING if word in ("stop", "stuck") else DEADLY)
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
    assert {verdict.failure for verdict in found} == {ENDED}
    assert ask(model, "dog") == [right("dog")]
    assert {verdict.failure for verdict in model.choose(deadly, LABELS)} == {ENDED}


def test_after_too_many_restarts_every_judgment_fails_at_once(make: Make) -> None:
    model = make(max_restarts=2)
    for reason in (ENDED, GIVEN_UP):
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
