"""Completions that come one at a time; no framework is needed."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from posh_reward import InputError, JudgeError, PoSh, PoshReward
from posh_reward.adapters.completion_results import SampleRewards
from posh_reward.posh.fake_judge import FakeJudge
from tests.adapters.groups import FAILED, REASON, REFERENCE, REWARD, TEXTS, rewards


class CountingJudge(FakeJudge):
    calls = 0

    def grade(self, questions):  # type: ignore[no-untyped-def]
        self.calls += 1
        return super().grade(questions)


def test_coroutines_and_threads_get_their_own_results() -> None:
    samples = SampleRewards(REWARD, milliseconds=50)

    async def gather() -> list[float | None]:
        calls = [samples.call_async(text, reference=REFERENCE) for text in TEXTS * 4]
        return [each.reward for each in await asyncio.gather(*calls)]

    assert asyncio.run(gather()) == rewards() * 4
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda text: samples(text, reference=REFERENCE), TEXTS * 4)
        assert [each.reward for each in results] == rewards() * 4


def test_what_arrives_together_is_scored_together() -> None:
    texts = [f"A woman in a red dress with {n} baskets." for n in range(12)]

    def calls_of_judge(together: bool) -> int:
        judge = CountingJudge()
        samples = SampleRewards(PoshReward(PoSh(judge)), milliseconds=40)

        async def run() -> None:
            calls = [samples.call_async(text, reference=REFERENCE) for text in texts]
            if together:
                await asyncio.gather(*calls)
            else:
                for call in calls:
                    await call

        asyncio.run(run())
        return judge.calls

    assert calls_of_judge(together=True) * 6 < calls_of_judge(together=False)


def test_a_row_without_its_column_is_an_error_of_its_own() -> None:
    samples = SampleRewards(REWARD, milliseconds=50)

    async def run() -> tuple[object, object]:
        good = samples.call_async(TEXTS[0], reference=REFERENCE)
        bad = samples.call_async(TEXTS[1], caption=REFERENCE)
        return await asyncio.gather(good, bad, return_exceptions=True)

    good, bad = asyncio.run(run())
    assert getattr(good, "reward", None) == rewards()[0]
    assert isinstance(bad, InputError)


def test_a_failure_is_a_declared_number_that_is_counted_or_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    declared = SampleRewards(REWARD, fallback=0.5)
    result = declared(TEXTS[FAILED], reference=REFERENCE)
    with caplog.at_level(logging.WARNING):
        assert declared.number(result) == 0.5
    assert declared.failures == 1
    assert REASON in caplog.text
    with pytest.raises(JudgeError, match=REASON):
        SampleRewards(REWARD).number(result)
