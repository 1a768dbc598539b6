"""A server that changes its model: noticed, and nothing of the other model is kept."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from posh_reward import JudgeError
from posh_reward.models.asker import CachingModel
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.server import ServerModel, held_answers
from posh_reward.models.server.identity import OTHER_GRADES
from posh_reward.store import Store
from posh_reward.types import Reply, Verdict
from tests.models.lying_server import (
    CHECK_QUESTIONS,
    LABELS,
    MODEL,
    START,
    Lie,
    LyingServer,
    changes,
    constant,
    fingerprinted,
    inverts,
    named,
    noisy,
    question,
    regrades,
    says,
    waits,
)

PROMPTS = [
    question(word, about=f"A dog and a cat by {i} ships.")
    for i in range(40)
    for word in ("dog", "red cat", "cow")
]
HONEST = FakeModel().choose(PROMPTS, LABELS)
KEY = "sk-very-secret-42"


def model(*servers: LyingServer, **options: Any) -> ServerModel:
    settings = {"backoff": 0.001, "retries": 2, "timeout": 5.0, **options}
    return ServerModel([server.url for server in servers], MODEL, **settings)


def after(answers: int, lie: Lie, until: float = float("inf")) -> Callable[[int, str], Lie | None]:
    return lambda number, text: lie if answers < number <= until else None


def reasons(answers: Sequence[Verdict | Reply]) -> set[str]:
    return {str(each.failure) for each in answers if each.failure is not None}


def check_honest(verdicts: list[Verdict], honest: list[Verdict] = HONEST) -> int:
    """All are the first model's answers or failures; returns the number of answers."""
    for verdict, expected in zip(verdicts, honest, strict=True):
        if verdict.failure is None:
            assert verdict.probabilities == pytest.approx(expected.probabilities, abs=1e-9)
    return sum(verdict.failure is None for verdict in verdicts)


class Notes(dict[int, Any]):
    """Answers that a batch tells to keep, by place."""

    def __call__(self, place: int, answer: Any) -> None:
        assert place not in self
        self[place] = answer


# What replies name.


def test_replies_of_another_model_are_failures_that_name_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes = Notes()
    with LyingServer(after(70, named("other\x1b[2J/model"))) as server:
        judge = model(server, concurrency=4)
        verdicts = judge.choose(PROMPTS, LABELS, notes)
        answered = check_honest(verdicts)
        assert 30 <= answered <= 70
        [reason] = reasons(verdicts)
        assert reason == (
            "the server's model is now 'other [2J/model', at the start it was 'honest/model'"
        )
        assert len(server.bodies) < 90, "it is not asked on"
        assert {place for place, v in enumerate(verdicts) if v.failure is None} == set(notes)
        asked = len(server.bodies)
        assert reasons(judge.choose(PROMPTS, LABELS)) == {reason}
        assert len(server.bodies) == asked + START, "the questions of the start tell"
        server.liar = lambda number, text: None
        assert check_honest(judge.choose(PROMPTS, LABELS)) == len(PROMPTS)
    assert f"judge server {server.url} is asked no more in this batch" in caplog.text


def test_an_unchanged_server_takes_over_from_one_that_has_another_model() -> None:
    for lie in (named("other/model"), inverts):
        with LyingServer(after(30, lie)) as one, LyingServer() as two:
            verdicts = model(one, two, concurrency=4).choose(PROMPTS, LABELS)
        assert check_honest(verdicts) == len(PROMPTS)


def test_a_server_that_names_neither_model_nor_fingerprint_is_no_failure() -> None:
    for lie in (changes(lambda reply: reply.pop("model")), fingerprinted(None)):
        for honest in (-1, 40):  # from the start, and later
            with LyingServer(after(honest, lie)) as server:
                assert check_honest(model(server).choose(PROMPTS, LABELS)) == len(PROMPTS)


def test_a_new_fingerprint_joins_if_the_answers_are_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with LyingServer(lambda number, text: fingerprinted("fp_b" if number > 40 else "fp_a")) as it:
        judge = model(it, concurrency=4)
        first = judge.choose(PROMPTS, LABELS)
        assert 0 < check_honest(first) <= 40
        [reason] = reasons(first)
        assert reason == "the server's system_fingerprint is now 'fp_b', it was 'fp_a'"
        for _ in range(2):
            assert check_honest(judge.choose(PROMPTS, LABELS)) == len(PROMPTS)
    assert caplog.text.count("has a new system_fingerprint (fp_b) and answers as before") == 1


def test_a_new_fingerprint_with_other_answers_is_another_model() -> None:
    def other(handler: Any, honest: dict[str, Any]) -> None:
        honest["system_fingerprint"] = "fp_b"
        inverts(handler, honest)

    with LyingServer(lambda number, text: other if number > 40 else fingerprinted("fp_a")) as it:
        judge = model(it)
        judge.choose(PROMPTS, LABELS)
        assert reasons(judge.choose(PROMPTS, LABELS)) == {OTHER_GRADES}


def test_servers_of_different_models_are_refused_at_the_start() -> None:
    other = LyingServer(lambda number, text: named("other/model"))
    with LyingServer() as one, other as two, pytest.raises(JudgeError) as raised:
        model(one, two).wake()
    for words in (one.url, two.url, "'honest/model'", "'other/model'", "one name"):
        assert words in str(raised.value)


def test_a_server_of_another_model_that_comes_later_is_left_alone() -> None:
    """Down at the start, it is asked the questions of the start before it gets any other."""
    with LyingServer() as one, LyingServer(lambda number, text: says(503)) as two:
        judge = model(one, two)
        judge.wake()
        two.liar = lambda number, text: named("other/model")
        judge._pool.servers[1].cooldown_until = 0.0
        assert check_honest(judge.choose(PROMPTS, LABELS)) == len(PROMPTS)
        two.liar = lambda number, text: None
        asked = len(two.bodies)
        assert check_honest(judge.choose(PROMPTS, LABELS)) == len(PROMPTS)
        assert len(two.bodies) > asked + START


def test_models_that_hold_the_key_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POSH_JUDGE_API_KEY", KEY)
    with LyingServer(after(10, named(f"no {KEY}"))) as server:
        verdicts = model(server).choose(PROMPTS, LABELS)
    assert KEY not in f"{verdicts}{caplog.text}"


def test_writers_go_by_what_replies_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with LyingServer(after(10, named("other/model"))) as server:
        replies = model(server, labels=False, concurrency=1).write(PROMPTS, 8)
        answered = len(server.bodies) - 2  # of which one is of the start, and one was refused
    assert {reply.failure is None for reply in replies[:answered]} == {True}
    assert len(reasons(replies[answered:])) == 1
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    with LyingServer(after(10, named("other/model"))) as server:
        verdicts = model(server, concurrency=1).choose(PROMPTS, LABELS)
        assert len(server.bodies) == START + 11
    assert check_honest(verdicts) == 10


# What replies do not name.


@pytest.mark.parametrize("lie", [inverts, constant(1), constant(3), constant(5)])
@pytest.mark.parametrize("answers", [0, 5, 60])
@pytest.mark.parametrize("size", [8, len(PROMPTS)])
def test_a_silent_change_is_noticed_and_nothing_of_it_kept(
    lie: Lie, answers: int, size: int
) -> None:
    notes = Notes()
    with LyingServer() as server:
        judge = model(server, concurrency=8)
        judge.wake()
        server.liar = after(answers, lie)
        verdicts = judge.choose(PROMPTS[:size], LABELS, notes)
        assert check_honest(verdicts, HONEST[:size]) == len(notes)
        if size > answers:
            assert len(notes) <= answers
            assert reasons(verdicts) == {OTHER_GRADES}
            assert reasons(judge.choose(PROMPTS, LABELS)) == {OTHER_GRADES}
            assert len(server.bodies) < START + answers + held_answers.MAX_BLOCK_ANSWERS + 40
        server.liar = lambda number, text: None
        assert check_honest(judge.choose(PROMPTS, LABELS)) == len(PROMPTS)


def test_noise_is_not_taken_for_another_model() -> None:
    with LyingServer(lambda number, text: noisy(0.1)) as server:
        judge = model(server)
        for _ in range(3):
            assert reasons(judge.choose(PROMPTS, LABELS)) == set()


def test_unchecked_judges_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    with LyingServer(after(5, constant(3))) as server:
        assert reasons(model(server).choose(PROMPTS, LABELS)) == set()
        assert len(server.bodies) == START + len(PROMPTS)


def test_a_check_follows_each_block_and_each_batch() -> None:
    many = [question("dog", about=f"A dog {i}.") for i in range(320)]
    with LyingServer() as server:
        judge = model(server)
        judge.choose(many, LABELS)
        asked = len(server.bodies)
        judge.choose(many, LABELS)
        checks = len(many) // held_answers.MAX_BLOCK_ANSWERS + 1
        assert len(server.bodies) - asked <= len(many) + CHECK_QUESTIONS * checks
        asked = len(server.bodies)
        judge.choose(many[:1], LABELS)
        assert len(server.bodies) - asked == 1 + CHECK_QUESTIONS


# Across runs.


def answers(server: LyingServer, store: Path, **options: Any) -> list[Verdict]:
    return CachingModel(model(server, **options), Store(store)).choose(PROMPTS, LABELS)


def test_a_store_is_not_shared_with_another_model_of_the_same_name(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store.sqlite"
    with LyingServer(after(60, inverts)) as server:
        known = check_honest(answers(server, store, concurrency=4))
        assert 0 < known < len(PROMPTS)
        asked = len(server.bodies)
        for other, reason in (
            (regrades(lambda grade: 1.5 + grade / 2), r"graded .* 5\.0, 5\.0, 1\.0, 3\.0, now 4"),
            (named("other/one"), "it named itself 'model', now 'one'"),
        ):
            server.liar = after(-1, other)
            with pytest.raises(JudgeError, match=reason) as raised:
                answers(server, store)
            assert "`revision`, or use another store" in str(raised.value)
        assert len(server.bodies) == asked + 2 * START, "nothing is asked"
        assert reasons(answers(server, store, revision="other")) == set()
        server.liar = lambda number, text: noisy(0.1)
        assert reasons(answers(server, store)) == set()


def test_what_is_stored_is_the_first_models(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    for lie in (inverts, named("other/model"), waits(60.0)):
        with LyingServer(after(60, lie)) as server:
            answers(server, store, concurrency=4, timeout=0.5)
    kept = CachingModel(FakeModel(name=f"server:{MODEL}:top-20"), Store(store))
    assert check_honest(kept.choose(PROMPTS, LABELS)) == len(PROMPTS)
    assert kept.model.usage.cache_hits > 30
