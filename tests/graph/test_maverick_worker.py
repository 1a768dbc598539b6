"""Maverick's worker script: with a stub of the package, and (slow) with Maverick itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.graph.coref.maverick import MaverickCoref, UnresolvedTextError
from posh_reward.graph.coref.maverick_setup import ENV_VARIABLE, WORKER, default_env, python_of
from tests.graph.maverick_envs import doc, environment_with_stub, resolve
from tests.processes import alive, soon

HERE = Path(__file__).parent


@pytest.fixture
def stub_env(tmp_path: Path) -> Path:
    """An environment for the real worker script, with a small package ``maverick``."""
    (tmp_path / "weights.ckpt").write_text("weights")
    return environment_with_stub(tmp_path / "env")


def test_the_worker_keeps_the_protocol_clean(stub_env: Path, tmp_path: Path) -> None:
    for weights in (tmp_path / "weights.ckpt", tmp_path):
        resolver = MaverickCoref(str(weights), env=stub_env)
        digest = "9a129038d9a00aed"  # printf weights | sha256sum
        assert resolve(resolver, "a b c d e") == (((0, 1), (4, 4)),)
        assert resolver.name == f"{weights.name}@sha256-{digest}"
        with pytest.raises(UnresolvedTextError, match="IndexError: no mentions"):
            resolve(resolver, "stumble")
        resolver.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_leaves_no_orphan(stub_env: Path, tmp_path: Path, how: int) -> None:
    code = (
        "import sys; from posh_reward.graph.coref.maverick import MaverickCoref;"
        "MaverickCoref(sys.argv[1], env=sys.argv[2]).name"
    )
    pid_file = tmp_path / "endless"
    pid_file.touch()
    command = [sys.executable, "-c", code, str(pid_file), str(stub_env)]
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    assert soon(lambda: pid_file.read_text() != "", 30)
    pid = int(pid_file.read_text())
    assert alive(pid)
    parent.send_signal(how)
    parent.wait()
    assert soon(lambda: not alive(pid)), "the worker outlived its parent"


@pytest.mark.slow
def test_maverick_itself_resolves_texts(tmp_path: Path) -> None:
    env = default_env()
    if not python_of(env).exists():
        pytest.skip(
            f"{env} is not there: python -m posh_reward.graph.coref.maverick_setup ENV_DIR, "
            f"and {ENV_VARIABLE}=ENV_DIR"
        )
    tiny = HERE / "tiny_maverick.py"
    subprocess.run([python_of(env), "-I", tiny, tmp_path / "tiny"], check=True)
    resolver = MaverickCoref(str(tmp_path / "tiny"), env=env)
    man = doc("A man sits . He holds a lamp . \n\n The man sleeps .", starts=(4, 10))
    girl = doc("A girl stands to our left . She holds the dog .", starts=(7,))
    found = resolver.resolve([man, girl])
    assert resolver.name.startswith("tiny@sha256-")
    print(resolver.name, *found, sep="\n")
    for clusters, text in zip(found, (man, girl), strict=True):
        assert clusters, "random weights link something"
        for cluster in clusters:
            assert len(cluster) >= 2
            assert all(0 <= first <= last < len(text) for first, last in cluster)
    assert resolver.resolve([girl, man]) == [found[1], found[0]], "batches change nothing"
    resolver.close()
    assert subprocess.run([python_of(env), "-I", WORKER, "--check"]).returncode == 0
