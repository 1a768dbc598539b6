"""The simulated step: counted calls and tokens, times rates that can be set."""

from dataclasses import replace
from pathlib import Path

import pytest

from posh_reward.models.chat import Chat
from tools.bench.prompt_log import Cost
from tools.bench.qwen import qwen_tokenizer
from tools.goldens import load, read_golden
from tools.simulate_step import OPT_IN, Rates, Way, Work, line, seconds, work

WORK = Work(Cost(7, 1000, 500_000, 100_000, 90_000, 1_500), 27)


def test_a_faster_card_and_fewer_bytes_take_less_time() -> None:
    usual, fast = (seconds(WORK, Way("released"), Rates(tflops=t)) for t in (790, 1580))
    assert fast["prefill"] == pytest.approx(usual["prefill"] / 2)
    assert fast["calls"] == usual["calls"]
    fp8 = seconds(WORK, Way("released", fp8=True), Rates())
    assert fp8["decoding"] == pytest.approx(usual["decoding"] / 2)
    assert fp8["prefill"] < usual["prefill"]
    assert seconds(WORK, Way("released", awake=True), Rates())["wake, sleep"] == 0


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
