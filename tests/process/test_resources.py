"""Memory and cores that a process has, and may get, by the kernel's files."""

import logging
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.errors import JudgeError
from posh_reward.models.packed.checkpoint import check_room
from posh_reward.process.resources import (
    BYTES_PER_GIB,
    _read_quotas,
    cores_of_rank,
    host_memory,
    most_host_memory,
)
from tests.process.kernel_files import kernel_files


def test_a_usual_machine_has_what_it_says(tmp_path: Path) -> None:
    root = kernel_files(tmp_path, available_gib=60, present_gib=64, managed_gib=62.7)
    assert host_memory(root) == most_host_memory(root) == 60 * BYTES_PER_GIB


def test_pages_that_are_not_managed_yet_may_be_had(tmp_path: Path) -> None:
    root = kernel_files(tmp_path, available_gib=3, present_gib=24, managed_gib=4)
    assert host_memory(root) == 3 * BYTES_PER_GIB
    assert most_host_memory(root) == 23 * BYTES_PER_GIB


@pytest.mark.parametrize("why", ["no zones", "virtio-mem"])
def test_where_nothing_is_known_any_memory_may_be_had(tmp_path: Path, why: str) -> None:
    root = kernel_files(tmp_path, available_gib=3, present_gib=4, managed_gib=4)
    driver = root / "sys/bus/virtio/drivers/virtio_mem"
    driver.mkdir(parents=True)
    (driver / "bind").touch()  # a driver without a device
    assert most_host_memory(root) == 3 * BYTES_PER_GIB
    if why == "no zones":
        (root / "proc/zoneinfo").unlink()
        (root / "proc/self/cgroup").unlink()
    else:
        (driver / "virtio3").touch()
    assert most_host_memory(root) == math.inf
    assert host_memory(root) == 3 * BYTES_PER_GIB


@pytest.mark.parametrize(
    ("groups", "limit"),
    [("0::/slurm/job/step", "sys/fs/cgroup/slurm/job/memory.max"),
     ("4:memory:/slurm/job", "sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes")],
)  # fmt: skip
def test_a_jobs_limit_is_certain(tmp_path: Path, groups: str, limit: str) -> None:
    root = kernel_files(tmp_path, available_gib=3, present_gib=24, managed_gib=4)
    (root / "proc/self/cgroup").write_text(f"{groups}\n")
    (root / limit).parent.mkdir(parents=True)
    for gib, now, most in ((2, 2, 2), (8, 3, 8), (30, 3, 23)):
        (root / limit).write_text(f"{gib * BYTES_PER_GIB}\n")
        assert (host_memory(root), most_host_memory(root)) == (
            now * BYTES_PER_GIB,
            most * BYTES_PER_GIB,
        )
    (root / limit).write_text("max\n")
    assert most_host_memory(root) == 23 * BYTES_PER_GIB


@given(st.integers(0, 64), st.integers(1, 64), st.data())
def test_a_machine_never_grows_beyond_its_pages(
    tmp_path_factory: pytest.TempPathFactory, available: int, present: int, data: st.DataObject
) -> None:
    managed = data.draw(st.integers(0, present))
    root = kernel_files(
        tmp_path_factory.mktemp("root"),
        available_gib=available, present_gib=present, managed_gib=managed,
    )  # fmt: skip
    assert host_memory(root) == available * BYTES_PER_GIB
    assert most_host_memory(root) / BYTES_PER_GIB - available in {0, present - managed}


def test_this_machine_has_memory() -> None:
    assert 0 < host_memory() <= most_host_memory()


def test_a_model_is_refused_only_if_it_never_fits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    root = kernel_files(tmp_path, available_gib=1, present_gib=24, managed_gib=4)
    cpu = torch.device("cpu")

    def check(layers: int) -> None:
        """A model of 1.1 GB, and 0.5 for each layer."""
        config = transformers.LlamaConfig(
            vocab_size=2**15, hidden_size=4096, intermediate_size=4096, num_hidden_layers=layers
        )
        check_room("a model", config, cpu, torch.float32, root)

    with caplog.at_level(logging.WARNING):
        check(1)
    assert "needs 1.7 GB, and cpu has 1.1 GB free now; loading it all the same" in caplog.text
    caplog.clear()
    with pytest.raises(JudgeError, match=r"needs 52\.9 GB, and cpu has 1\.1 GB free: choose"):
        check(100)
    assert not caplog.text


def test_without_the_kernels_files_nothing_is_known(tmp_path: Path) -> None:
    assert host_memory(tmp_path) == most_host_memory(tmp_path) == math.inf


def test_a_rank_has_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert cores_of_rank() == cores
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(cores))
    assert cores_of_rank() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "auto")
    assert cores_of_rank() == cores


VERSION_2 = ("sys/fs/cgroup/cpu.max",)
VERSION_1 = ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/cpu.cfs_period_us")


@pytest.mark.parametrize(
    ("files", "texts", "cores"),
    [
        (VERSION_2, ["400000 100000\n"], [4]),
        (VERSION_2, ["50000 100000"], [1]),
        (VERSION_2, ["max 100000"], []),
        (VERSION_1, ["-1", "100000"], []),
        (VERSION_1, ["250000\n", "100000\n"], [2]),
        (VERSION_2, [""], []),
        ((), [], []),
    ],
)
def test_a_containers_quota_counts(
    files: tuple[str, ...], texts: list[str], cores: list[int], tmp_path: Path
) -> None:
    (tmp_path / "sys/fs/cgroup/cpu").mkdir(parents=True)
    for file, text in zip(files, texts, strict=True):
        (tmp_path / file).write_text(text)
    assert list(_read_quotas(tmp_path)) == cores
    if cores:
        assert cores_of_rank(tmp_path) <= cores[0]


def test_a_quota_of_a_jobs_group_counts(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/slurm/job/step\n")
    job = tmp_path / "sys/fs/cgroup/slurm/job"
    job.mkdir(parents=True)
    (job / "cpu.max").write_text("300000 100000\n")
    assert list(_read_quotas(tmp_path)) == [3]
