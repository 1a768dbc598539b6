"""Servers that fall silent: given up within a few timeouts, however many prompts wait for them."""

import threading
import time
from typing import Any

import pytest

from posh_reward.models.model import Prompt
from posh_reward.models.server import ServerModel, server_http
from posh_reward.types import Verdict
from tests.models.lying_server import (
    LABELS,
    MODEL,
    Handler,
    Liar,
    Lie,
    LyingServer,
    Reply,
    drips,
    question,
    says,
    waits,
)

TIMEOUT_SECONDS = 0.3
MAX_SILENT_SECONDS = 30 * TIMEOUT_SECONDS
"""Seconds within which a silent server is given up; five of them on an idle machine."""
PROMPTS = [question(f"dog {i}", about=f"A dog {i % 7}.") for i in range(160)]


def model(*servers: LyingServer, **options: Any) -> ServerModel:
    settings = {"backoff": 0.001, "timeout": TIMEOUT_SECONDS, **options}
    return ServerModel([server.url for server in servers], MODEL, **settings)


def silent_after(answers: int, lie: Lie) -> Liar:
    return lambda number, text: lie if number > answers else None


def timed(judge: ServerModel, prompts: list[Prompt] = PROMPTS) -> tuple[list[Verdict], float]:
    judge.wake()
    began = time.monotonic()
    verdicts = judge.choose(prompts, LABELS)
    return verdicts, time.monotonic() - began


def fails_late(handler: Handler, honest: Reply) -> None:
    time.sleep(0.9 * TIMEOUT_SECONDS)
    handler.send({"error": "no"}, 503)


SILENCES = {"hangs": waits(60.0), "drips": drips, "fails late": fails_late}

SLOW = pytest.mark.slow


@pytest.mark.parametrize("concurrency", [*(pytest.param(n, marks=SLOW) for n in (1, 2, 8)), 64])
@pytest.mark.parametrize("silence", SILENCES)
def test_a_server_that_falls_silent_is_given_up_soon(silence: str, concurrency: int) -> None:
    with LyingServer(silent_after(20, SILENCES[silence])) as server:
        judge = model(server, concurrency=concurrency)
        verdicts, took = timed(judge)
        assert took < MAX_SILENT_SECONDS
        assert sum(verdict.failure is not None for verdict in verdicts) >= len(PROMPTS) - 20
        _, took = timed(judge)
        assert took < 10 * TIMEOUT_SECONDS, "one sign of life that does not come"
        server.liar = lambda number, text: None
        verdicts, _ = timed(judge)
        assert [verdict.failure for verdict in verdicts] == [None] * len(PROMPTS)


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=SLOW), 64])
@pytest.mark.parametrize("silence", SILENCES)
def test_while_one_server_is_silent_the_others_carry_on(silence: str, concurrency: int) -> None:
    lie = silent_after(20, SILENCES[silence])
    with LyingServer(lie) as silent, LyingServer() as one, LyingServer() as two:
        judge = model(silent, one, two, concurrency=concurrency, timeout=2 * TIMEOUT_SECONDS)
        verdicts, took = timed(judge)
    assert [verdict.failure for verdict in verdicts] == [None] * len(PROMPTS)
    assert took < 2 * MAX_SILENT_SECONDS


def test_servers_that_are_silent_together_are_given_up_together() -> None:
    lie = silent_after(20, waits(60.0))
    with LyingServer(lie) as one, LyingServer(lie) as two, LyingServer(lie) as three:
        _, took = timed(model(one, two, three))
    assert took < MAX_SILENT_SECONDS


def test_prompts_that_a_server_hangs_on_fail_alone() -> None:
    """Also where it gets nothing else for longer than it takes to give up a silent server."""
    bad = [question(f"poison {i}") for i in range(6)]
    with LyingServer(lambda number, text: waits(60.0) if "poison" in text else None) as server:
        verdicts, _ = timed(model(server, concurrency=4), [*bad, *PROMPTS[:40]])
    assert {str(verdict.failure) for verdict in verdicts[:6]} == {server_http.SERVER_TIMED_OUT}
    assert [verdict.failure for verdict in verdicts[6:]] == [None] * 40


def test_a_restart_is_waited_for_even_if_timeouts_are_shorter() -> None:
    """Quick refusals are retried as ``retries`` and ``backoff`` say, whatever ``timeout`` is."""
    up = threading.Event()
    with LyingServer(lambda number, text: None if up.is_set() or not number else says(503)) as it:
        judge = model(it, backoff=0.1)
        judge.wake()
        threading.Timer(4 * TIMEOUT_SECONDS, up.set).start()
        assert [v.failure for v in judge.choose(PROMPTS, LABELS)] == [None] * len(PROMPTS)
