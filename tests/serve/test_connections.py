"""Clients that keep the server waiting, over real sockets, alongside an honest one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from posh_reward import PoSh
from posh_reward.serve import connections
from posh_reward.serve.app import create_app
from posh_reward.serve.connections import server_of
from posh_reward.serve.window import BatchedMetric
from tests.serve.test_app import rows_of, served

HEAD = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SENT = {
    "nothing": b"",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "half a second request": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD,
}


@pytest.fixture(scope="module")
def app() -> Any:
    return create_app(BatchedMetric(PoSh()))


@contextmanager
def stalled(url: str, count: int, data: bytes) -> Iterator[list[socket.socket]]:
    """Connections that send this and nothing more."""
    host, _, port = url.removeprefix("http://").partition(":")
    clients = [socket.create_connection((host, int(port))) for _ in range(count)]
    try:
        for client in clients:
            client.sendall(data)
        yield clients
    finally:
        for client in clients:
            client.close()


def bytes_until_end(client: socket.socket, seconds: float) -> bytes:
    """All that the server sends until it ends the connection.

    Raises:
        TimeoutError: it does not, within so many seconds of silence.
    """
    client.settimeout(seconds)
    data = b""
    with suppress(ConnectionError):
        while chunk := client.recv(65536):
            data += chunk
    return data


def is_open(client: socket.socket) -> bool:
    """True if the server leaves the connection open for a second."""
    try:
        bytes_until_end(client, 1)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("data", SENT.values(), ids=SENT)
def test_those_who_hold_all_connections_keep_nobody_out(
    app: Any, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 100)
    with served(app) as url, stalled(url, 300, data):
        for _ in range(5):  # each on a connection of its own
            reply = httpx.post(f"{url}/v1/score", json={"rows": rows_of(["A dog."])}, timeout=20)
            assert reply.status_code == 200


def test_a_crowd_that_comes_at_once_is_held_to_the_limit(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 100)
    body = json.dumps({"rows": rows_of(["A dog."])}).encode()
    request = HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as held, ExitStack() as clients:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        # All are in the queue before the server looks: the honest one, then the crowd.
        [honest] = clients.enter_context(stalled(url, 1, request))
        crowd = clients.enter_context(stalled(url, 400, SENT["half a body"]))
        server = server_of(app)
        thread = threading.Thread(target=server.run, args=([held],))
        thread.start()
        try:
            assert b" 200 OK" in bytes_until_end(honest, 20)
            with ThreadPoolExecutor(len(crowd)) as pool:
                assert sum(pool.map(is_open, crowd)) <= 100
        finally:
            server.should_exit = True
            thread.join()


def test_a_client_that_sends_no_request_is_cut_off(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    with served(app) as url:
        for data in (SENT["nothing"], SENT["half a head"], SENT["half a second request"]):
            with stalled(url, 3, data) as clients:
                for client in clients:
                    bytes_until_end(client, 5)


def test_a_reply_that_nobody_reads_is_dropped(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    path = "/static-offline-docs/swagger-ui-bundle.js"
    asks = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20  # the second waits for room
    with served(app) as url, stalled(url, 1, asks) as [client]:
        size = len(httpx.get(url + path).content)
        time.sleep(1.2)
        assert len(bytes_until_end(client, 5)) < 20 * size, "what was in transit, and no more"


def test_a_request_at_work_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    slow = create_app(BatchedMetric(PoSh(), 700))
    with served(slow) as url, stalled(url, 10, SENT["half a head"]):
        reply = httpx.post(f"{url}/v1/score", json={"rows": rows_of(["A dog."])}, timeout=20)
        assert reply.json()["scores"][0]["f1"] is not None


def test_the_end_waits_for_no_upload(app: Any) -> None:
    with ExitStack() as clients:
        with served(app) as url:
            clients.enter_context(stalled(url, 20, SENT["half a body"]))
            time.sleep(0.5)
            begun = time.monotonic()
        assert time.monotonic() - begun < 5
