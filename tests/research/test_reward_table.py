"""The table of rewards: each reward on texts checkable by hand, and the audit's own words."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from posh_reward.audit import audit
from posh_reward.tables.statistics import Interval
from research.reward_table import rewards
from research.reward_table.__main__ import read_finds, table

TRUE = ["A black dog chases a red ball."]


def paid(function: object, text: str) -> float:
    [reward] = function([text], reference=TRUE)  # type: ignore[operator]
    return float(reward)


def test_rewards_by_hand() -> None:
    assert paid(rewards.length, "one two three four five") == 0.05
    # "a dog chases": three words in order, of four and of seven.
    assert paid(rewards.rouge_l, "A dog chases cats.") == pytest.approx(2 * 3 / (4 + 7))
    assert paid(rewards.capture, TRUE[0]) == 1
    # Both objects (f1 1), neither attribute (0), the relation (1): (5 + 0 + 2) / 12.
    assert paid(rewards.capture, "A white dog chases a blue ball.") == pytest.approx(7 / 12)
    assert paid(rewards.capture, "A black dog chases a scarlet ball.") == 1  # a synonym
    assert paid(rewards.capture, "A ship sails.") == 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A language model that replies as CLAIR asks, with the number of "dog" as the score."""
    prompts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompts.append(body["messages"][0]["content"])
            score = 10 * prompts[-1].count("dog")
            reply = "No idea." if "ship" in prompts[-1] else f'{{"score": {score}, "reason": "r"}}'
            content = {"choices": [{"message": {"content": reply}}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    running = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    monkeypatch.setenv("CLAIR_URL", f"http://127.0.0.1:{running.server_port}")
    yield prompts
    running.shutdown()
    running.server_close()


def test_clair_asks_a_server_and_an_unreadable_reply_is_no_score(server: list[str]) -> None:
    found = rewards.clair(["A dog and a dog.", "A ship."], reference=TRUE * 2)
    assert found == [0.3, None]
    assert "- A dog and a dog." in server[0]
    assert "- A black dog chases a red ball." in server[0]


def test_the_audits_own_table_is_read() -> None:
    def outcome(half: audit.Half, name: str, verdict: audit.Verdict) -> audit.Outcome:
        difference = Interval(0.1, 0.05, 0.15)
        return audit.Outcome(half, "edit", name, 0.6, 0.5, difference, verdict, 12, "text")

    outcomes = [
        outcome(audit.FALSE, "words sorted", "found"),
        outcome(audit.FALSE, "bullets", "held"),
        outcome(audit.HONEST, "headings", "open"),
    ]
    finds = read_finds(audit.format_table({"the true text": 0.5}, outcomes))
    text = table({"length": finds})
    assert "| words, up to 100 | 1 of 2 | 0 | 0 of 1 | 1 |" in text
    assert "**Texts that pass though false:** edit (1): words sorted." in text
    assert "**Texts that fail though honest:** none found." in text


@pytest.mark.encoder
def test_bertscore_prefers_the_same_words(minilm: object) -> None:
    assert paid(rewards.bertscore, TRUE[0]) == pytest.approx(1, abs=1e-5)
    assert paid(rewards.bertscore, "A dog runs.") > paid(rewards.bertscore, "Stocks fell sharply.")
    assert paid(rewards.bertscore, " ") == 0
