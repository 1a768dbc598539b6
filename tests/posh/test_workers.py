"""Worker processes change nothing but the time."""

from __future__ import annotations

import logging
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.tokens import Doc

import posh_reward
from posh_reward import PoSh, PoshReward
from posh_reward.embedded.coref.resolver import RuleCoreferencer
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.means import Weights
from posh_reward.posh.pooled_reader import PooledReader
from posh_reward.posh.workers import MIN_TEXTS_TO_START, Workers, default_processes
from posh_reward.store import Store
from posh_reward.types import Clusters, Question, Verdict
from tests.processes import alive, soon

GENERATIONS: list[Any] = [
    "A red dog sleeps on a blue sofa. Its owner, a tall woman, reads a book.",
    "A red dog sleeps on a blue sofa. Its owner, a tall woman, reads a book.",  # twice
    "Two ships sail under a dark sky, and a man in a hat looks at us.",
    "",
    None,
    "half a pair \ud800",
    "both halves \ud83d\udc36 of one",
    "x" * 30_000,
    "  A cat \n\n sits.\t",
    "The Virgin's robe is ultramarine; she holds the Child — naïve, “golden” light 🌞.",
    float("nan"),
    "A red dog sleeps on a blue sofa. Its owner, a tall woman, reads a book.",
    "a " * 300,
]
REFERENCES: list[Any] = [
    "A brown dog lies on a sofa while a woman reads.",
    "A brown dog lies on a sofa while a woman reads.",
    ["Two ships sail.", "A man wearing a hat stands below a dark, cloudy sky"],
    "A man.",
    "A man.",
    "A man.",
    "A man.",
    "A man.",
    "A small cat sits on a mat.",
    "The Virgin Mary, in a blue robe, holds the Christ Child in golden light.",
    "A man.",
    "",
    "y" * 30_000,
]


class SaysRules:
    """A resolver of the user's own, which no other process could make."""

    name = "users-own-1"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        self.texts += [doc.text for doc in docs]
        return RuleCoreferencer().resolve(docs)


@pytest.fixture(scope="module")
def pooled() -> Iterator[PoSh]:
    metric = PoSh(processes=2)
    metric.start()
    yield metric
    workers_of(metric).close()


def workers_of(metric: PoSh) -> Workers:
    assert isinstance(metric.graph_reader, PooledReader)
    return metric.graph_reader.workers


def children(workers: Workers) -> list[int]:
    """The workers' own processes, by their keepers."""
    pool = workers._pool
    keepers = [] if pool is None else [p.child._keeper.pid for p in pool._places if p.child]
    return [
        int(pid)
        for keeper in keepers
        for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    ]


def test_scores_failures_signatures_and_order_are_those_of_one_process(pooled: PoSh) -> None:
    alone = PoSh(processes=1).score(GENERATIONS, REFERENCES)
    assert pooled.score(GENERATIONS, REFERENCES) == alone
    assert [each.failure is None for each in alone].count(True) == 6
    assert pooled.score(GENERATIONS, REFERENCES) == alone  # with references kept


def test_a_reward_is_the_same(pooled: PoSh) -> None:
    texts, truths = GENERATIONS[:9], REFERENCES[:9]
    found, expected = (
        PoshReward(metric)(completions=texts, reference=truths)
        for metric in (pooled, PoSh(processes=1))
    )
    assert found == expected


def test_the_embedded_judge_counts_its_questions(pooled: PoSh) -> None:
    alone, before = PoSh(processes=1), pooled.usage.requests
    for metric in (alone, pooled):
        metric.score(GENERATIONS, REFERENCES)
    assert pooled.usage.requests - before == alone.usage.requests > 0


def test_a_language_model_is_asked_here_about_texts_that_are_read_there() -> None:
    judges = FakeJudge(), FakeJudge()
    alone, pooled = (PoSh(judge=each, processes=n) for n, each in enumerate(judges, start=1))
    assert pooled.score(GENERATIONS, REFERENCES) == alone.score(GENERATIONS, REFERENCES)
    assert len(children(workers_of(pooled))) == 2
    asked = [list(map(repr, each.questions)) for each in judges]
    assert asked[0] == asked[1]


def test_a_resolver_of_the_users_own_stays_here() -> None:
    resolvers = SaysRules(), SaysRules()
    alone, pooled = (PoSh(coref=each, processes=n) for n, each in enumerate(resolvers, start=1))
    assert pooled.score(GENERATIONS, REFERENCES) == alone.score(GENERATIONS, REFERENCES)
    assert sorted(resolvers[0].texts) == sorted(resolvers[1].texts)
    assert len(children(workers_of(pooled))) == 2


def test_a_store_gets_the_same_references(tmp_path: Path) -> None:
    kept = []
    for count in (1, 2):
        store = Store(tmp_path / f"{count}.sqlite")
        PoSh(store=store, processes=count).score(GENERATIONS, REFERENCES)
        store.close()
        with sqlite3.connect(tmp_path / f"{count}.sqlite") as database:
            kept.append(sorted(database.execute("SELECT key, value FROM kept").fetchall()))
        database.close()
    assert kept[0] == kept[1]
    assert len(kept[0]) == 6  # all that can be read, of pairs of two texts
    again = PoSh(store=tmp_path / "2.sqlite", processes=2)
    assert again.score(GENERATIONS, REFERENCES) == PoSh().score(GENERATIONS, REFERENCES)


class Harsh(EmbeddedJudge):
    """A judge of the user's own, under the embedded one's name."""

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        return [Verdict((1.0, 0.0, 0.0, 0.0, 0.0)) for _ in questions]


def test_a_judge_of_the_users_own_judges_here() -> None:
    alone, pooled = (PoSh(judge=Harsh(), processes=count) for count in (1, 2))
    assert pooled.score(GENERATIONS, REFERENCES) == alone.score(GENERATIONS, REFERENCES)


@pytest.mark.slow
def test_weights_that_are_changed_later_count() -> None:
    metrics = [PoSh(processes=count) for count in (1, 2)]
    for metric in metrics:
        metric.score(GENERATIONS, REFERENCES)
        metric.weights = Weights(1, 0, 0)
    expected, found = (metric.score(GENERATIONS, REFERENCES) for metric in metrics)
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights", [{"relation": np.float32(0.1)}, {"entity": 2.0, "attribute": 0}]
)
def test_settings_reach_the_workers(weights: dict[str, Any]) -> None:
    options: dict[str, Any] = {"weights": weights, "coref": "none", "max_characters": np.int64(60)}
    alone, pooled = (PoSh(**options, processes=count) for count in (1, 2))
    assert pooled.score(GENERATIONS, REFERENCES) == alone.score(GENERATIONS, REFERENCES)
    assert workers_of(pooled)._told == {"signature": alone.signature}


@pytest.mark.slow
def test_killed_workers_lose_nothing_and_are_replaced(pooled: PoSh) -> None:
    texts = [f"{GENERATIONS[index % 3]} There are {index} birds." for index in range(48)]
    truths = [REFERENCES[index % 3] for index in range(48)]
    expected = PoSh(processes=1).score(texts, truths)
    done, draw = threading.Event(), random.Random(0)
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 20 and not done.wait(1.0):
            with suppress(OSError, IndexError):  # one has just been replaced
                pid = draw.choice(children(workers_of(pooled)))
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        while thread.is_alive():
            assert pooled.score(texts, truths) == expected
    finally:
        done.set()
        thread.join()
    assert len(killed) == 20
    assert pooled.score(texts, truths) == expected
    assert len(children(workers_of(pooled))) == 2


@pytest.mark.slow
def test_workers_that_cannot_start_are_done_without(caplog: pytest.LogCaptureFixture) -> None:
    metric = PoSh(processes=2)
    workers_of(metric)._settings["no_such_setting"] = 1
    with caplog.at_level(logging.WARNING):
        assert metric.score(GENERATIONS, REFERENCES) == PoSh().score(GENERATIONS, REFERENCES)
    assert any("worker processes cannot be started" in each for each in caplog.messages)


@pytest.mark.slow
def test_workers_of_another_metric_are_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    metric = PoSh(processes=2)
    workers_of(metric)._settings["coref"] = "none"
    with caplog.at_level(logging.WARNING):
        assert metric.score(GENERATIONS, REFERENCES) == PoSh().score(GENERATIONS, REFERENCES)
    [warning] = caplog.messages
    assert "coref:none" in warning
    assert children(workers_of(metric)) == []


@pytest.mark.slow
def test_a_pickle_and_a_fork_have_workers_of_their_own(pooled: PoSh) -> None:
    copied = pickle.loads(pickle.dumps(pooled))
    assert copied.score(GENERATIONS, REFERENCES) == pooled.score(GENERATIONS, REFERENCES)
    assert not set(children(workers_of(copied))) & set(children(workers_of(pooled)))
    before, scores = children(workers_of(pooled)), pooled.score(GENERATIONS, REFERENCES)
    pid = os.fork()
    if pid == 0:
        same = pooled.score(GENERATIONS, REFERENCES) == scores
        os._exit(int(not same))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert children(workers_of(pooled)) == before


@pytest.mark.slow
def test_they_import_from_where_this_process_does(tmp_path: Path) -> None:
    """From a copy that is not installed, behind the standard library and a module of its name."""
    site = tmp_path / "site"
    shutil.copytree(Path(posh_reward.__file__).parent, site / "posh_reward")
    (site / "dataclasses.py").write_text("raise ImportError('a backport for Python 3.6')")
    with (site / "posh_reward/posh/worker.py").open("a") as worker:
        worker.write(f"\nopen({str(tmp_path / 'here')!r}, 'w').close()\n")
    code = (
        f"import sys; sys.path.append({str(site)!r}); from posh_reward import PoSh; "
        "PoSh(processes=2).score(['A dog.', 'A cat.'], ['A dog.', 'A cow.'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "here").exists()


@pytest.mark.slow
def test_they_start_by_themselves_once_there_is_work_for_them() -> None:
    metric = PoSh()
    workers = workers_of(metric)
    workers._default = os.getpid(), 2  # whatever machine this is
    texts = [f"A man has {index} hats." for index in range(MIN_TEXTS_TO_START)]
    few = MIN_TEXTS_TO_START // 2 - 1
    metric.score(texts[:few], texts[-few:])
    assert children(workers) == []
    metric.score(texts[:2], texts[:2])
    assert len(children(workers)) == 2
    pids = children(workers)
    del metric, workers
    assert soon(lambda: not any(map(alive, pids)))


def test_one_pair_is_scored_here() -> None:
    metric = PoSh(processes=8)
    metric.score(["A dog."], ["A dog."])
    assert children(workers_of(metric)) == []


def test_the_default_is_at_most_the_cores_of_the_rank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert default_processes("embedded") <= cores
    assert default_processes("embedded", tmp_path) == min(cores, 16), "as on macOS, without /proc"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(cores))
    assert PoSh().processes == 1


def test_a_default_is_that_of_the_process_that_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = PoSh()
    workers_of(metric)._default = os.getpid(), 12
    assert metric.processes == 12
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert pickle.loads(pickle.dumps(metric)).processes == 1
    pid = os.fork()
    if pid == 0:
        os._exit(metric.processes)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
def test_a_number_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="processes"):
        PoSh(processes=value)
