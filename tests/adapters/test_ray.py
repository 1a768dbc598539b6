"""Ray Data and Ray Serve, with workers killed: ``--run-adapters``, with ray[data,serve]."""

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoSh, PoshReward

pytestmark = pytest.mark.adapters
REFERENCE = "A short man in a green coat sleeps under a tree."


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def rows(count: int) -> list[dict[str, object]]:
    texts = [f"A man in coat {number} sleeps." for number in range(count)]
    return [
        {"id": number, "generation": None if number % 50 == 0 else text, "reference": REFERENCE}
        for number, text in enumerate(texts)
    ]


def test_every_row_comes_back_once_after_a_kill(ray: Any, tmp_path: Path) -> None:
    from posh_reward.adapters.corpora import ScoreRows

    class Noted(ScoreRows):
        def score(self, batch: Any) -> Any:
            (tmp_path / str(os.getpid())).touch()
            return super().score(batch)

    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.2)
            for each in list(tmp_path.iterdir())[:1]:
                os.kill(int(each.name), signal.SIGKILL)
                killed.append(int(each.name))

    thread = threading.Thread(target=kill)
    thread.start()
    pool = ray.data.ActorPoolStrategy(size=2)
    dataset = ray.data.from_items(rows(1000)).repartition(20)
    scored = dataset.map_batches(Noted, batch_size=50, compute=pool).take_all()
    thread.join()
    assert sorted(row["id"] for row in scored) == list(range(1000))
    assert len(list(tmp_path.iterdir())) >= 2
    by_id = {row["id"]: row for row in scored}
    texts = [by_id[number]["generation"] for number in range(60)]
    direct = PoSh().score(texts, [REFERENCE] * 60)
    assert [by_id[number]["posh_f1"] for number in range(60)] == [each.f1 for each in direct]
    assert by_id[50]["posh_failure"] == "the generation is missing"


def test_a_judge_that_is_gone_ends_the_job(ray: Any, tmp_path: Path) -> None:
    from posh_reward.adapters.corpora import ScoreRows

    judge = tmp_path / "gone.yaml"
    judge.write_text("name: server\nbase_urls: http://127.0.0.1:9\nmodel: none\nretries: 0\n")
    stage = ray.data.from_items(rows(300)).map_batches(
        ScoreRows, fn_constructor_kwargs={"judge": str(judge)}, batch_size=10,
        compute=ray.data.ActorPoolStrategy(size=1),
    )  # fmt: skip
    with pytest.raises(Exception, match=r"JudgeError.*127\.0\.0\.1:9"):
        stage.take_all()


def test_replicas_serve_the_app(ray: Any) -> None:
    from ray import serve

    from posh_reward.adapters.corpora import application
    from posh_reward.serve.client import RemotePosh

    serve.start(http_options={"port": 8377})
    serve.run(application({"num_replicas": "2", "preset": "paper"}))
    try:
        texts = [f"A man in coat {number} sleeps." for number in range(40)]
        remote = RemotePosh("http://127.0.0.1:8377", batch=4)
        assert remote.score(texts, [REFERENCE] * 40) == PoSh(preset="paper").score(
            texts, [REFERENCE] * 40
        )
        assert None not in PoshReward(remote)(completions=texts, reference=[REFERENCE] * 40)
        with urllib.request.urlopen("http://127.0.0.1:8377/docs") as page:
            assert b"swagger-ui" in page.read()
    finally:
        serve.shutdown()
