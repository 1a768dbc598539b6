"""Servers that do everything wrong at once: an answer is the first model's, or there is none."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from posh_reward import JudgeError
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.server import ServerModel, fleet
from tests.models.lying_server import (
    LABELS,
    MODEL,
    Liar,
    Lie,
    LyingServer,
    Reply,
    breaks_off,
    changes,
    constant,
    drips,
    drops,
    fingerprinted,
    inverts,
    question,
    regrade,
    says,
    sends,
    top,
    waits,
)

TIMEOUT_SECONDS = 0.4
PROMPTS = [
    question(word, about=f"A dog and a cat by {i} ships.")
    for i in range(40)
    for word in ("dog", "red cat", "cow")
]
HONEST = FakeModel().choose(PROMPTS, LABELS)


def swap(reply: Reply) -> None:
    reply["model"] = "other/model"
    regrade(reply, lambda grade: 3.0)


SWAP = changes(swap)

PASSING: dict[str, Lie] = {
    "late": waits(0.3 * TIMEOUT_SECONDS),
    "drop": drops,
    "half": breaks_off,
    "broken": sends(b'{"choices": [{"index": 0, '),
    "429": says(429, Retry_After="0.01"),
    "503": says(503),
}

TURNS: dict[str, Callable[[int], Lie | None]] = {
    "none": lambda after: None,
    "other model": lambda after: SWAP,
    "other model, and back": lambda after: SWAP if after < 20 else None,
    "other fingerprint": lambda after: fingerprinted(f"fp_{after // 40}"),
    "inverted": lambda after: inverts,
    "constant": lambda after: constant(3),
    "hang": lambda after: waits(60.0),
    "drip": lambda after: drips,
}
"""Name -> from the number of questions since the turn, the lie; None is honest."""


def mixture(rng: random.Random) -> Liar:
    """Faults that pass, now and then, and from some question on a turn for the worse."""
    share, turn, since = rng.choice([0, 0.05]), rng.choice(list(TURNS)), rng.randrange(1, 120)
    lies = random.Random(rng.random())

    def liar(number: int, text: str) -> Lie | None:
        if number and lies.random() < share:
            return PASSING[lies.choice(list(PASSING))]
        if number > since:
            return TURNS[turn](number - since)
        return fingerprinted("fp_first") if turn == "other fingerprint" else None

    return liar


# On a busy machine a connection may not be open yet when its time is over: asyncio warns of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "seed", [pytest.param(i, marks=pytest.mark.slow if i >= 8 else ()) for i in range(100)]
)
def test_an_answer_is_the_first_models_whatever_servers_do(seed: int) -> None:
    rng = random.Random(seed)
    servers = [LyingServer(mixture(rng)) for _ in range(rng.randint(1, 3))]
    concurrency, retries = rng.choice([1, 2, 8, 64]), rng.randrange(4)
    judge = ServerModel(
        *([server.url for server in servers], MODEL),
        concurrency=concurrency,
        timeout=TIMEOUT_SECONDS,
        retries=retries,
        backoff=0.001,
    )
    try:
        judge.wake()
        for _ in range(3):
            check(judge, rng.sample(range(len(PROMPTS)), rng.choice([1, 7, 60, len(PROMPTS)])))
    finally:
        for server in servers:
            server.kill()


def check(judge: ServerModel, chosen: list[int]) -> None:
    """Ask these prompts: each answer is honest or a failure, soon, and noted if it is one."""
    noted: dict[int, Any] = {}
    began = time.monotonic()
    verdicts = judge.choose([PROMPTS[i] for i in chosen], LABELS, noted.__setitem__)
    took = time.monotonic() - began
    for place, (index, verdict) in enumerate(zip(chosen, verdicts, strict=True)):
        assert (verdict.failure is None) == (place in noted)
        if verdict.failure is None:
            assert noted[place] == verdict
            assert verdict.probabilities == pytest.approx(HONEST[index].probabilities, abs=1e-9)
    assert took < 30 * TIMEOUT_SECONDS, (
        "at most five of them in a row, besides what honest answers take"
    )


# One kind of reply for good, from the twentieth question on.


def with_value(value: object) -> Lie:
    return changes(lambda reply: top(reply)[0].update(logprob=value))


def usage(**counts: object) -> Lie:
    return changes(lambda reply: reply.update(usage=counts))


def longer(reply: dict[str, Any]) -> None:
    reply["choices"][0]["message"] = {"content": "A " * 400_000}


GOOD: dict[str, Lie] = {
    "late": waits(0.02),
    "huge usage": usage(prompt_tokens=10**400, completion_tokens=1e9),
    "negative usage": usage(prompt_tokens=-5, prompt_tokens_details={"cached_tokens": 10**12}),
    "long text": changes(longer),
}
BAD: dict[str, Lie] = {
    "NaN": with_value(float("nan")),
    "null": with_value(None),
    "infinity": with_value(float("inf")),
    "large": with_value(1e308),
    "text": with_value("-0.1"),
    "fewer": changes(lambda reply: top(reply).__delitem__(slice(5, None))),
    "repeated": changes(lambda reply: top(reply).__setitem__(slice(1, 5), [top(reply)[0]] * 4)),
    "no choices": changes(lambda reply: reply.update(choices=[])),
    "other index": changes(lambda reply: reply["choices"][0].update(index=1)),
    "other model": SWAP,
    "constant": constant(5),
    "inverted": inverts,
    "broken": sends(b'{"choices": [{"index": 0, '),
    "html": sends(b"<html>busy</html>"),
    "list": sends(b"[1, 2]"),
    "deep": sends(b"[" * 100_000),
    "not UTF-8": sends(b'{"choices": "\xff\xfe"}'),
    "big": sends(b'{"a": "' + b"x" * 5_000_000 + b'"}'),
    "not gzip": sends(b'{"choices": []}', Content_Encoding="gzip"),
    "302": says(302, Location="http://127.0.0.2:1/v1/chat/completions"),
    "307": says(307, Location="http://127.0.0.2:1/v1/chat/completions"),
    "half": breaks_off,
    "drop": drops,
    "drip": drips,
    "hang": waits(60.0),
    "429": says(429, Retry_After="1e9"),
    "429 of the past": says(429, Retry_After="-5"),
    "503": says(503),
    "401": says(401),
    "400": says(400, b'{"error": "\x1b[2Jboom\r\nlevel=fake ok"}'),
}


def judge_of(server: LyingServer) -> ServerModel:
    return ServerModel(
        server.url, MODEL, concurrency=8, timeout=TIMEOUT_SECONDS, retries=2, backoff=0.001
    )


@pytest.mark.slow
@pytest.mark.parametrize("reply", [*GOOD, *BAD])
def test_replies_that_are_bad_for_good(reply: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MAX_PAUSE_SECONDS", 0.1)
    lie = (GOOD | BAD)[reply]
    with LyingServer(lambda number, text: lie if number > 20 else None) as server:
        judge = judge_of(server)
        judge.wake()
        check(judge, list(range(len(PROMPTS))))
        [verdict] = judge.choose(PROMPTS[:1], LABELS)
        assert (verdict.failure is None) == (reply in GOOD)
        server.liar = lambda number, text: None
        check(judge, [0])
        [verdict] = judge.choose(PROMPTS[:1], LABELS)
        assert verdict.failure is None, "it recovers with the server"


@pytest.mark.parametrize("reply", BAD)
def test_replies_that_are_bad_from_the_start_are_refused(
    reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "MAX_PAUSE_SECONDS", 0.1)
    with LyingServer(lambda number, text: BAD[reply]) as server, pytest.raises(JudgeError):
        judge_of(server).wake()
