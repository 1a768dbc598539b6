"""Whole sentences: what a contradicted, a supported and an unmentioned one does to the scores."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import InputError, PoSh, PoshReward, Scores
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.fake_judge import FakeJudge, fake_model
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import list_engines
from posh_reward.posh.load_metric import read_reward_metric
from posh_reward.posh.load_reader import resolve_reader
from posh_reward.posh.sentences import leave_out
from posh_reward.store import open_store
from posh_reward.types import Failure, Sentence, Usage, Verdict

REFERENCE = (
    "A monk in a red coat reads a letter at a wooden table. A small dog sleeps under the table. "
    "Two ships sail under a dark sky behind the window."
)
SENTENCES = (
    "A monk in a red coat reads a letter.",
    "The dog sleeps under the table.",
    "Two ships sail under a dark sky.",
    "A monk in a blue coat burns a letter.",
    "The dog barks at the window.",
    "Three carts stand in the sun.",
)
SCENES = Path(__file__).resolve().parents[2] / "research" / "scenes" / "held_out.jsonl"
CONTRADICTED, UNMENTIONED = (0.9, 0.1, 0.0), (0.0, 1.0, 0.0)


class Stated:
    """A reader of one's own: says of each sentence what it was told, else "unmentioned"."""

    name = "stated-1"

    def __init__(self, told: dict[str, tuple[float, ...] | Failure]) -> None:
        self.told = told
        self.usage = Usage()

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        return [self.answer(each.text) for each in sentences]

    def answer(self, sentence: str) -> Verdict:
        # A parser may cut in two what we wrote as one sentence.
        found = [told for text, told in self.told.items() if sentence in text]
        for told in found:
            return Verdict(None, told) if isinstance(told, Failure) else Verdict(told)
        return Verdict(UNMENTIONED)

    def sleep(self) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...


def score(
    text: str, told: dict[str, tuple[float, ...] | Failure], reference: str = REFERENCE
) -> Scores:
    [scores] = PoSh(reader=Stated(told), processes=1).score([text], [reference])
    return scores


def precision_grades(scores: Scores) -> list[float]:
    return [e.grade for e in scores.elements if e.direction == "precision" and e.grade]


def test_a_contradicted_sentence_earns_nothing() -> None:
    kept, wrong = SENTENCES[0], SENTENCES[4]
    alone = score(kept, {})
    both = score(f"{kept} {wrong}", {wrong: CONTRADICTED})
    assert both.recall == alone.recall
    grades = precision_grades(both)
    mistakes = [e for e in both.elements if e.decided_by == "contradicted"]
    assert grades == precision_grades(alone) + [1.0] * len(mistakes)
    assert {both.generation[a:b] for e in mistakes for a, b in e.spans} >= {"dog", "window"}
    assert both.precision == pytest.approx(sum(grades) / len(grades) / 5)
    assert [each.value for each in both.sentences] == ["unmentioned", "contradicted"]


@given(
    st.lists(st.sampled_from(SENTENCES), min_size=1, unique=True),
    st.sampled_from(SENTENCES),
    st.integers(0, 6),
)
def test_no_text_gains_by_a_contradicted_sentence(kept: list[str], wrong: str, at: int) -> None:
    others = [each for each in kept if each != wrong]
    text = " ".join([*others[:at], wrong, *others[at:]])
    with_it, without = score(text, {wrong: CONTRADICTED}), score(" ".join(others), {})
    assert with_it.recall == without.recall
    assert with_it.precision is not None
    assert without.precision is not None
    assert with_it.precision <= without.precision


def test_of_real_texts_nothing_is_lost_or_moved() -> None:
    for line in SCENES.read_text(encoding="utf-8").splitlines()[:3]:
        row = json.loads(line)
        text, wrong = "\n\n".join(row["honest"]), row["honest"][1]
        found = score(text, {wrong: CONTRADICTED}, row["reference"])
        assert found.failure is None
        start = text.index(wrong)
        for element in found.elements:
            inside = [start <= a < start + len(wrong) for a, _ in element.spans]
            if element.direction == "precision":
                assert all(inside) == (element.decided_by == "contradicted")
        plain = score(text, {}, row["reference"])
        assert found.f1 is not None
        assert plain.f1 is not None
        assert found.f1 < plain.f1


def test_all_contradicted_earns_the_worst() -> None:
    told: dict[str, tuple[float, ...] | Failure] = dict.fromkeys(SENTENCES[:3], CONTRADICTED)
    found = score(" ".join(SENTENCES[:3]), told)
    assert (found.precision, found.recall) == (0.2, score("", {}).recall)


def test_a_supported_sentence_loses_its_marks() -> None:
    text = "A friar is busy with his correspondence."
    judged, read = score(text, {}), score(text, {text: (0.0, 0.05, 0.95)})
    assert min(precision_grades(judged)) < 3
    assert min(precision_grades(read)) == pytest.approx(1 + 4 * 0.95)
    assert judged.recall == read.recall
    lifted = [each for each in read.elements if each.decided_by == "supported"]
    assert lifted


def test_an_unmentioned_sentence_is_left_to_the_judge() -> None:
    text = " ".join(SENTENCES)
    [plain] = PoSh(processes=1).score([text], [REFERENCE])
    read = score(text, {})
    assert (read.elements, read.f1) == (plain.elements, plain.f1)
    assert "|reader:stated-1" in read.signature
    assert "reader" not in plain.signature


def test_a_doubt_between_two_values_is_unmentioned() -> None:
    even = score(SENTENCES[4], {SENTENCES[4]: (0.5, 0.0, 0.5)})
    assert even.sentences[0].value == "unmentioned"


def test_a_sentence_that_could_not_be_read_fails_its_pair_alone() -> None:
    gone = Failure("engine", "the reader is gone")
    posh = PoSh(reader=Stated({SENTENCES[1]: gone}), processes=1)
    failed, fine = posh.score([f"{SENTENCES[0]} {SENTENCES[1]}", SENTENCES[0]], [REFERENCE] * 2)
    assert (failed.f1, failed.failure) == (None, gone)
    assert fine.f1 is not None
    rewards = PoshReward(posh)(completions=[SENTENCES[1], SENTENCES[0]], reference=[REFERENCE] * 2)
    assert rewards[0] is None
    assert rewards[1] is not None


@pytest.mark.parametrize(
    "answer", [(1.0, 1.0, 1.0), (float("nan"), 0.5, 0.5), (0.5, 0.5), "supported"]
)
def test_an_answer_that_is_no_distribution_is_a_failure(answer: object) -> None:
    found = score(SENTENCES[0], {SENTENCES[0]: answer})  # type: ignore[dict-item]
    assert found.f1 is None
    assert found.failure is not None
    assert found.failure.kind == "reply"


def reads_negations(prompt: Prompt) -> float:
    """1 for a sentence with "not", 3 for any other; 5 for a question about an element."""
    if "Respond ONLY with an integer 1-3" not in prompt.suffix:
        return 5.0
    return 1.0 if " not " in prompt.suffix.partition("\n")[0] else 3.0


def test_a_language_model_reads_sentences_after_the_prefix_of_its_questions(
    tmp_path: Path,
) -> None:
    model = fake_model(reads_negations)
    posh = PoSh(PromptJudge(model), reader="judge")
    text = "A monk reads a letter. A dog does not sleep."
    [found] = posh.score([text], [REFERENCE])
    assert [each.value for each in found.sentences] == ["supported", "contradicted"]
    asked = [prompt for prompt in model.prompts if "1-3" in prompt.suffix]
    assert len(asked) == 2
    assert {prompt.prefix for prompt in asked} == {
        f"DESCRIPTION 1: {REFERENCE}\n\nDESCRIPTION 2: {text}\n\n"
    }
    assert "|reader:fake-model-1|sentences:1|" in found.signature
    store = tmp_path / "answers.sqlite"
    for expected in (True, False):
        again = fake_model(reads_negations)
        kept_answers = open_store(store)
        judge = PromptJudge(again, store=kept_answers)
        [kept] = PoSh(judge, reader="judge", store=kept_answers).score([text], [REFERENCE])
        assert kept.f1 == found.f1
        assert any("1-3" in prompt.suffix for prompt in again.prompts) is expected


def test_a_reply_without_a_label_is_no_contradiction() -> None:
    class Silent(FakeModel):
        def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
            if len(labels) == 3:
                return [Verdict((1.0, 0.0, 0.0), unparsed=True, mass=0.0) for _ in prompts]
            return super().choose(prompts, labels)

    [found] = PoSh(PromptJudge(Silent()), reader="judge").score([SENTENCES[0]], [REFERENCE])
    assert found.f1 is None
    assert "no label" in str(found.failure)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("A monk in a blue coat reads a letter.", "contradicted"),
     ("Three ships sail under a dark sky.", "contradicted"),
     ("A small dog is not sleeping under the table.", "contradicted"),
     ("A monk in a red coat reads a letter.", "unmentioned"),
     ("A nun feeds two green parrots.", "unmentioned"),
     ("A tall man stands near the door.", "unmentioned")],
)  # fmt: skip
def test_facts_of_the_embedded_judge(wrong: str, told: str) -> None:
    [found] = PoSh(reader="judge", processes=1).score([wrong], [REFERENCE])
    assert [each.value for each in found.sentences] == [told]


def test_workers_read_facts_as_one_process_does() -> None:
    texts = [f"{a} {b}" for a in SENTENCES for b in SENTENCES if a != b] * 3
    posh = PoSh(reader="judge", processes=2)
    posh.start()
    alone = PoSh(reader="judge", processes=1)
    expected, found = (metric.score(texts, [REFERENCE] * len(texts)) for metric in (alone, posh))
    assert [each.f1 for each in found] == [each.f1 for each in expected]
    assert [each.sentences for each in found] == [each.sentences for each in expected]


def test_a_check_leaves_the_workers_at_work(caplog: pytest.LogCaptureFixture) -> None:
    reward = PoshReward(PoSh(reader="judge", processes=2))
    reward.check()
    assert None not in reward(completions=[*SENTENCES], reference=[REFERENCE] * len(SENTENCES))
    assert not caplog.records


def test_readers_by_name() -> None:
    judge = PromptJudge(fake_model())
    assert resolve_reader("judge", judge) is judge
    assert resolve_reader("embedded", judge).name.startswith("embedded-")
    with pytest.raises(InputError, match="fake-shared-words-1 does not read sentences"):
        PoSh(FakeJudge(), reader="judge")
    with pytest.raises(InputError, match="3 does not read sentences"):
        PoSh(reader=3)  # type: ignore[arg-type]
    assert list_engines({"judge": "embedded", "reader": "embedded"}) == []
    assert list_engines({"reader": "org/nli"}) == [("reader", {"name": "nli", "model": "org/nli"})]


@pytest.mark.parametrize(("settings", "reader"), [
    ({}, "judge"),
    ({"judge": "embedded"}, "judge"),
    ({"judge": {"name": "embedded"}}, "judge"),
    ({"judge": "embedded", "reader": None}, None),
    ({"reader": "org/nli"}, "org/nli"),
    ({"reader": "none"}, None),
    ({"reader": False}, None),
    ({"judge": "vllm"}, None),
    ({"judge": {"name": "vllm", "model": "org/judge"}}, None),
])  # fmt: skip
def test_a_rewards_embedded_judge_reads_sentences_unless_told(
    settings: dict[str, object], reader: str | None
) -> None:
    assert read_reward_metric(settings).get("reader") == reader


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=6), st.data())
def test_an_excerpt_knows_where_its_words_stood(words: list[str], data: st.DataObject) -> None:
    pieces = [f"{word.strip()}." for word in words]
    text, spans = "", []
    for piece in pieces:
        spans.append((len(text), len(text) + len(piece)))
        text += piece + data.draw(st.sampled_from([" ", "\n\n", "  "]))
    text = text.rstrip()
    out = [span for span in spans if data.draw(st.booleans())]
    excerpt = leave_out(text, out)
    assert excerpt.text == excerpt.text.strip()
    for span in spans:
        place = excerpt.find_here(span)
        assert (place is None) == (span in out)
        if place is not None:
            assert excerpt.text[slice(*place)] == text[slice(*span)]
            assert excerpt.find_whole(place) == span
