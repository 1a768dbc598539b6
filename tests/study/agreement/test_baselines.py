"""Baselines: what each gives on texts that a person can check."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.models.fake_model import FakeModel
from posh_reward.store import Store
from posh_reward.study.agreement import baselines, metric_scores
from posh_reward.study.agreement.metric_scores import AxisScores, TextPair
from posh_reward.types import Failure, Reply

SAME = TextPair("A brown dog chases a cat.", ("A brown dog chases a cat.",))
OTHER = TextPair("Three ships sail.", ("A brown dog chases a cat.",))


def overall(measure: Any, *pairs: TextPair) -> list[float]:
    return [given.overall for given in measure.score(pairs)]


def test_words_by_hand() -> None:
    assert overall(baselines.make_length(), SAME) == [6]
    [given] = baselines.BagOfWords().score([TextPair("A red dog.", ("a dog",))])
    assert given == AxisScores(2 / 3, 1.0, 0.8)
    assert baselines.BagOfWords().score([TextPair("", ("a dog",))]) == [AxisScores(0, 0, 0)]
    assert overall(baselines.load_meteor(), TextPair("", ("a dog",))) == [0]


@pytest.mark.parametrize(
    "make", [baselines.load_bleu, baselines.load_rouge, baselines.load_meteor, baselines.BagOfWords]
)
def test_equal_texts_are_best_and_strange_ones_worst(make: Any) -> None:
    same, other = overall(make(), SAME, OTHER)
    assert same > 0.99
    assert other < 0.2


def test_several_references_are_taken_as_each_library_takes_them() -> None:
    """Each half of the generation is a reference, so BLEU's n-grams are all known but one.

    Of 6 words 6 are in a reference, of 5 bigrams 4, of 4 trigrams 2, of 3 four-grams 0, which
    sacrebleu smooths to 1 / 2; the closest reference has 3 words, so nothing is taken off for
    brevity. ROUGE and METEOR take the best reference, not both.
    """
    halves = TextPair("a brown dog chases one cat", ("a brown dog", "chases one cat"))
    expected = (6 / 6 * 4 / 5 * 2 / 4 * 1 / 2 / 3) ** (1 / 4)
    assert overall(baselines.load_bleu(), halves) == [pytest.approx(expected)]
    one, other = (replace(halves, references=(each,)) for each in halves.references)
    for make in (baselines.load_rouge, baselines.load_meteor):
        best = max(overall(make(), one, other))
        assert overall(make(), halves) == [pytest.approx(best)]
    joined = replace(halves, references=(halves.reference,))
    assert overall(baselines.load_rouge(), joined)[0] > overall(baselines.load_rouge(), halves)[0]
    for measure in (baselines.BagOfWords(), baselines.make_length()):
        assert overall(measure, halves) == overall(measure, joined)


CIDER_PAIRS = (
    TextPair("A red dog.", ("a red dog sleeps",)),
    TextPair("a cat", ("a red cat sits", "the cat")),
    TextPair("", ("two men walk",)),
)


def test_cider_is_cocos(monkeypatch: pytest.MonkeyPatch) -> None:
    """pycocoevalcap 1.2 (``Cider().compute_score``) gives these numbers for the same words."""
    theirs = [5.386420534524635, 1.6653291594188118, 0.0]
    assert overall(baselines.Cider(), *CIDER_PAIRS) == pytest.approx(theirs, abs=1e-12)
    # Texts are weighed over all pairs, however many a call takes.
    monkeypatch.setattr(metric_scores, "PAIRS_PER_CALL", 1)
    column = metric_scores.score_texts(baselines.Cider(), CIDER_PAIRS * 2, quiet=True)
    assert column.scores["overall"].tolist() == pytest.approx(theirs * 2, abs=1e-12)


def test_cider_of_one_image_is_a_failure_never_a_low_score() -> None:
    """Every word is in every document, so nothing is rare, and all cosines would be 0."""
    for scores in baselines.Cider().score([SAME, OTHER]):
        assert scores.overall is None
        assert "references of two images" in str(scores.failure)


def letters(texts: Sequence[str]) -> Any:
    """Embeds a text by the letters that it has."""
    return np.array([[text.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


@pytest.mark.parametrize("reader", [None, Reader()], ids=["4-grams", "graph"])
def test_pieces_unlike_the_other_text_are_alerts(reader: Reader | None) -> None:
    measure = baselines.EmbeddingAlerts(letters, "letters", reader)
    pair = TextPair(" A brown dog sleeps. Zyzzyx quips.", ("A brown dog sleeps.",))
    alerts, empty = measure.alerts([pair, TextPair("", ("A dog.",))])
    assert not isinstance(alerts, Failure)
    assert not isinstance(empty, Failure)
    scores = {pair.generation[slice(*span)]: score for span, score in alerts["mistakes"]}
    strange = [score for text, score in scores.items() if "yzz" in text]
    assert strange
    assert max(strange) < measure.threshold <= max(scores.values())
    assert all(score == pytest.approx(1) for _, score in alerts["omissions"])
    assert all(score == -1 for _, score in empty["omissions"])


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        ('{"precision": 4, "recall": 2.5, "overall_quality": 3}', (4, 2.5, 3)),
        ("Sure:\n```json\n{'precision': 5, 'recall': 0, 'overall_quality': 1}\n```", (5, 0, 1)),
        ('{"precision": 4, "recall": 2, "overall_quality": 3, "why": "the dog\'s"}', (4, 2, 3)),
        ('{"precision": 4} {"precision": 1, "recall": 1, "overall_quality": 1}', (1, 1, 1)),
    ],
)
def test_scores_are_found_in_a_reply(reply: str, given: tuple[float, float, float]) -> None:
    assert baselines.read_scores(Reply(reply)) == AxisScores(*given)


@pytest.mark.parametrize(
    "reply",
    ["4, 3, 2", "{}", '{"precision": 6, "recall": 1, "overall_quality": 1}',
     '{"precision": true, "recall": 1, "overall_quality": 1}',
     '{"precision": NaN, "recall": 1, "overall_quality": 1}',
     '{"precision": ' + "9" * 400 + ', "recall": 1, "overall_quality": 1}'],
)  # fmt: skip
def test_a_reply_without_scores_is_a_failure_never_a_low_score(reply: str) -> None:
    given = baselines.read_scores(Reply(reply))
    assert (given.overall, given.failure and given.failure.kind) == (None, "reply")


def test_a_language_model_is_asked_by_the_papers_prompts(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "a.png"
    Image.new("RGB", (2, 2)).save(path)
    pair = TextPair("A dog {reference}.", ("A cat.",), "a", str(path))
    answer = '{"precision": 4, "recall": 2, "overall_quality": 3}'
    for shown in get_args(baselines.Source):
        model = FakeModel(writer=lambda _: answer, sees=True)
        store = Store(tmp_path / f"{shown}.sqlite")
        measure = baselines.LlmScores(model, shown, store)
        assert measure.score([pair]) == [AxisScores(4, 2, 3)]
        [prompt] = model.prompts
        assert "Generated Detailed Description: A dog {reference}.\n" in prompt.text
        assert ("Reference Detailed Description: A cat." in prompt.text) == (shown != "image")
        assert len(prompt.images) == (shown != "reference")
        assert "keys 'precision', 'recall', and 'overall_quality'" in prompt.text
        again = FakeModel(sees=True)
        assert baselines.LlmScores(again, shown, store).score([pair]) == [AxisScores(4, 2, 3)]
        assert again.prompts == []
    blind = baselines.LlmScores(FakeModel(), "image").score([pair, TextPair("a", ("b",))])
    assert "does not take images" in str(blind[0].failure)
    assert "no image" in str(blind[1].failure)


def test_an_unknown_baseline_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no baseline 'blue': use all, length, words, bleu"):
        baselines.load_baselines(["length,blue"])
