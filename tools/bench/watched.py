"""Processor time, and a reader and a judge that measure theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from posh_reward import PoSh
from posh_reward.graph.reader import Reader
from posh_reward.models.fake_model import Recorder
from posh_reward.posh.judge import Judge
from posh_reward.posh.wording import build_prompt, build_rewrite_prompt
from posh_reward.types import Description, Failure, Phrase, Question, Reply, Verdict


class Watch:
    """Sum of the processor seconds spent inside its ``with`` blocks."""

    def __init__(self) -> None:
        self.spent = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.spent += time.process_time() - self._start


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the least processor time of several runs, since noise only adds."""
    watches = [Watch() for _ in range(repeats)]
    for watch in watches:
        with watch:
            work()
    return min(watch.spent for watch in watches)


def reference_workload() -> int:
    """Do a fixed amount of dictionary and string work, about a quarter of a second."""
    counts: dict[str, int] = {}
    for number in range(600_000):
        key = str(number * 7919 % 10_007)
        counts[key] = counts.get(key, 0) + number
    return sum(counts.values())


class ParsedReader(Reader):
    """Reader with a function in place of its parser, whose time it measures."""

    def __init__(self, parse: Callable[[str], Description | Failure]) -> None:
        super().__init__(coref="none")
        self.parse = parse
        self.watch = Watch()

    @property
    def parser_name(self) -> str:
        """A name that no parser has."""
        return "given"

    def _describe(self, texts: Sequence[str]) -> list[Description | Failure]:
        with self.watch:
            return [self.parse(text) for text in texts]


class PromptingJudge(Recorder):
    """Judge that makes a language model's prompts, and has another judge answer."""

    def __init__(self, answering: Judge) -> None:
        super().__init__("prompting")
        self.answering = answering
        self.prompts, self.answers = Watch(), Watch()

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the other judge's verdicts, after making each prompt."""
        with self.prompts:
            for request in requests:
                build_prompt(request)
        with self.answers:
            return self.answering.grade(requests)

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Return the other judge's phrases, after making each prompt."""
        with self.prompts:
            for request in requests:
                build_rewrite_prompt(request)
        with self.answers:
            return self.answering.rewrite(requests)


def metric(reader: Reader, judge: Judge | None = None) -> PoSh:
    """Make a metric with another reader, by default with the embedded judge."""
    posh = PoSh(judge) if judge else PoSh()
    posh.graph_reader = reader
    return posh
