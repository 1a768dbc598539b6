"""A real Slurm of two nodes on this machine: Debian's slurm-wlm and munge, run by root."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import alive, soon

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("sbatch", "slurmctld", "slurmd", "munged")
SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
SlurmdParameters=config_overrides
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port=16821 CPUs=2 RealMemory=6000
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 Port=16822 CPUs=2 RealMemory=6000
PartitionName=all Nodes={host},localhost Default=YES MaxTime=60 State=UP
"""
"""Two nodes with names that resolve. ``config_overrides``: whatever the machine really has."""


def missing() -> str | None:
    """Why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(absent)} not found: apt-get install slurm-wlm munge" if absent else None


class Cluster:
    """A working folder in which our scripts are submitted, and the commands to do so."""

    def __init__(self, settings: Path, work: Path) -> None:
        self.work = work
        self.environment = {
            **os.environ, "SLURM_CONF": str(settings), "VENV": "venv", "HF_HUB_OFFLINE": "1",
            "DOCTOR": "0", "ACCELERATE_CONFIG": "configs/accelerate/cpu_2.yaml",
        }  # fmt: skip
        (work / "venv/bin").mkdir(parents=True)
        (work / "venv/bin/activate").write_text(
            f"export PATH={Path(sys.executable).parent}:$PATH PYTHONPATH={ROOT}\n"
            "export PYTHONWARNINGS=ignore TOKENIZERS_PARALLELISM=false\n"
        )
        for name in ("slurm", "configs", "recipes"):
            (work / name).symlink_to(ROOT / name)

    def run(self, *command: str, **variables: str) -> str:
        done = subprocess.run(
            command, cwd=self.work, env={**self.environment, **variables}, text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *arguments: str, **variables: str) -> str:
        """The new job's number."""
        return self.run("sbatch", "--parsable", *arguments, **variables).partition(";")[0]

    def state(self, job: str) -> str:
        """Such as PENDING, RUNNING, COMPLETED or FAILED."""
        told = self.run("scontrol", "show", "job", job)
        return told.partition("JobState=")[2].split()[0]

    def restarts(self, job: str) -> int:
        """How often a job was queued again."""
        return int(self.run("scontrol", "show", "job", job).partition("Restarts=")[2].split()[0])

    def end(self, job: str, seconds: float = 600) -> str:
        """The job's state once it neither runs nor waits."""
        done = soon(lambda: self.state(job) not in UNFINISHED, seconds)
        assert done, self.logs()
        return self.state(job)

    def logs(self) -> str:
        """What the jobs have printed."""
        return "\n".join(log.read_text() for log in sorted(self.work.glob("*.log")))


UNFINISHED = ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "CONFIGURING")


@contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """Starts the daemons, and ends them. Everything that they write is in ``folder``."""
    host = socket.gethostname().partition(".")[0]
    (folder / "state").mkdir()
    settings = folder / "slurm.conf"
    settings.write_text(SETTINGS.format(host=host, folder=folder))
    os.environ["SLURM_CONF"] = str(settings)
    (folder / "work").mkdir()
    munge = start_munge(folder)
    try:
        subprocess.run(["slurmctld", "-c"], check=True)
        for node in (host, "localhost"):
            subprocess.run(["slurmd", "-N", node], check=True)
        cluster = Cluster(settings, folder / "work")
        assert soon(lambda: cluster.run("sinfo", "-h", "-o", "%D %t") == "2 idle", 60)
        yield cluster
        cluster.run("scancel", "--state=RUNNING", "--user=root")
        time.sleep(2)
    finally:
        for file in [*folder.glob("slurmd-*.pid"), *folder.glob("slurmctld.pid")]:
            end(int(file.read_text()))
        if munge is not None:
            end(munge)


def start_munge(folder: Path) -> int | None:
    """The id of munge's new process; None if it runs already."""
    if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0:
        return None
    runtime = Path("/run/munge")
    runtime.mkdir(exist_ok=True)
    shutil.chown(runtime, "munge")
    subprocess.run(["su", "-s", "/bin/bash", "munge", "-c", "/usr/sbin/munged"], check=True)
    return int((runtime / "munged.pid").read_text())


def end(process: int) -> None:
    if alive(process):
        os.kill(process, signal.SIGTERM)
        soon(lambda: not alive(process), 20)
