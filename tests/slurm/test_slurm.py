"""Our scripts on a real Slurm: they finish, stop in time, resume, and end together."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from recipes.demo import tiny_qwen
from tests.models.lying_server import LyingServer, waits
from tests.processes import soon
from tests.slurm.cluster import ROOT, Cluster, missing, started
from tests.slurm.test_scripts import command

pytestmark = pytest.mark.slurm

SCENES = "scenes:train=8:heldout=6"
NODE = ("--gpus-per-node=0", "--cpus-per-task=2", "--mem=3000")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(why)
    with started(tmp_path_factory.mktemp("slurm")) as made:
        tiny_qwen.build(made.work / "tiny", warm_up_steps=0, pretrain_steps=0)
        yield made


def dapo(output: str, steps: int, *more: str) -> list[str]:
    return [
        "configs/smoke/dapo.yaml", "--model_name_or_path", "tiny", "--dataset_name", SCENES,
        "--per_device_train_batch_size", "8", "--max_completion_length", "8", "--disable_tqdm",
        "True", "--mask_truncated_completions", "false", "--output_dir", output,
        "--max_steps", str(steps), *more,
    ]  # fmt: skip


def steps(cluster: Cluster, output: str) -> list[int]:
    """The steps that a finished run has logged."""
    state = json.loads((cluster.work / output / "trainer_state.json").read_text())
    return [line["step"] for line in state["log_history"] if "reward" in line]


def test_a_run_finishes(cluster: Cluster) -> None:
    job = cluster.submit(
        *NODE, "--time=20", "slurm/dapo_posh.sh", *dapo("whole", 2), PROCESSES_PER_NODE="2",
        DOCTOR="1",
    )  # fmt: skip
    assert cluster.end(job) == "COMPLETED", cluster.logs()
    assert (steps(cluster, "whole"), cluster.restarts(job)) == ([1, 2], 0)
    assert "ok       ranks          2 communicate" in cluster.logs()
    assert "ok       judge          scored a pair" in cluster.logs()


def test_a_ladder_is_climbed(cluster: Cluster) -> None:
    job = cluster.submit(
        *NODE, "--time=30", "slurm/first_hour.sh", *dapo("ladder", 2), PROCESSES_PER_NODE="2"
    )
    assert cluster.end(job, 1200) == "COMPLETED", cluster.logs()
    document = json.loads((cluster.work / "first_hour.json").read_text())
    found = {rung["name"]: rung["status"] for rung in document["rungs"]}
    assert found == dict.fromkeys(("node", "ranks", "judge", "policy", "run"), "ran")
    assert document["run"]["processes"] == 2


def test_a_gpu_on_any_node_that_admits_one_process_ends_the_job(cluster: Cluster) -> None:
    """Only the second node has such GPUs; refused with ``DOCTOR=0``, too."""
    command(
        cluster.work / "bin",
        "nvidia-smi",
        "[[ $SLURM_NODEID == 1 ]] && echo Exclusive_Process || echo Default",
    )
    job = cluster.submit(
        "--nodes=2", *NODE, "--time=20", "slurm/dapo_posh.sh", *dapo("refused", 2),
        PATH=f"{cluster.work / 'bin'}:{os.environ['PATH']}",
    )  # fmt: skip
    assert cluster.end(job) == "FAILED", cluster.logs()
    assert "EXCLUSIVE_PROCESS, which allows the trainer" in cluster.logs()
    assert not list((cluster.work / "refused").glob("completions*"))


def test_sft_finishes_on_two_nodes(cluster: Cluster) -> None:
    job = cluster.submit(
        "--nodes=2", *NODE, "--time=20", "slurm/sft.sh", "configs/smoke/sft.yaml",
        "--model_name_or_path", "tiny", "--dataset_name", SCENES, "--output_dir", "sft",
        "--per_device_train_batch_size", "2", "--max_steps", "2", "--eval_strategy", "no",
    )  # fmt: skip
    assert cluster.end(job) == "COMPLETED", cluster.logs()
    state = json.loads((cluster.work / "sft/trainer_state.json").read_text())
    assert (state["global_step"], state["epoch"]) == (2, 1.0), "each node had half of the images"


def test_two_nodes_stop_in_time_are_queued_again_and_go_on(cluster: Cluster) -> None:
    """The judge takes its time over one question, so that step ends after the deadline.

    Slurm starts a job that was queued again after two minutes.
    """
    with LyingServer(lambda number, text: waits(130) if number == 200 else None) as server:
        (cluster.work / "slow.yaml").write_text(
            f"name: server\nbase_urls: [{server.url}]\nmodel: honest/model\ntimeout: 300\n"
        )
        job = cluster.submit(
            "--nodes=2", *NODE, "--time=5", "slurm/dapo_posh.sh",
            *dapo("requeued", 4, "--stop_before", "3", "--judge", "slow.yaml"),
        )  # fmt: skip
        assert soon(lambda: cluster.restarts(job) == 1, 300), cluster.logs()
        saved = [path.name for path in (cluster.work / "requeued").glob("checkpoint-*")]
        cluster.run("scontrol", "update", f"jobid={job}", "timelimit=30")
        assert cluster.end(job, 900) == "COMPLETED", cluster.logs()
    assert "the job's time is nearly up" in cluster.logs()
    assert len(saved) == 1
    assert cluster.restarts(job) == 1
    assert steps(cluster, "requeued") == [1, 2, 3, 4]


def test_usr1_stops_a_run_that_is_then_queued_again(cluster: Cluster) -> None:
    job = cluster.submit(
        *NODE, "--time=20", "slurm/dapo_posh.sh", *dapo("asked", 500, "--logging_steps", "1"),
        PROCESSES_PER_NODE="2",
    )  # fmt: skip
    log = cluster.work / f"posh-dapo-{job}.log"
    assert soon(lambda: log.exists() and "posh/f1" in log.read_text(), 300), cluster.logs()
    cluster.run("scancel", "--signal=USR1", job)
    assert soon(lambda: cluster.restarts(job) == 1, 120), cluster.logs()
    assert "SIGUSR1 asked for it" in log.read_text()
    assert list((cluster.work / "asked").glob("checkpoint-*"))
    cluster.run("scancel", job)


def with_server(cluster: Cluster, output: str, steps: int) -> str:
    """Submits the heterogeneous job with a server that answers by arithmetic."""
    (cluster.work / "server.sh").write_text(f'exec python {ROOT}/tests/slurm/fake_server.py "$1"\n')
    (cluster.work / "server.yaml").write_text(
        "name: server\nbase_urls: [http://here]\nmodel: honest/model\n"
    )
    return cluster.submit(
        *NODE, "--time=20", ":", *NODE, "--time=20", "slurm/dapo_judge_server.sh",
        *dapo(output, steps), JUDGE_SERVER="server.sh", JUDGE_SETTINGS="server.yaml",
    )  # fmt: skip


def servers() -> list[int]:
    """Ids of the processes that serve a judge."""
    pgrep = subprocess.run(
        ["pgrep", "-f", "^python .*/fake_server.py"], stdout=subprocess.PIPE, check=False
    )
    return list(map(int, pgrep.stdout.split()))


def test_a_server_ends_with_the_trainer(cluster: Cluster) -> None:
    job = with_server(cluster, "served", 2)
    assert cluster.end(job) == "COMPLETED", cluster.logs()
    assert steps(cluster, "served") == [1, 2]
    assert soon(lambda: not servers(), 60)


def test_a_trainer_ends_saved_with_its_server(cluster: Cluster) -> None:
    job = with_server(cluster, "orphaned", 500)
    log = cluster.work / f"posh-dapo-{job}.log"
    assert soon(lambda: log.exists() and "posh/f1" in log.read_text(), 300), cluster.logs()
    [server] = servers()
    os.kill(server, signal.SIGKILL)
    assert cluster.end(job) == "FAILED", cluster.logs()
    assert "the judge server has ended" in log.read_text()
    assert list((cluster.work / "orphaned").glob("checkpoint-*")), log.read_text()
    assert cluster.restarts(job) == 0


def test_an_array_generates_scores_and_merges(cluster: Cluster) -> None:
    cluster.submit(
        "--array=0-2", "--gpus-per-task=0", "--cpus-per-task=1", "--mem=2500", "--time=20",
        "slurm/generate_score.sh", "said", "--models", "tiny", "--dataset", SCENES,
        "--max-new-tokens", "8", "--", "--judge", "embedded", "--quiet",
    )  # fmt: skip
    merged = cluster.work / "said/scores.jsonl"
    assert soon(merged.exists, 600), cluster.logs()
    rows = [json.loads(line) for line in merged.read_text().splitlines()]
    said = [cluster.work / f"said/{shard}-of-3.said.jsonl" for shard in range(3)]
    assert [len(path.read_text().splitlines()) for path in said] == [2, 2, 2]
    assert len({row["id"] for row in rows}) == 6
