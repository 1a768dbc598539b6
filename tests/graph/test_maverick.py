"""Maverick's resolver with a fake worker, with a stub of the package, and (slow) with Maverick."""

import gc
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spacy.tokens import Doc

from posh_reward.errors import MissingDependencyError
from posh_reward.graph import maverick
from posh_reward.graph.maverick import (
    ENV_VARIABLE,
    CorefError,
    MaverickCoref,
    UnresolvedTextError,
    default_env,
    locate_python,
)
from posh_reward.types import Clusters
from tests.parses import VOCAB
from tests.processes import alive

HERE = Path(__file__).parent
WRAPPER = """#!{python}
import runpy, sys
sys.path.insert(0, {stub!r})
sys.argv = sys.argv[2:]  # without -I
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STUB = """
import os
print("noise at import")
class Maverick:
    def __init__(self, hf_name_or_path, device):
        print(hf_name_or_path, "loading on", device)
    def predict(self, sentences):
        words = [word for sentence in sentences for word in sentence]
        os.system("echo noise of a child process")
        if words[0] == "stumble":
            raise IndexError("no mentions")
        return {"clusters_token_offsets": [((4, 4), (0, 1), (0, 1)), ((2, 2),), ((3, 3), (3, 3))]}
"""


def make_env(folder: Path, interpreter: str) -> Path:
    """An environment whose interpreter is a script."""
    python = locate_python(folder)
    python.parent.mkdir(parents=True)
    python.write_text(interpreter)
    python.chmod(0o755)
    return folder


def doc(text: str, *, starts: tuple[int, ...] = ()) -> Doc:
    """A Doc of the words of a text; sentences start at these tokens."""
    words = text.split(" ")
    return Doc(VOCAB, words=words, sent_starts=[i == 0 or i in starts for i in range(len(words))])


def resolve(resolver: MaverickCoref, text: str, **options: tuple[int, ...]) -> Clusters:
    return resolver.resolve([doc(text, **options)])[0]


@pytest.fixture
def coref(tmp_path: Path) -> Iterator[Callable[..., MaverickCoref]]:
    """Makes resolvers whose worker is ``fake_maverick.py``."""
    fake = (HERE / "fake_maverick.py").read_text()
    env = make_env(tmp_path / "env", f"#!{sys.executable}\n{fake}")
    made: list[MaverickCoref] = []

    def make(weights: str = "someone/maverick-mes-tiny", **options: object) -> MaverickCoref:
        made.append(MaverickCoref(weights, env=env, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for resolver in made:
        resolver.close()


def test_clusters_are_token_spans_of_the_whole_text(coref: Callable[..., MaverickCoref]) -> None:
    texts = [doc("he sees him . he sleeps", starts=(4,)), doc("nothing twice"), Doc(VOCAB)]
    assert coref().resolve(texts) == [(((0, 0), (4, 4)),), (), ()]


def test_a_worker_that_never_starts_is_given_up(
    coref: Callable[..., MaverickCoref], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CorefError, match=r"failed 4 times in a row(.|\n)*killed while loading"):
        resolve(coref("broken"), "he he")
    with pytest.raises(CorefError, match="Check that the weights 'absent' and the device"):
        resolve(coref("absent"), "he he")
    with pytest.raises(MissingDependencyError, match="Repair its environment with: python -m"):
        resolve(coref("missing"), "he he")
    monkeypatch.setattr(maverick, "START_TIMEOUT_SECONDS", 0.001)
    with pytest.raises(CorefError, match=r"within 0.001 s"):
        resolve(coref(), "he he")


def test_a_child_that_dies_in_mid_batch_is_replaced(
    coref: Callable[..., MaverickCoref], tmp_path: Path
) -> None:
    texts = [doc("he he"), doc(f"she once:{tmp_path / 'mark'} she"), doc("it it")]
    found = coref().resolve(texts)
    assert found == [(((0, 0), (1, 1)),), (((0, 0), (2, 2)),), (((0, 0), (1, 1)),)]


@pytest.mark.parametrize("word", ["die", "garbage", "list", "cut", "other"])
def test_a_text_that_crashes_workers_is_given_up(
    coref: Callable[..., MaverickCoref], word: str
) -> None:
    resolver = coref()
    for _ in range(3):  # beyond MAX_FAILURES, if each went to the worker again
        with pytest.raises(UnresolvedTextError, match="Maverick failed on a text"):
            resolve(resolver, word)
        assert resolve(resolver, "he he") == (((0, 0), (1, 1)),)


def test_last_words_are_reported(coref: Callable[..., MaverickCoref]) -> None:
    with pytest.raises(UnresolvedTextError, match=r"died \(exit status 9\)(.|\n)*out of memory"):
        resolve(coref(), "die")


def test_a_hanging_worker_is_killed_and_asked_once(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref(timeout=0.5)
    resolve(resolver, "he he")
    start = time.monotonic()
    with pytest.raises(UnresolvedTextError, match=r"within 0\.5 s"):
        resolve(resolver, "hang")
    assert time.monotonic() - start < 5
    assert resolve(resolver, "he he") == (((0, 0), (1, 1)),)


def test_restarts_in_a_row_are_bounded(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref()
    with pytest.raises(UnresolvedTextError):
        resolve(resolver, "die a")
    with pytest.raises(CorefError, match="failed 4 times in a row"):
        resolve(resolver, "die b")


def test_an_error_keeps_the_worker_unless_it_broke_it(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref()

    def pid(text: str = "pid") -> str:
        with pytest.raises(UnresolvedTextError) as told:
            resolve(resolver, text)
        return str(told.value)

    first = pid()
    for _ in range(5):
        with pytest.raises(UnresolvedTextError, match="ValueError: no mentions"):
            resolve(resolver, "stumble")
    assert pid() == pid("broken pid") == first
    assert pid() != first


def test_the_worker_gets_no_keys_but_the_one_to_its_weights(
    coref: Callable[..., MaverickCoref], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "WANDB_API_KEY", "VLLM_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "not for all")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(UnresolvedTextError, match=r"\['HF_TOKEN'\] ''"):
        resolve(coref(device="cpu"), "variables")
    with pytest.raises(UnresolvedTextError, match=r"\[\] '3'"):
        resolve(coref(str(tmp_path), device="cuda"), "variables")


@pytest.mark.parametrize(("visible", "gpu"), [(None, "2"), ("4,5,6,7", "6"), ("7", "7")])
def test_each_rank_has_its_worker_on_its_own_gpu(
    visible: str | None, gpu: str, coref: Callable[..., MaverickCoref],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(UnresolvedTextError, match=f"'{gpu}'"):
        resolve(coref(), "variables")


def test_a_missing_environment_is_reported_with_the_remedy(tmp_path: Path) -> None:
    command = rf"python -m posh_reward\.graph\.maverick {tmp_path / 'none'}"
    with pytest.raises(MissingDependencyError, match=command):
        MaverickCoref(env=tmp_path / "none")


def test_threads_take_turns(coref: Callable[..., MaverickCoref]) -> None:
    resolver, found = coref(), dict[int, Clusters]()

    def work(i: int) -> None:
        found[i] = resolve(resolver, "x " * i + "he he")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i][-1] == ((i, i), (i + 1, i + 1)) for i in range(8))


def test_the_process_ends_with_its_resolver(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref()
    with pytest.raises(UnresolvedTextError, match="pid") as told:
        resolve(resolver, "pid")
    pid = int(str(told.value).rpartition(" ")[2])
    assert alive(pid)
    resolver.close()
    del told
    gc.collect()
    assert not alive(pid)


def test_a_pickled_resolver_starts_a_process_of_its_own(
    coref: Callable[..., MaverickCoref],
) -> None:
    resolver = coref("someone/tiny@main", device="cpu")
    assert resolver.name == "tiny@0123abc"
    copy = pickle.loads(pickle.dumps(resolver))
    assert resolve(copy, "he he") == (((0, 0), (1, 1)),)
    assert copy.name == resolver.name
    copy.close()


def test_the_worker_keeps_the_protocol_clean(tmp_path: Path) -> None:
    (tmp_path / "weights.ckpt").write_text("weights")
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "maverick.py").write_text(STUB)
    interpreter = WRAPPER.format(python=sys.executable, stub=str(tmp_path / "stub"))
    env = make_env(tmp_path / "env", interpreter)
    for weights in (tmp_path / "weights.ckpt", tmp_path):
        resolver = MaverickCoref(str(weights), env=env)
        digest = "9a129038d9a00aed"  # printf weights | sha256sum
        assert resolve(resolver, "a b c d e") == (((0, 1), (4, 4)),)
        assert resolver.name == f"{weights.name}@sha256-{digest}"
        with pytest.raises(UnresolvedTextError, match="IndexError: no mentions"):
            resolve(resolver, "stumble")
        resolver.close()


@pytest.mark.slow
def test_maverick_itself_resolves_texts(tmp_path: Path) -> None:
    env = default_env()
    if not locate_python(env).exists():
        pytest.skip(f"{env} is not there: {maverick.setup_command(env)}, and {ENV_VARIABLE}")
    tiny = HERE / "tiny_maverick.py"
    subprocess.run([locate_python(env), "-I", tiny, tmp_path / "tiny"], check=True)
    resolver = MaverickCoref(str(tmp_path / "tiny"), env=env)
    man = doc("A man sits . He holds a lamp . \n\n The man sleeps .", starts=(4, 10))
    girl = doc("A girl stands to our left . She holds the dog .", starts=(7,))
    found = resolver.resolve([man, girl])
    assert resolver.name.startswith("tiny@sha256-")
    for clusters, text in zip(found, (man, girl), strict=True):
        assert clusters, "random weights link something"
        for cluster in clusters:
            assert len(cluster) >= 2
            assert all(0 <= first <= last < len(text) for first, last in cluster)
    assert resolver.resolve([girl, man]) == [found[1], found[0]], "batches change nothing"
    resolver.close()
