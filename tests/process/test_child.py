"""A child process and its keeper: real processes, whatever becomes of either."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest

from posh_reward.process import ChildFailureError, ChildProcess, progress
from posh_reward.process.child import child_variables, gpu_index
from posh_reward.process.progress import progress_bar
from tests.processes import alive, soon

ECHO = """
import ctypes, json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    do = request["do"]
    if do == "deaf":
        ctypes.PyDLL(None).sleep(600)
    if isinstance(do, int):
        os.kill(os.getpid(), do)
    if do == "exit":
        os._exit(7)
    told = {"pid": os.getpid(), "keeper": os.getppid(), "environment": dict(os.environ)}
    print(json.dumps({"id": request["id"], **told}), flush=True)
"""
Start = Callable[..., ChildProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that say who they are, and do what they are told."""
    started: list[ChildProcess] = []

    def one(*command: str) -> ChildProcess:
        started.append(ChildProcess(command or (sys.executable, "-c", ECHO), {"A": "1"}))
        return started[-1]

    yield one
    for child in started:
        child.stop()


def tell(child: ChildProcess, do: str | int = "answer", timeout: float = 30) -> dict[str, Any]:
    return child.ask({"id": 1, "do": do}, timeout)


def test_it_gets_the_environment_it_is_given_and_no_more(start: Start) -> None:
    found = tell(start())["environment"]
    assert found.pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python's own, for want of a locale
    assert found == {"A": "1"}


@pytest.mark.parametrize(
    ("do", "status"),
    [("exit", "7"), (signal.SIGSEGV, "-11"), (signal.SIGKILL, "-9"), (signal.SIGTERM, "-15")],
)
def test_how_it_ended_is_told(start: Start, do: str | int, status: str) -> None:
    with pytest.raises(ChildFailureError, match=rf"it died \(exit status {status}\)"):
        tell(start(), do)


@pytest.mark.parametrize("do", ["deaf", signal.SIGSTOP])
def test_it_is_ended_when_it_is_too_slow(start: Start, do: str | int) -> None:
    child = start()
    pid = tell(child)["pid"]
    with pytest.raises(ChildFailureError, match=r"no answer within 0\.5 s") as error:
        tell(child, do, timeout=0.5)
    assert error.value.slow
    assert not alive(pid)


def test_it_dies_with_its_keeper(start: Start) -> None:
    child = start()
    told = tell(child)
    os.kill(told["keeper"], signal.SIGKILL)
    assert soon(lambda: not alive(told["pid"]))
    with pytest.raises(ChildFailureError, match="died"):
        tell(child)


def test_a_keeper_that_does_not_react_is_not_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posh_reward.process.child.EXIT_GRACE_SECONDS", 0.3)
    child = start()
    told = tell(child)
    os.kill(told["keeper"], signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(ChildFailureError, match=r"no answer within 0\.3 s"):
        tell(child, "deaf", timeout=0.3)
    assert time.monotonic() - started < 5
    assert soon(lambda: not alive(told["pid"]))


NEEDED = (
    "PATH HOME LANG LC_ALL TMPDIR XDG_CACHE_HOME LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES CUDA_HOME "
    "NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS TORCH_HOME TORCHINDUCTOR_CACHE_DIR "
    "PYTORCH_ALLOC_CONF TRITON_CACHE_DIR HF_HOME HF_HUB_OFFLINE HUGGINGFACE_HUB_CACHE "
    "TRANSFORMERS_CACHE HTTPS_PROXY https_proxy no_proxy SSL_CERT_FILE NCCL_SOCKET_IFNAME"
).split()
NOT_FOR_IT = (
    "WANDB_API_KEY WANDB_MODE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY OPENAI_API_KEY "
    "POSH_JUDGE_API_KEY GITHUB_TOKEN RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK "
    "MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCH_NCCL_ASYNC_ERROR_HANDLING "
    "NCCL_ASYNC_ERROR_HANDLING ACCELERATE_USE_FSDP FSDP_VERSION PMI_RANK OMPI_COMM_WORLD_RANK "
    "SLURM_PROCID VLLM_CACHE_ROOT PATHOLOGY"
).split()
TOKENS = "HF_TOKEN HF_TOKEN_PATH HUGGING_FACE_HUB_TOKEN".split()
ALL = dict.fromkeys([*NEEDED, *NOT_FOR_IT, *TOKENS, "PYTHONPATH", "PYTHONHASHSEED"], "value")


def test_a_child_gets_what_it_needs_by_name() -> None:
    assert set(child_variables(ALL, "/another/python", hub=False)) == set(NEEDED)
    more = child_variables(ALL, "/another/python", hub=False, also=("VLLM_",))
    assert set(more) == {*NEEDED, "VLLM_CACHE_ROOT"}


def test_only_a_child_that_downloads_gets_the_key_to_the_hub() -> None:
    assert set(child_variables(ALL, "/another/python", hub=True)) == {*NEEDED, *TOKENS}


@pytest.mark.parametrize(
    ("visible", "rank", "place"),
    [(None, None, 0), (None, "3", 3), ("0,1,2,3", "3", 3), ("6", "3", 0), ("", "3", 0)],
)
def test_the_card_of_a_rank_has_a_place_among_those_it_sees(
    visible: str | None, rank: str | None, place: int
) -> None:
    given = {"CUDA_VISIBLE_DEVICES": visible, "LOCAL_RANK": rank}
    assert gpu_index({k: v for k, v in given.items() if v is not None}) == place


def go(monkeypatch: pytest.MonkeyPatch, stream: StringIO, total: int | None) -> str:
    """Everything that counting to three shows."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar("score", total, "pair") as bar:
        for _ in range(3):
            bar.update()
            bar.set_postfix_str("judging", refresh=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("total", "line"),
    [(3, "score: 2 of 3 pairs after 00:00, 00:00 left, judging"),
     (None, "score: 2 pairs after 00:00, judging")],
)  # fmt: skip
def test_long_work_has_lines(monkeypatch: pytest.MonkeyPatch, total: int | None, line: str) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    said = go(monkeypatch, StringIO(), total)
    assert line in said.splitlines()
    assert "\r" not in said
    assert all(said.splitlines())
