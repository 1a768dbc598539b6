"""The token bench counts right, and finds that we ask for less and score as the release does."""

import json
from pathlib import Path

import pytest

from posh_reward.metrics.posh.questions import PRESETS
from posh_reward.models.chat import Chat
from tools.bench.prompt_log import computed_in_blocks, computed_to_the_token, shared_length
from tools.bench.qwen import qwen_tokenizer
from tools.bench.tokens import GENERATIONS, main, references, steps
from tools.goldens import Golden, load


def test_a_block_is_found_again_only_behind_the_same_beginning() -> None:
    first, second = [1, 2, 3, 4, 5], [9, 9, 3, 4]
    assert computed_in_blocks([first, second], block=2) == 9
    assert computed_in_blocks([first, [1, 2, 3, 7]], block=2) == 5 + 2
    assert computed_in_blocks([first, first], block=2) == 5 + 1


def test_to_the_token_any_beginning_is_found_again() -> None:
    assert shared_length([1, 2, 3], [1, 2, 4, 5]) == 2
    assert shared_length([1, 2], [1, 2, 3]) == 2
    assert shared_length([], [1]) == 0
    assert computed_to_the_token([[1, 2, 3], [1, 9], [1, 2, 4, 5], [1, 2, 3]]) == 3 + 1 + 2


def test_presets_are_counted_and_score_as_the_goldens(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "goldens" / "goldens.jsonl").open(encoding="utf-8") as lines:
        goldens = [next(lines) for _ in range(2)]
    some, out = tmp_path / "some.jsonl", tmp_path / "figures.json"
    some.write_text("".join(goldens), encoding="utf-8")
    main(["batch", str(some), str(shared_data / "data" / "qwen_tokenizer"), "--json", str(out)])
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert tuple(figures) == PRESETS
    for preset in figures.values():
        for way in (preset, preset["decisive"], preset["batched"]):
            assert way["max_score_difference"] < 1e-9
            assert 0 < way["decoded_ratio"] < 0.45
            assert 0 < way["computed_to_the_token"] < way["computed"] < way["submitted"]
            assert way["computed_ratio"] < 1
        assert preset["batched"]["calls"] <= 8 < preset["calls"]
    assert figures["prefix-first"]["computed_ratio"] <= 0.37  # of all 50 pairs: 0.352
    assert figures["prefix-first"]["computed"] < 0.42 * figures["released"]["computed"]


@pytest.mark.slow
def test_references_cost_nothing_after_the_first_step(shared_data: Path) -> None:
    goldens: list[Golden] = references(load(shared_data / "goldens" / "goldens.jsonl"))[:1]
    chat = Chat(qwen_tokenizer(shared_data / "data" / "qwen_tokenizer"))
    first, second, third = steps(goldens, "released", chat)
    new = len(goldens) * GENERATIONS
    assert first.texts_parsed <= new + len(goldens)
    assert max(second.texts_parsed, third.texts_parsed) <= new
    assert first.phrases_of_references > 0
    assert second.phrases_of_references + third.phrases_of_references <= (
        first.phrases_of_references / 5
    )
