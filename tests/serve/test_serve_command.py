"""The command in a process of its own: its lines, its signals, and what a kill costs."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.cli import main
from posh_reward.serve.client import RemotePosh
from tools.bench.serve import kills

REFERENCE = "A short man in a green coat sleeps under a tree."


@contextmanager
def server(*flags: str, key: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and its address, once it can be asked."""
    command = [sys.executable, "-m", "posh_reward.cli", "serve", "--port", "0", *flags]
    environment = {**os.environ, "POSH_REWARD_KEY": key}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("posh|preset:released|")
            yield process, process.stderr.readline().split()[2].rstrip(",")
        finally:
            process.kill()


def test_what_cannot_be_served_ends_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port]) == 2
    error = capsys.readouterr().err
    assert "Address already in use" in error
    assert error.count("\n") == 1
    assert main(["serve", "--port", "0", "--reward", "nowhere.yaml"]) == 2
    assert main(["serve", "--port", "0", "--judge", "nobody"]) == 2


@pytest.mark.slow
def test_it_listens_before_its_judge_is_loaded() -> None:
    """So that clients of a server that is starting can tell it from none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "posh_reward.cli", "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None:
                time.sleep(0.02)  # a port that is tried without end connects to itself
                with (
                    suppress(ConnectionRefusedError),
                    socket.create_connection(("127.0.0.1", port)),
                ):
                    break
            assert process.stderr is not None
            assert not select.select([process.stderr], [], [], 0)[0], "it has not said so yet"
            assert RemotePosh(f"http://127.0.0.1:{port}").signature == PoSh().signature
        finally:
            process.kill()


@pytest.mark.slow
def test_it_answers_what_it_has_accepted_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSH_REWARD_KEY", "s3cret")
    texts = [f"A red dog and {number} blue cats." for number in range(40)]
    with server("--milliseconds", "1500", key="s3cret") as (process, url):
        remote = RemotePosh(url, patience=0.1, batch=10)
        found: list[object] = []
        thread = threading.Thread(
            target=lambda: found.extend(remote.score(texts, [REFERENCE] * len(texts)))
        )
        assert remote.signature.startswith("posh|")
        thread.start()
        time.sleep(0.7)  # the texts wait in the window
        process.send_signal(signal.SIGTERM)
        thread.join()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "s3cret" not in process.stderr.read()
    assert found == PoSh().score(texts, [REFERENCE] * len(texts))


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_mixes_nothing_up(tmp_path: Path) -> None:
    figures = kills(tmp_path, count=3, clients=4, texts=400)
    assert figures["kills"] == 3
    assert figures["answered"] >= 400
    assert figures["lost"] == figures["wrong"] == 0


@pytest.mark.slow
def test_a_reward_file_sets_what_trainers_get(tmp_path: Path) -> None:
    reward = tmp_path / "reward.yaml"
    reward.write_text("shaping: {precision_weight: 4}\n", encoding="utf-8")
    body = json.dumps({"prompt": "", "response": "A red dog.", "label": REFERENCE}).encode()
    rewards = []
    for flags in ([], ["--reward", str(reward)]):
        with server(*flags) as (_, url):
            request = urllib.request.Request(
                f"{url}/v1/slime", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request) as reply:
                rewards.append(json.load(reply)["reward"])
    assert rewards[0] != rewards[1]
