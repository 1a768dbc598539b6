"""Maverick's resolver with a worker without a model: real processes, and what can go wrong."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spacy.tokens import Doc

from posh_reward.errors import MissingDependencyError
from posh_reward.graph.coref.maverick import (
    CorefError,
    MaverickCoref,
    UnresolvedTextError,
)
from posh_reward.graph.coref.maverick_setup import ENV_VARIABLE
from posh_reward.types import Clusters
from tests.graph.maverick_envs import VOCAB, doc, fake_env, resolve
from tests.processes import alive


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_VARIABLE, raising=False)


@pytest.fixture
def coref(tmp_path: Path) -> Iterator[Callable[..., MaverickCoref]]:
    """Makes resolvers whose worker is ``fake_maverick.py``."""
    env = fake_env(tmp_path / "env")
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


def test_a_worker_that_never_starts_is_given_up(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref("mute", start_timeout=0.3, max_restarts=1)
    with pytest.raises(CorefError, match=r"failed 2 times in a row(.|\n)*within 0.3 s"):
        resolve(resolver, "he he")
    with pytest.raises(CorefError, match=r"(.|\n)*killed while loading"):
        resolve(coref("broken", max_restarts=0), "he he")


def test_a_child_that_dies_in_mid_batch_is_replaced(
    coref: Callable[..., MaverickCoref], tmp_path: Path
) -> None:
    texts = [doc("he he"), doc(f"she once:{tmp_path / 'mark'} she"), doc("it it")]
    found = coref().resolve(texts)
    assert found == [(((0, 0), (1, 1)),), (((0, 0), (2, 2)),), (((0, 0), (1, 1)),)]


@pytest.mark.parametrize("word", ["die", "garbage", "list", "cut", "other", "outside"])
def test_a_text_that_crashes_workers_is_given_up(
    coref: Callable[..., MaverickCoref], word: str
) -> None:
    resolver = coref()
    for _ in range(3):  # beyond max_restarts, if each went to the worker again
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
    resolver = coref(max_restarts=2)
    with pytest.raises(UnresolvedTextError):
        resolve(resolver, "die a")
    with pytest.raises(CorefError, match="failed 3 times in a row"):
        resolve(resolver, "die b")
    with pytest.raises(CorefError, match="failed 3 times in a row"):
        resolve(resolver, "he he")


def test_an_error_on_one_text_keeps_the_worker(coref: Callable[..., MaverickCoref]) -> None:
    resolver = coref(max_restarts=0)
    pids = set()
    for _ in range(3):
        with pytest.raises(UnresolvedTextError, match="ValueError: no mentions"):
            resolve(resolver, "stumble")
        with pytest.raises(UnresolvedTextError) as told:
            resolve(resolver, "pid")
        pids.add(str(told.value))
    assert len(pids) == 1


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
    visible: str | None,
    gpu: str,
    coref: Callable[..., MaverickCoref],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(UnresolvedTextError, match=f"'{gpu}'"):
        resolve(coref(), "variables")


def test_a_missing_environment_is_reported_with_the_remedy(tmp_path: Path) -> None:
    command = rf"python -m posh_reward\.graph\.coref\.maverick_setup {tmp_path / 'none'}"
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
