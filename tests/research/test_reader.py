"""What a reader is trained on: parts of references, labels of sentences, and their losses."""

import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from research.reader.examples import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    Example,
    choose_premises,
    find_changes,
    scene_examples,
)
from research.reader.network import Tokens
from research.reader.train import batch, group, measure_loss, measure_token_loss
from research.reader.windows import choose_runs, choose_windows

REFERENCE = "A nun waits. A red dog sleeps. The sea is calm. A boy feeds the dog. Rain falls."
SCENE = {
    "id": "quay",
    "reference": REFERENCE,
    "honest": ["A dog that is red is asleep.", "It rains on a calm sea."],
    "rewordings": [{"sentence": 0, "text": "A red dog slumbers."}],
    "false": [{"sentence": 0, "kind": "colour", "text": "A dog that is black is asleep."}],
}
OTHER = SCENE | {"id": "hill", "honest": ["Goats climb.", "A hill rises."]}
PREMISE = "A red dog sleeps."


def test_windows_hold_the_sentences_that_share_most_in_the_references_order() -> None:
    one, three = choose_windows(REFERENCE, "The red dog is fed by a boy.")
    assert one == "A red dog sleeps."
    assert three == "A nun waits. A red dog sleeps. A boy feeds the dog."


def test_runs_are_neighbours_and_the_shortest_come_first() -> None:
    runs = choose_runs(REFERENCE, "The red dog rests.")
    assert runs[0] == "A red dog sleeps."
    assert len(runs) == 4
    assert all(run in REFERENCE for run in runs)


def test_windows_of_a_short_reference_are_all_of_it() -> None:
    assert choose_windows("A dog.", "A cat.") == ["A dog."]


def test_a_whole_reference_is_one_premise() -> None:
    assert choose_premises(REFERENCE, "A dog.", "whole") == (REFERENCE,)
    assert len(choose_premises(REFERENCE, "A dog.", "three")) == 1
    assert len(choose_premises(REFERENCE, "A dog.", "both")) == 2


@pytest.mark.parametrize(
    ("true", "false", "changed"),
    [
        ("A red dog.", "A black dog.", ["black"]),
        ("It is asleep.", "It is not asleep.", ["not"]),
        ("It is not asleep.", "It is asleep.", ["asleep"]),
        ("A dog sleeps.", "A cat sits.", ["cat sits"]),
        ("A dog.", "A dog.", []),
    ],
)
def test_changes_are_the_words_that_differ(true: str, false: str, changed: list[str]) -> None:
    assert [false[start:end] for start, end in find_changes(true, false)] == changed


def test_a_scene_teaches_each_label() -> None:
    examples = scene_examples([SCENE, OTHER], 0, "three")
    labels = {example.kind: example.label for example in examples}
    assert labels["honest"] == labels["reworded"] == labels["itself"] == ENTAILMENT
    assert labels["colour"] == CONTRADICTION
    assert labels["foreign"] == labels["distant"] == NEUTRAL


def test_sentences_of_a_group_stay_together() -> None:
    examples = scene_examples([SCENE, OTHER], 0, "three")
    batches = list(batch(group(examples), random.Random(0)))
    assert sum(map(len, batches)) == len(examples)
    for name in {example.group for example in examples if example.group}:
        assert sum(any(one.group == name for one in some) for some in batches) == 1


def test_an_honest_sentence_needs_one_window_and_a_false_one_none() -> None:
    supports, refutes = [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]
    honest = Example((PREMISE, PREMISE), "", ENTAILMENT, "honest")
    false = Example((PREMISE, PREMISE), "", CONTRADICTION, "colour")
    one_supports = torch.tensor([supports, refutes])
    none_supports = torch.tensor([refutes, refutes])
    assert measure_loss(one_supports, [honest], 0.0) < 0.1
    assert measure_loss(none_supports, [honest], 0.0) > 1.0
    assert measure_loss(none_supports, [false], 0.0) < 0.1
    assert measure_loss(one_supports, [false], 0.0) > 1.0


def test_ranking_costs_a_false_sentence_above_an_honest_one() -> None:
    honest = Example((PREMISE,), "", ENTAILMENT, "honest", "quay 0")
    false = Example((PREMISE,), "", CONTRADICTION, "colour", "quay 0")
    logits = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    plain, right = (measure_loss(logits, [honest, false], weight) for weight in (0.0, 1.0))
    wrong = measure_loss(logits, [false, honest], 1.0) - measure_loss(logits, [false, honest], 0.0)
    assert right - plain < wrong


def test_tokens_are_false_where_the_sentence_was_changed() -> None:
    pair = Tokens(
        [1, 5, 2, 6, 7, 2], [0, 0, 0, 1, 1, 1], [(0, 0), (0, 1), (0, 0), (0, 5), (6, 9), (0, 0)]
    )
    false = Example((PREMISE,), "black dog", CONTRADICTION, "colour", changed=((0, 5),))
    unknown = Example((PREMISE,), "black dog", NEUTRAL, "foreign")
    right = torch.tensor([0.0, 0.0, 0.0, 9.0, -9.0, 0.0])
    assert measure_token_loss([right], [pair], [false]) < 0.1
    assert measure_token_loss([-right], [pair], [false]) > 1.0
    assert measure_token_loss([-right], [pair], [unknown]) == 0.0
