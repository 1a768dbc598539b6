"""Scores goldens by a language model whose answers do not count, and times it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posh_reward.metrics.posh.examine import examine
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from posh_reward.metrics.posh.lockstep import Rewriter, run_together
from posh_reward.metrics.posh.presets import prompt, rewrite_prompt
from posh_reward.models.base import Model, Prompt
from posh_reward.types import Description, Reply, Request, RewriteRequest, Usage, Verdict
from tools.goldens import SIDES, Golden, ReplayJudge, expected

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Clock = Callable[[], float]


class Forwarding:
    """Asks a language model everything, then answers with what the goldens say."""

    def __init__(self, judge: PromptJudge, goldens: Sequence[Golden]) -> None:
        self.judge = judge
        self.name = judge.name
        self.usage = Usage()
        self.waves: list[list[Request]] = []
        """The questions of each call."""
        self._recorded = {(g["generation"], g["reference"]): ReplayJudge(g) for g in goldens}
        self._phrases = {k: v for golden in goldens for k, v in golden["rewrites"].items()}

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """The recorded distributions."""
        self.waves.append(list(requests))
        self.judge.grade(requests)
        return [self._pair(request).grade([request])[0] for request in requests]

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Reply]:
        """The recorded phrases."""
        self.judge.rewrite(requests)
        return [Reply(self._phrases[rewrite_prompt(request).text]) for request in requests]

    def sleep(self) -> None:
        """The judge's."""
        self.judge.sleep()

    def wake(self) -> None:
        """The judge's."""
        self.judge.wake()

    def close(self) -> None:
        """The judge's."""
        self.judge.close()

    def _pair(self, request: Request) -> ReplayJudge:
        source, target = request.source.text, request.target.text
        return self._recorded[
            (source, target) if request.direction == "precision" else (target, source)
        ]


class Timed:
    """A model that notes how long it took for grades and for phrases."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model = model
        self._clock = clock
        self.name, self.sees = model.name, model.sees
        self.usage = model.usage
        self.choosing = self.writing = 0.0
        self.sleep, self.wake, self.close = model.sleep, model.wake, model.close

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The model's."""
        start = self._clock()
        verdicts = self._model.choose(prompts, labels)
        self.choosing += self._clock() - start
        return verdicts

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The model's."""
        start = self._clock()
        rewrites = self._model.write(prompts, max_tokens)
        self.writing += self._clock() - start
        return rewrites


@dataclass(frozen=True, slots=True)
class Figures:
    """What scoring all pairs with one preset took."""

    preset: str
    pairs: int
    seconds: float
    grading: float
    """Seconds of these in which the model graded."""
    rewriting: float
    """Seconds of these in which it wrote."""
    submitted: int
    computed: int
    decoded: int
    tflops: float
    """Operations of the floor, per second."""
    floor: float
    """Seconds that they would take at the speed of a large product."""
    failures: int

    @property
    def per_pair(self) -> float:
        """Seconds."""
        return self.seconds / self.pairs


def score(judge: Forwarding, goldens: Sequence[Golden]) -> None:
    """Both directions of every pair, in one batch, from the goldens' graphs."""
    steps = []
    for golden in goldens:
        told = {side: Description(golden[side], expected(golden, side)) for side in SIDES}
        generation, reference = told["generation"], told["reference"]
        steps += [examine(generation, reference, "precision")]
        steps += [examine(reference, generation, "recall")]
    for examination in run_together(steps, judge, Rewriter(judge)):
        assert examination.failure is None, examination.failure


def clock_of(model: PreTrainedModel) -> Clock:
    """Seconds that pass where there is a card; of the processor without one: others share it."""
    return time.perf_counter if model.device.type == "cuda" else time.process_time


def floor_operations(model: PreTrainedModel, usage: Usage) -> int:
    """Two for each weight of the layers and each token, and of the head and each answer's token.

    A prompt's last token gives the first of its answer. Attention is not counted.
    """
    layers: int = sum(p.numel() for p in model.get_decoder().layers.parameters())
    head: int = model.get_output_embeddings().weight.numel()
    answers = usage.requests + usage.rewrites - usage.cache_hits
    passed = usage.prompt_tokens_computed + usage.tokens_decoded - answers
    return 2 * (layers * passed + head * usage.tokens_decoded)


def measure(
    model: Model,
    preset: str,
    goldens: Sequence[Golden],
    shape: PreTrainedModel,
    speed: float,
    clock: Clock,
) -> tuple[Figures, Forwarding]:
    """Scores the pairs once, the model awake and its cache empty."""
    timed = Timed(model, clock)
    judge = Forwarding(PromptJudge(timed, preset), goldens)
    judge.wake()
    start = clock()
    score(judge, goldens)
    seconds = clock() - start
    usage = model.usage
    operations = floor_operations(shape, usage)
    figures = Figures(
        preset, len(goldens), seconds, timed.choosing, timed.writing,
        usage.prompt_tokens_submitted, usage.prompt_tokens_computed, usage.tokens_decoded,
        operations / seconds / 1e12, operations / speed, sum(usage.failures.values()),
    )  # fmt: skip
    return figures, judge


def questions(judge: Forwarding, preset: str, of: Sequence[Golden]) -> list[list[Prompt]]:
    """The prompts of each call that ask about these pairs, in the order of the judge."""
    texts = {golden[side] for golden in of for side in SIDES}
    waves = [
        {prompt(each, preset) for each in wave if each.source.text in texts} for wave in judge.waves
    ]
    return [sorted(wave, key=lambda p: (p.prefix, p.suffix)) for wave in waves if wave]
