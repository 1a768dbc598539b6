"""NLI cross-encoders as readers of sentences: labels, windows, failures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from posh_reward import InputError, JudgeError, PoSh
from posh_reward.errors import ConfigError
from posh_reward.models.nli import (
    NliReader,
    Reading,
    find_columns,
    list_windows,
    settle_windows,
)
from posh_reward.posh.check import check_judge
from posh_reward.settings import validate_safety
from posh_reward.types import Description, Failure, Sentence

REFERENCE = (
    "A monk in a red coat reads a letter. A small dog sleeps under the table. "
    "Two ships sail under a dark sky. Nobody else is there."
)
ENTAILED, NEUTRAL, CONTRADICTED = (0.9, 0.1, 0.0), (0.0, 1.0, 0.0), (0.0, 0.1, 0.9)


def describe(text: str) -> Description:
    [found] = PoSh(processes=1).graph_reader.read([text])
    assert isinstance(found, Description)
    return found


def ask(text: str) -> Sentence:
    return Sentence(describe(text), describe(REFERENCE), (0, len(text)))


def by_words(pairs: Sequence[tuple[str, str]]) -> list[tuple[float, ...]]:
    """Entailed by a window with the same sentence, contradicted where the colour differs."""
    rows: list[tuple[float, ...]] = []
    for premise, hypothesis in pairs:
        if hypothesis in premise:
            rows.append(ENTAILED)
        elif hypothesis.replace("blue", "red") in premise or " not " in f" {hypothesis} ":
            rows.append(CONTRADICTED)
        else:
            rows.append(NEUTRAL)
    return rows


def test_a_function_reads_sentences_by_their_windows() -> None:
    posh = PoSh(reader=f"{__name__}:by_words", processes=1)
    text = "A monk in a blue coat reads a letter. Two ships sail under a dark sky. A cat waits."
    [found] = posh.score([text], [REFERENCE])
    values = [each.value for each in found.sentences]
    assert values == ["contradicted", "supported", "unmentioned"]
    assert f"|reader:nli-1/{__name__}:by_words" in posh.signature


def test_windows_share_most_words_with_the_sentence() -> None:
    windows = list_windows(ask("A dog is asleep under a table, and two ships sail."))
    assert len(windows) == 4
    assert windows[0] == "A small dog sleeps under the table. Two ships sail under a dark sky."
    assert all("dog" in window or "ships" in window for window in windows)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # 0.2 entailed at most; of the rest 7 / 8 contradicted, as the first window says.
        ([(0.2, 0.1, 0.7), (0.1, 0.9, 0.0)], (0.7, 0.1, 0.2)),
        # Entailed by a later window: the first one's contradiction hardly counts.
        ([(0.0, 0.0, 1.0), (0.9, 0.1, 0.0)], (0.1, 0.0, 0.9)),
        ([(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], (0.0, 1.0, 0.0)),
        ([(1.0, 0.0, 0.0)], (0.0, 0.0, 1.0)),
    ],
)
def test_a_window_that_entails_supports_the_sentence(
    readings: list[tuple[float, float, float]], expected: tuple[float, ...]
) -> None:
    verdict = settle_windows([Reading(*each) for each in readings])
    assert verdict.probabilities == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        ({0: "entailment", 1: "neutral", 2: "contradiction"}, [0, 1, 2]),
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, [2, 1, 0]),
        ({"0": "contradiction", "1": "entailment", "2": "neutral"}, [1, 2, 0]),
    ],
)
def test_labels_are_identified_by_name(labels: dict[Any, str], columns: list[int]) -> None:
    assert find_columns(labels) == columns


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "neutral", 2: "neutral"},
        {0: "POSITIVE", 1: "NEUTRAL", 2: "NEGATIVE"},
    ],
)
def test_labels_that_do_not_tell_are_refused(labels: dict[int, str]) -> None:
    with pytest.raises(InputError, match="entailment, neutral"):
        find_columns(labels)


@pytest.mark.parametrize(
    "row", [(0.5, 0.5), (0.4, 0.4, 0.4), (2.0, -1.0, 0.0), {"yes": 1.0}, None, "entailment"]
)
def test_an_answer_that_is_no_distribution_fails_its_sentence_alone(row: object) -> None:
    def some_rows(pairs: Sequence[tuple[str, str]]) -> list[object]:
        return [row if "cat" in hypothesis else ENTAILED for _, hypothesis in pairs]

    bad, good = NliReader(some_rows).read([ask("A cat waits."), ask("A dog sleeps.")])
    assert bad.failure is not None
    assert bad.failure.kind == "reply"
    assert good.probabilities == pytest.approx((0.0, 0.1, 0.9), abs=1e-9)


def test_a_mapping_names_its_labels() -> None:
    def named(pairs: Sequence[tuple[str, str]]) -> list[dict[str, float]]:
        return [{"CONTRADICTION": 0.0, "ENTAILMENT": 0.9, "NEUTRAL": 0.1} for _ in pairs]

    [verdict] = NliReader(named).read([ask("A dog sleeps.")])
    assert verdict.probabilities == pytest.approx((0.0, 0.1, 0.9))


def test_a_reader_that_raises_fails_the_sentence_at_fault() -> None:
    def touchy(pairs: Sequence[tuple[str, str]]) -> list[tuple[float, ...]]:
        if any("cat" in hypothesis for _, hypothesis in pairs):
            raise RuntimeError("no cats")
        return [NEUTRAL for _ in pairs]

    bad, good = NliReader(touchy).read([ask("A cat waits."), ask("A dog sleeps.")])
    assert str(bad.failure) == "the reader raised RuntimeError: no cats"
    assert good.probabilities == (0.0, 1.0, 0.0)


def neutral_to_all(pairs: Sequence[tuple[str, str]]) -> list[tuple[float, ...]]:
    return [NEUTRAL for _ in pairs]


def contradicted_by_all(pairs: Sequence[tuple[str, str]]) -> list[tuple[float, ...]]:
    return [CONTRADICTED for _ in pairs]


@pytest.mark.parametrize("function", ["neutral_to_all", "contradicted_by_all"])
def test_a_reader_that_cannot_read_is_refused_at_the_start(function: str) -> None:
    posh = PoSh(reader=f"{__name__}:{function}", processes=1)
    with pytest.raises(JudgeError, match="does not tell a sentence from its negation"):
        check_judge(posh)
    check_judge(PoSh(reader="judge", processes=1))


def test_settings_of_others_may_not_name_code() -> None:
    for settings in ({"reader": "module:function"}, {"reader": {"name": "nli", "model": "m:f"}}):
        with pytest.raises(ConfigError, match="it is code to run"):
            validate_safety(settings, "metric.yaml")
    validate_safety({"reader": "http://localhost:8000"}, "metric.yaml")
    validate_safety({"reader": {"name": "nli", "model": "org/nli"}}, "metric.yaml")


def save_classifier(folder: Path, labels: dict[int, str]) -> None:
    """Write a tiny BERT with these labels, in the hub's layout."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    words = sorted(set(REFERENCE.lower().replace(".", " .").split()))
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words) + 4, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=3, id2label=labels,
        label2id={name: place for place, name in labels.items()},
    )  # fmt: skip
    transformers.set_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def test_a_folder_of_the_hub_reads_the_same_in_any_order_of_labels(tmp_path: Path) -> None:
    save_classifier(tmp_path / "one", {0: "entailment", 1: "neutral", 2: "contradiction"})
    reader = NliReader(str(tmp_path / "one"), device="cpu")
    [verdict] = reader.read([ask("A dog sleeps.")])
    assert verdict.probabilities is not None
    assert sum(verdict.probabilities) == pytest.approx(1)
    save_classifier(tmp_path / "other", {0: "contradiction", 1: "neutral", 2: "entailment"})
    [turned] = NliReader(str(tmp_path / "other"), device="cpu").read([ask("A dog sleeps.")])
    assert turned.probabilities != verdict.probabilities
    names = {NliReader(str(tmp_path / each), device="cpu").name for each in ("one", "other")}
    assert len(names) == 2
    config = tmp_path / "one" / "config.json"
    settings = json.loads(config.read_text())
    settings["id2label"] = {str(place): f"LABEL_{place}" for place in range(3)}
    config.write_text(json.dumps(settings))
    with pytest.raises(InputError, match="'LABEL_0' is not entailment"):
        NliReader(str(tmp_path / "one"))


def test_a_sentence_is_never_cut(tmp_path: Path) -> None:
    save_classifier(tmp_path / "one", {0: "entailment", 1: "neutral", 2: "contradiction"})
    reader = NliReader(str(tmp_path / "one"), device="cpu")
    long = "A dog sleeps " * 300
    [verdict] = reader.read([ask(long.strip() + ".")])
    assert isinstance(verdict.failure, Failure)
    with pytest.raises(InputError, match="cannot be loaded"):
        NliReader(str(tmp_path))
