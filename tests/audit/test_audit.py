"""An audit finds the known faults of rewards that are not ours, and none of one that is right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from threading import Thread
from typing import Any

import pytest

from posh_reward import PoshReward
from posh_reward.audit.audit import (
    FALSE,
    HONEST,
    Check,
    Outcome,
    Texts,
    format_table,
    judge_check,
    render_page,
)
from posh_reward.audit.hill_climb import HillClimb, take_first_half
from posh_reward.audit.reward_cache import Reward, RewardCache
from posh_reward.audit.variants import (
    exchange_roles,
    name_things,
    shared_reader,
    split_into_clauses,
)
from posh_reward.cli import EXIT_INTERRUPTED, EXIT_JUDGE_FAILED, EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.cli.audit_commands import EXIT_FOUND
from posh_reward.datasets.scenes import caption as wording
from posh_reward.reward.shaping import Objective, Shaping
from posh_reward.tables.tables import Journal
from posh_reward.types import Description
from tests.audit.rewards import ADDRESS, CredulousModel, length, scenes

slow = pytest.mark.slow
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = [{"uuid": uid, "reference": wording(scene)} for uid, scene in scenes().items()]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def audit(data: str, reward: str, *more: str) -> int:
    name = reward if ":" in reward or "." in reward else f"tests.audit.rewards:{reward}"
    out = str(Path(data).parent / "audit")
    flags = ["--budget", "0", "--rows", "7", *more]
    return main(["attack", data, "-o", out, "--reward", name, *flags])


def found(report: str) -> set[str]:
    """Names of the checks with this verdict."""
    lines = [line.split(" | ") for line in report.splitlines() if line.endswith("| found |")]
    return {cells[0].removeprefix("| ").partition(": ")[2] for cells in lines}


FAULTS = {
    "length": {"every verb negated", "verbs random", "colours wrong", "guesses", "said again",
               "praise, as of a museum", "another row's sentences", "words sorted",
               "each word twice", "DESCRIPTION 1:"},
    "rouge": {"every verb negated", '"It is false that" before each', "table", "HTML list"},
    "clair": {"every verb negated", "words sorted", "DESCRIPTION 1:"},
    "rubric": {"every verb negated", '"It is false that" before each', "words sorted"},
    "keywords": {"every verb negated", '"It is false that" before each', "words sorted",
                 "words reversed", "shuffled around articles", "prepositions random"},
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[None]:
    """A language model for ``clair``."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), CredulousModel)
    thread = Thread(target=http.serve_forever)
    thread.start()
    ADDRESS.append(f"http://127.0.0.1:{http.server_port}")
    yield
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "reward",
    [
        "length",
        "keywords",
        *(pytest.param(name, marks=slow) for name in ("rouge", "clair", "rubric")),
    ],
)
def test_the_known_faults_of_rewards_are_found(data: str, reward: str, capsys: Capture) -> None:
    assert audit(data, reward) == EXIT_FOUND
    report = capsys.readouterr().out
    assert report.startswith("FOUND: ")
    assert found(report) >= FAULTS[reward]
    held = {"length": "one sentence a line", "rouge": "words sorted"}.get(reward, "praise")
    assert not any(name.startswith(held) for name in found(report)), "no fault of this reward"


@slow
def test_nothing_is_found_in_a_reward_that_is_right(data: str, capsys: Capture) -> None:
    """The oracle of drawn scenes pays for what is drawn, and charges what is not."""
    assert audit(data, "oracle", "--rows", "12", "--budget", "8") == EXIT_OK
    report = capsys.readouterr().out
    assert report.startswith("nothing found: 0 of ")
    assert found(report) == set()
    assert report.count("| held |") > 100, "settled, not merely open"


calls: list[int] = []
broken_off = 0


def counted(completions: Sequence[str], **columns: Any) -> list[float]:
    calls.append(len(completions))
    if len(calls) == broken_off:
        raise KeyboardInterrupt
    return length(completions, **columns)


def test_a_broken_off_audit_pays_for_nothing_twice(
    data: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.calls", calls := list[int]())
    monkeypatch.setattr(f"{__name__}.broken_off", 5)
    searching = ("--budget", "8", "--rows", "6")
    assert audit(data, f"{__name__}:counted", *searching) == EXIT_INTERRUPTED
    assert audit(data, f"{__name__}:counted", *searching) == EXIT_FOUND
    resumed = capsys.readouterr()
    assert re.search(r"texts left, and 192 in climbs, .* minutes", resumed.err), "an estimate"
    paid = sum(calls) - calls[4]
    folder = Path(data).parent / "audit"
    folder.rename(folder.with_name("resumed"))
    calls.clear()
    monkeypatch.setattr(f"{__name__}.broken_off", 0)
    assert audit(data, f"{__name__}:counted", *searching) == EXIT_FOUND
    assert capsys.readouterr().out == resumed.out
    assert sum(calls) == paid


def wordy(completions: Sequence[str], **_: Any) -> list[float]:
    return [0.5]


def mute(completions: Sequence[str], **_: Any) -> list[None]:
    return [None for _ in completions]


def needy(completions: Sequence[str], colour: Sequence[str], **_: Any) -> list[float]:
    return [0.5 for _ in completions]


@pytest.mark.parametrize(
    ("reward", "status", "message"),
    [
        (f"{__name__}:wordy", EXIT_UNUSABLE, "the reward wordy returned 1 rewards for"),
        (f"{__name__}:needy", EXIT_UNUSABLE, "the reward needy failed with TypeError"),
        (f"{__name__}:mute", EXIT_JUDGE_FAILED, "no row has a reward"),
        (f"{__name__}:nobody", EXIT_UNUSABLE, "cannot be imported (AttributeError"),
        ("no_such_module:reward", EXIT_UNUSABLE, "cannot be imported (ModuleNotFoundError"),
        (f"{__name__}:__name__", EXIT_UNUSABLE, "name a function"),
    ],
)
def test_an_unusable_reward_is_named(
    data: str, reward: str, status: int, message: str, capsys: Capture
) -> None:
    assert audit(data, reward) == status
    assert message in capsys.readouterr().err


def test_a_function_gets_what_trl_passes() -> None:
    """Chats for a dataset of chats, one text for each row of a list, all other columns."""

    def gives(prompts: Any, completions: Any, image: Any, references: Any) -> list[float]:
        assert prompts == [[{"role": "user", "content": "What is it?"}]]
        assert completions == [[{"role": "assistant", "content": "A dog."}]]
        assert (image, references) == (["dog.png"], [["A dog.", "A hound."]])
        return [0.25]

    row = {"prompt": [{"role": "user", "content": "What is it?"}], "image": "dog.png",
           "references": ["A dog.", "A hound."]}  # fmt: skip
    reward = Reward([gives], "references")
    assert reward.score([row], ["A dog."]) == [0.25]
    assert Texts.of(reward, [row]) == Texts(["A dog."], ["A hound."])


@pytest.mark.parametrize(
    ("half", "share", "text", "verdict"),
    [
        # The truth of 10 words earns .1, .06 more than the start; a falsehood of 7 earns .07.
        (FALSE, 0.75, 7, "found"),  # .07 - .1 + .75 * .06 = .015
        (FALSE, 0.1, 7, "held"),  # .07 - .1 + .1 * .06 = -.024
        (HONEST, 0.1, 7, "found"),
        (HONEST, 0.75, 7, "held"),
    ],
)
def test_a_verdict_by_hand(
    half: Any, share: float, text: int, verdict: str, tmp_path: Path
) -> None:
    def words(number: int) -> list[str]:
        return ["word " * number] * 6

    check = Check(half, "kind", "name", words(text), words(10), words(4), share)
    few = Check(half, "kind", "name", [*words(text)[:5], None], words(10), words(4), share)
    with closing(Journal(tmp_path / "paid.jsonl", b'{"row": ')) as journal:
        cache = RewardCache(Reward([length]), [{"reference": ""}] * 6, journal)
        finding = judge_check(check, cache, floor=0.001)
        assert judge_check(few, cache, floor=0.001).verdict == "open", "five rows settle nothing"
    assert finding.verdict == verdict
    assert str(finding.difference) == "-0.030 [-0.030, -0.030]"


def read(text: str) -> Description:
    [description] = shared_reader().read([text])
    assert isinstance(description, Description)
    return description


def test_roles_and_clauses() -> None:
    import random

    exchanged = exchange_roles(read("The boy kicks the red ball."), random.Random(0))
    assert exchanged == "The ball kicks the red boy."
    assert exchange_roles(read("A boy stands."), random.Random(0)) is None
    simple = split_into_clauses(read("A girl in red stands, holding a fan, and a dog sits."))
    assert simple == "A girl in red stands. The girl is holding a fan. A dog sits."
    assert split_into_clauses(read("A girl stands.")) is None
    named = name_things(read("On the left, an owl in a red coat sits near two dogs and an owl."))
    assert named == "There is an owl. There is a coat."


def test_a_table_and_a_page_show_the_findings() -> None:
    findings = [Outcome(HONEST, "format", "a < b", 0.5, 0.6, None, "held", 6, "<script>"),
                Outcome(FALSE, "blind", "x", 0.7, 0.6, None, "found", 6, "x")]  # fmt: skip
    lines = format_table({"the true text": 1.0}, findings).splitlines()
    assert lines[0] == "FOUND: 1 of 1 pass though false; 0 of 1 fail though honest"
    assert "| blind: x | 0.700 | 0.600 |  | 6 | found |" in lines
    html = render_page({"the true text": 1.0}, findings, ["posh|judge:x"])
    assert "a &lt; b" in html
    assert "<script>" not in html
    assert "posh|judge:x" in html


def test_settings_name_the_column(tmp_path: Path, capsys: Capture) -> None:
    """The reward's own column of references is read."""
    data, posh = tmp_path / "rows.jsonl", tmp_path / "posh.yaml"
    rows = [{"caption": f"A {colour} dog sits on a chair."} for colour in
            ("red", "green", "blue", "grey", "white")]  # fmt: skip
    data.write_text("\n".join(map(json.dumps, rows)))
    posh.write_text("reference_column: caption\nshaping: {objective: separate}")
    few = ["--rows", "3"]
    assert audit(str(data), str(posh), *few) == EXIT_OK, "three rows settle nothing"
    assert "| the true text | 0.9" in capsys.readouterr().out
    assert audit(str(data), str(posh), "--rows", "12") == EXIT_UNUSABLE
    assert "has 5 rows: use 7 at least" in capsys.readouterr().err
    data.write_text('{"reference": "A dog."}')
    assert audit(str(data), str(posh)) == EXIT_UNUSABLE
    assert "has no column 'caption', but 'reference'" in capsys.readouterr().err


@slow
def test_a_metric_that_looks_at_length_is_found_out(tmp_path: Path, capsys: Capture) -> None:
    """HarmonicEval with a model that grades by length; a grade of 5 is a reward of 1."""
    theirs = tmp_path / "audit" / "finds.md"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    flags = ["attack", "scenes:heldout=16", "-o", str(tmp_path / "audit"), "--rows", "7",
             "--reward", "tests.audit.rewards:harmonic", "--budget", "0"]  # fmt: skip
    assert main(flags) == EXIT_UNUSABLE
    assert theirs.read_text() == "mine", "no audit wrote it"
    theirs.unlink()
    assert main(flags) == EXIT_FOUND
    assert found(capsys.readouterr().out) >= {"every verb negated", "verbs random", "guesses"}


STORED = json.loads((Path(__file__).parent / "finds.json").read_text(encoding="utf-8"))
ARTWORKS = Path(__file__).resolve().parents[2] / "research" / "calibration" / "artworks.json"


@slow
@pytest.mark.parametrize("objective", ["f1", "separate"])
def test_what_past_searches_found_pays_no_more(objective: Objective) -> None:
    """Texts of searches before and after the rules; some were searched for on one of these rows."""
    functions = PoshReward(shaping=Shaping(objective)).functions()
    reward, rows = Reward(functions), json.loads(ARTWORKS.read_text(encoding="utf-8"))[8:14]
    truths = list(map(reward.true_text, rows))

    def paid(texts: Sequence[str]) -> list[float]:
        return reward.score(rows, texts)

    sentence = fmean(paid(Texts.of(reward, rows).single))
    halves = [take_first_half(truth) for truth in truths]
    before = paid(halves)
    for find in STORED:
        climb = HillClimb(find["grammar"], find["behind"], {})
        texts = [climb.text(tuple(find["units"]), truth) for truth in truths]
        values = paid(texts)
        if find["behind"]:
            words = [len(a.split()) - len(b.split()) for a, b in zip(texts, halves, strict=True)]
            gains = zip(values, before, words, strict=True)
            assert fmean((a - b) * 10 / max(10, size) for a, b, size in gains) < 0.002, find
        else:
            assert fmean(values) < sentence + 0.01, find
