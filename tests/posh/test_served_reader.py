"""A reader of sentences behind HTTP: its failures are values, and no answer is paid for twice."""

import json
from itertools import chain
from math import log
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoSh, PoshReward, Scores
from posh_reward.cli import EXIT_INCOMPLETE, EXIT_JUDGE_FAILED, main
from posh_reward.models.model import NO_LABEL
from posh_reward.models.server import chat_messages, server_http
from posh_reward.posh.check import check_judge
from posh_reward.types import Failure
from tests.cli.running import Row, rows_in, write_rows
from tests.models.lying_server import (
    MODEL,
    Liar,
    Lie,
    LyingServer,
    asks_about_sentence,
    breaks_off,
    changes,
    drops,
    question_of,
    says,
    sends,
    text_of,
    top,
    waits,
)

REFERENCE = "A monk reads a letter at a table. A small dog sleeps under it."
HONEST, POISONED, DENYING = (
    "A monk reads a letter. A dog sleeps.",
    "A monk holds a letter. A poison cup stands there.",
    "A friar reads a letter. The dog does not sleep.",
)
TEXTS = (HONEST, POISONED, DENYING)


def settings(server: LyingServer, **options: Any) -> dict[str, Any]:
    given = {"api_key_env": None, "backoff": 0.001, "retries": 1, "timeout": 5.0, **options}
    return {"name": "server", "base_urls": [server.url], "model": MODEL, **given}


def score(
    server: LyingServer, store: Path | None = None, texts: tuple[str, ...] = TEXTS, **options: Any
) -> list[Scores]:
    posh = PoSh("embedded", reader=settings(server, **options), store=store, processes=1)
    return posh.score(texts, [REFERENCE] * len(texts))


def asked(server: LyingServer) -> list[str]:
    """The sentences that the server was asked about since the last look, in alphabetical order."""
    questions = [question_of(text_of(body)) for body in server.bodies]
    server.bodies.clear()
    return sorted(each.split('"')[1] for each in questions if asks_about_sentence(each))


def poisoned(lie: Lie) -> Liar:
    """Lies about the one sentence that has the word."""
    return lambda number, text: lie if "poison" in question_of(text) else None


def rename(reply: dict[str, Any]) -> None:
    for each in top(reply):
        each["token"] = "word"


def drop_log_probabilities(reply: dict[str, Any]) -> None:
    reply["choices"][0]["logprobs"] = None


def share(*shares: float) -> Lie:
    """Gives the labels 1, 2, 3 these probabilities."""

    def change(reply: dict[str, Any]) -> None:
        for each, probability in zip(top(reply), shares, strict=False):
            each["logprob"] = log(probability)

    return changes(change)


@pytest.mark.parametrize("reading", ["top-20", "labels"])
def test_log_probabilities_of_the_labels_are_read_as_what_they_stand_for(reading: str) -> None:
    with LyingServer(poisoned(share(0.2, 0.5, 0.3)), knows_ids=True) as server:
        honest, doubted, denying = score(server, reading=reading)
    assert [each.value for each in honest.sentences] == ["supported", "supported"]
    second = doubted.sentences[1]
    shares = (second.contradicted, second.unmentioned, second.supported)
    assert shares == pytest.approx((0.2, 0.5, 0.3))
    assert [each.value for each in denying.sentences] == ["supported", "contradicted"]
    assert {e.decided_by for e in denying.elements if e.direction == "precision"} == {
        "supported", "contradicted",
    }  # fmt: skip
    assert honest.signature.partition("|reader:")[2].startswith(
        f"server:{MODEL}:{reading}|sentences:"
    )
    assert all(each.failure is None and each.f1 is not None for each in (honest, doubted, denying))


FAULTS: dict[str, tuple[Lie, str]] = {
    "500": (says(500), "the server failed (500)"),
    "hang": (waits(30.0), server_http.SERVER_TIMED_OUT),
    "truncated": (sends(b'{"choices": [{"index": 0, '), server_http.NO_JSON),
    "broken off": (breaks_off, server_http.BROKEN_OFF),
    "dropped": (drops, server_http.BROKEN_OFF),
    "no log-probabilities": (changes(drop_log_probabilities), chat_messages.NO_LOG_PROBABILITIES),
    "no choices": (changes(lambda reply: reply.update(choices=[])), chat_messages.NO_COMPLETION),
    "400": (says(400), "the server refuses the request (400)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_its_own_pair_and_costs_no_other_answer_again(
    fault: str, tmp_path: Path
) -> None:
    lie, reason = FAULTS[fault]
    store, patience = tmp_path / "answers.sqlite", 1.0 if fault == "hang" else 5.0
    with LyingServer() as server:
        expected = score(server)
        assert len(set(asked(server))) == 6
        server.liar = poisoned(lie)
        found = score(server, store, timeout=patience)
        sentences = set(chain.from_iterable(map(split, TEXTS)))
        assert set(asked(server)) == sentences
        assert list_f1(found) == [expected[0].f1, None, expected[2].f1]
        assert found[0].sentences == expected[0].sentences
        assert found[1].elements == ()
        assert str(found[1].failure) == reason
        server.liar = lambda number, text: None
        again = score(server, store)
        assert asked(server) == ["A poison cup stands there."]
        assert list_f1(again) == list_f1(expected)
        score(server, store)
        assert asked(server) == []


def list_f1(scores: list[Scores]) -> list[float | None]:
    return [each.f1 for each in scores]


def split(text: str) -> list[str]:
    first, second = text.split(". ")
    return [f"{first}.", second]


def test_a_reply_without_a_label_fails_its_pair_and_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "answers.sqlite"
    with LyingServer(poisoned(changes(rename))) as server:
        for number in (6, 0):  # of questions; the model would say the same again
            honest, nothing, denying = score(server, store)
            assert (nothing.f1, nothing.failure) == (None, NO_LABEL)
            assert None not in (honest.f1, denying.f1)
            assert len(asked(server)) == number


def test_a_reward_leaves_out_what_could_not_be_read() -> None:
    with LyingServer() as server:
        reward = PoshReward(PoSh("embedded", reader=settings(server, retries=0), processes=1))
        reward.check()
        server.liar = poisoned(says(500))
        assert [each is None for each in pay(reward)] == [False, True, False]
        server.liar = lambda number, text: says(500)
        assert pay(reward) == [None, None, None]
        server.liar = lambda number, text: None
        assert None not in pay(reward)


def pay(reward: PoshReward) -> list[float | None]:
    return reward(completions=list(TEXTS), reference=[REFERENCE] * 3)


@pytest.mark.parametrize("reader", ["judge", "its own"])
def test_a_served_judge_is_asked_nothing_about_a_text_whose_sentences_it_cannot_read(
    reader: str,
) -> None:
    with LyingServer(poisoned(says(500))) as server:
        posh = PoSh(settings(server), reader="judge" if reader == "judge" else settings(server))
        check_judge(posh)
        server.bodies.clear()
        found = posh.score(TEXTS, [REFERENCE] * 3)
        texts = [text_of(body) for body in server.bodies]
    assert [each.failure for each in found] == [
        None, Failure("engine", "the server failed (500)"), None,
    ]  # fmt: skip
    elements = [text for text in texts if not asks_about_sentence(text)]
    assert any(HONEST in text for text in elements)
    assert not any(POISONED in text for text in elements)


def test_rows_of_a_reader_that_is_gone_are_left_to_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[Row] = [
        {"id": f"p{i}", "generation": f"A monk reads {i} letters.", "reference": REFERENCE}
        for i in range(6)
    ]
    table, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    config = tmp_path / "reader.json"
    flags = ["score", str(table), "-o", str(out), "--reader", str(config), "--batch", "1", "-q"]
    with LyingServer(lambda number, text: says(500) if " letters" in text else None) as server:
        config.write_text(json.dumps(settings(server, retries=0)))
        assert main(flags) == EXIT_JUDGE_FAILED
        said = capsys.readouterr().err
        assert "failed on every pair of 3 consecutive batches (the server failed (500))" in said
        assert rows_in(out) == []
        server.liar = lambda number, text: says(500) if " 3 letters" in text else None
        assert main(flags) == EXIT_INCOMPLETE
    assert [row["id"] for row in rows_in(out) if row["failure"] is not None] == ["p3"]
    assert [len(row["sentences"]) for row in rows_in(out)] == [1, 1, 1, 0, 1, 1]
