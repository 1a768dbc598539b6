"""The simulated step: counted calls and tokens, times rates that can be set."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from posh_reward.models.chat import Chat
from posh_reward.posh.wording import PRESETS
from tools.bench.prompt_log import Cost, computed_in_blocks, computed_to_the_token, shared_length
from tools.bench.qwen import qwen_tokenizer
from tools.bench.tokens import GENERATIONS_PER_REFERENCE, main, references, steps
from tools.goldens import Golden, load, read_golden
from tools.simulate_step import OPT_IN, Rates, Way, Work, line, seconds, work

WORK = Work(Cost(7, 1000, 500_000, 100_000, 90_000, 1_500), 27, 284)


def test_a_faster_card_and_fewer_bytes_take_less_time() -> None:
    usual, fast = (seconds(WORK, Way("released"), Rates(tflops=t)) for t in (790, 1580))
    assert fast["prefill"] == pytest.approx(usual["prefill"] / 2)
    assert fast["calls"] == usual["calls"]
    fp8 = seconds(WORK, Way("released", fp8=True), Rates())
    assert fp8["decoding"] == pytest.approx(usual["decoding"] / 2)
    assert fp8["prefill"] < usual["prefill"]
    assert seconds(WORK, Way("released", awake=True), Rates())["wake, sleep"] == 0


def test_only_vllm_moves_its_weights_both_ways() -> None:
    rates = Rates(weights_gb=20, host_gb_s=40)
    assert seconds(WORK, Way("released"), rates)["wake, sleep"] == 1.0
    assert seconds(WORK, Way("released", to_the_token=True), rates)["wake, sleep"] == 0.5


def test_processes_share_the_texts_but_not_one_text() -> None:
    def texts(processes: int) -> float:
        rates = Rates(processes=processes, text_ms=100, pair_ms=10)
        return seconds(WORK, Way("released"), rates)["texts"]

    assert texts(1) == pytest.approx(0.9 + 0.08)  # nine texts, and eight pairs' own part
    assert texts(3) == pytest.approx(0.3 + 0.08)
    assert texts(16) == pytest.approx(0.2 + 0.08)  # the longest has 284 words, twice the usual


def test_the_share_is_that_of_the_slowest_card_in_a_whole_step() -> None:
    light = replace(WORK, cost=replace(WORK.cost, computed=1))
    rates = Rates()
    total = sum(seconds(WORK, Way("released"), rates).values())
    rates = replace(rates, rest_s=total)
    told = line(Way("released"), [light, WORK, light], rates)
    # Both are 1 here: .7 / (.7 + 1.3) to 1.3 / (1.3 + .7).
    assert " 35% to 65%  exact aim 33.3%: not met" in told
    assert f"aim {OPT_IN:.1%}: met" in line(Way("prefix-first"), [light], replace(rates, rest_s=99))


@pytest.mark.slow
def test_batched_asking_saves_calls_and_decoding_steps(shared_data: Path) -> None:
    goldens = load(shared_data / "goldens" / "goldens.jsonl")[-1:]
    chat = Chat(qwen_tokenizer(shared_data / "data" / "qwen_tokenizer"))
    pairs = [read_golden(golden) for golden in goldens]
    lazy, batched = (
        work(goldens, pairs, Way("released", pace), chat) for pace in ("lazy", "batched")
    )
    assert batched.cost.calls <= 8 < lazy.cost.calls
    assert batched.steps < lazy.steps
    assert batched.cost.computed < 1.2 * lazy.cost.computed


def test_a_student_costs_a_fraction_and_passes_on_a_share(shared_data: Path) -> None:
    goldens = load(shared_data / "goldens" / "goldens.jsonl")[-1:]
    chat = Chat(qwen_tokenizer(shared_data / "data" / "qwen_tokenizer"))
    pairs = [read_golden(golden) for golden in goldens]
    way = Way("released", to_the_token=True, student="0.6B")
    alone = work(goldens, pairs, way, chat)
    both = work(goldens, pairs, replace(way, passes_on=True), chat, 0.3)
    assert both.first is not None
    assert 0.2 < both.cost.submitted / both.first.cost.submitted < 0.4
    full = sum(seconds(alone, replace(way, student=""), Rates()).values())
    small = sum(seconds(alone, way, Rates()).values())
    cascade = sum(seconds(both, replace(way, passes_on=True), Rates()).values())
    assert small < cascade < full
    assert not way.exact


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
    new = len(goldens) * GENERATIONS_PER_REFERENCE
    assert first.texts_parsed <= new + len(goldens)
    assert max(second.texts_parsed, third.texts_parsed) <= new
    assert first.phrases_of_references > 0
    assert second.phrases_of_references + third.phrases_of_references <= (
        first.phrases_of_references / 5
    )
