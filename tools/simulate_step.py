"""Estimate judging's share of a training step on eight GPUs: counted tokens, assumed rates.

    OMP_NUM_THREADS=1 python -m tools.simulate_step GOLDENS.jsonl TOKENIZER [--tflops 790 ...]

Counted: calls, requests, computed and decoded tokens of a GPU's eight pairs: golden pairs with
recorded answers (a fake model answers a cascade's further questions). A step waits for its
slowest GPU, so that GPU's time is reported. Assumed: every rate; each is an argument, and
``--help`` gives the source of its default. **Nothing here was timed on a GPU.** Lower is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from zlib import crc32

from posh_reward.graph.reader import describe_doc
from posh_reward.models.chat import Chat
from posh_reward.models.fake_model import make_fake_verdict
from posh_reward.models.model import Prompt
from posh_reward.posh.batch import run_batched
from posh_reward.posh.cascade import Cascade
from posh_reward.posh.fake_judge import quoted_words, raw_phrase
from posh_reward.posh.judge import Judge, PromptJudge
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import Pace
from posh_reward.posh.wording import build_prompt, build_rewrite_prompt
from posh_reward.types import Question, Reply, Verdict
from tools.bench.prompt_log import Cost, NotingJudge, NotingModel
from tools.bench.qwen import qwen_tokenizer
from tools.goldens import SIDES, Golden, Pair, ReplayJudge, both_ways, load, recorded_parse

PAIRS_PER_GPU = 8  # an effective batch of 64 completions over eight GPUs (paper, A.3.5)
TEXTS = PAIRS_PER_GPU + 1  # a GPU's generations, and the reference that they share in training
TEXT_WORDS = 142  # of a text that takes ``Rates.text_ms``
UNSURE = 0.3  # how far judging and the rest of a step may be off, in opposite directions
EXACT, OPT_IN = 1 / 3, 1 / 6  # goals: largest share of a step for judging


def rate(default: float, source: str) -> float:
    """Make a field of ``Rates`` with a default and its source."""
    value: float = field(default=default, metadata={"source": source})
    return value


@dataclass(frozen=True, slots=True)
class Rates:
    """Assumed speeds of a GPU and its host; times are per GPU."""

    tflops: float = rate(790, "a large bfloat16 product on an H100, in TFLOP/s")
    efficiency: float = rate(
        0.67, "share of it in prefill; the goal of tools.bench.gpu, 1.5 x floor"
    )
    gflop_a_token: float = rate(27, "Qwen3-14B: 2 x 13.2 without embeddings, attention over 600")
    weights_gb: float = rate(29.6, "14.8 billion parameters in bfloat16")
    small_efficiency: float = rate(0.4, "as efficiency, of a distilled judge; assumed")
    doubts: float = rate(0.3, "share of questions that a distilled judge passes on; assumed")
    fp8: float = rate(1.6, "times as fast in prefill as bfloat16: of 2 by the data sheet; assumed")
    decode_gb_s: float = rate(2500, "weights read in decoding: 3/4 of an H100's 3,350 GB/s")
    host_gb_s: float = rate(
        40, "weights from and to pinned host memory, eight GPUs at once; assumed"
    )
    call_ms: float = rate(30, "a call's own wait: pipe, scheduler, one small pass; assumed")
    request_ms: float = rate(0.3, "the engine's work for a request of one token; assumed")
    text_ms: float = rate(57, "the embedded parser, 142 words (research/results/performance.md)")
    processes: float = rate(16, "that parse a GPU's texts: a node of 128 cores has 16 per GPU")
    pair_ms: float = rate(25, "our own 4.9 (research/LOG.md) and tokenising 20")
    embedded_ms: float = rate(22, "a pair's embedded judging (research/results/performance.md)")
    rest_s: float = rate(12.5, "generation, update, weights pushed: 10 to 15 estimated")


@dataclass(frozen=True, slots=True)
class Way:
    """A way of judging."""

    preset: str
    pace: Pace = "batched"
    fp8: bool = False
    cascade: bool = False
    awake: bool = False
    """The judge's weights stay on the GPU (``sleep: false``): 15 GB in FP8, or 3.4 of a 1.7B
    student, on top of generation's 49, of about 79 GB by arithmetic."""
    to_the_token: bool = False
    """Prefixes are shared to the token (``transformers``), not in blocks of 16 (vLLM)."""
    student: str = ""
    """A distilled judge, from ``STUDENTS``, instead of the full one or before it."""
    passes_on: bool = False
    """The student passes questions on to the full judge."""

    @property
    def exact(self) -> bool:
        """True if scores come from the release's wording and the full bfloat16 judge."""
        changed = self.fp8 or self.cascade or bool(self.student)
        return self.preset != "prefix-first" and not changed

    def __str__(self) -> str:
        extra = {
            "FP8": self.fp8,
            "awake": self.awake,
            "cascade": self.cascade,
            "to the token": self.to_the_token,
            self.student: bool(self.student),
            "then 14B": self.passes_on,
        }
        return ", ".join([self.preset, self.pace, *(name for name, has in extra.items() if has)])


WAYS = (
    Way("released", "lazy"),
    Way("released"),
    Way("released", to_the_token=True),
    Way("paper"),
    Way("released", cascade=True),
    Way("released", fp8=True),
    Way("prefix-first"),
    Way("prefix-first", to_the_token=True),
    Way("prefix-first", fp8=True),
    Way("prefix-first", fp8=True, cascade=True),
    Way("prefix-first", fp8=True, cascade=True, awake=True),
    Way("released", to_the_token=True, student="0.6B"),
    Way("released", to_the_token=True, student="1.7B"),
    Way("released", to_the_token=True, student="1.7B", awake=True),
    Way("prefix-first", to_the_token=True, student="0.6B"),
    Way("prefix-first", to_the_token=True, student="1.7B"),
    Way("released", to_the_token=True, student="0.6B", passes_on=True),
    Way("prefix-first", to_the_token=True, student="0.6B", passes_on=True),
    Way("prefix-first", to_the_token=True, student="0.6B", passes_on=True, fp8=True),
)


STUDENTS = {"0.6B": (1.02, 1.19), "1.7B": (2.96, 3.44)}
"""Qwen3's size -> (GFLOP per token, with attention over 600 tokens; GB of weights in bfloat16).

Without embeddings, 0.44 of 0.60 and 1.41 of 1.72 billion parameters count.
"""


@dataclass(frozen=True, slots=True)
class Work:
    """A judge's cost of one GPU's pairs."""

    cost: Cost
    steps: int  # consecutive decoding steps: per call the tokens of its longest phrase
    longest_words: int  # words of the longest text
    first: Work | None = None  # the student's, if it passes questions on


def compute(cost: Cost, way: Way) -> int:
    """Return the tokens that the judge computes."""
    return cost.computed_to_the_token if way.to_the_token else cost.computed


def seconds(work: Work, way: Way, rates: Rates) -> dict[str, float]:
    """Estimate a GPU's seconds of judging, by part."""
    if work.first is not None:  # student and full judge, on texts that are parsed once
        small = seconds(work.first, replace(way, passes_on=False, fp8=False), rates)
        full = seconds(replace(work, first=None), replace(way, student=""), rates)
        return {name: small[name] + full[name] for name in small} | {"texts": small["texts"]}
    if way.student:
        gflop, gb = STUDENTS[way.student]
        rates = replace(
            rates, efficiency=rates.small_efficiency, gflop_a_token=gflop, weights_gb=gb
        )
    size, faster = (0.5, rates.fp8) if way.fp8 else (1.0, 1.0)
    cost, weights = work.cost, rates.weights_gb * size
    speed = rates.tflops * rates.efficiency * faster
    # A text is parsed by one process: with 16, nine texts of 142 words take as long as one, 57 ms.
    longest = work.longest_words / TEXT_WORDS
    parsing = rates.text_ms * max(TEXTS / rates.processes, longest)
    own = parsing + PAIRS_PER_GPU * (rates.pair_ms + way.cascade * rates.embedded_ms)
    moves = 1 if way.to_the_token else 2  # transformers keeps its copy on the host, vLLM does not
    return {
        "prefill": compute(cost, way) * rates.gflop_a_token / speed / 1e3,
        "decoding": work.steps * weights / rates.decode_gb_s,
        "calls": (cost.calls * rates.call_ms + cost.requests * rates.request_ms) / 1e3,
        "wake, sleep": 0.0 if way.awake else moves * weights / rates.host_gb_s,
        "texts": own / 1e3,
    }


class Waiting(NotingModel):
    """Model that gives recorded answers, and notes the longest phrase of each call."""

    def __init__(self, gpu: Sequence[Golden], pairs: Sequence[Pair], way: Way) -> None:
        eager = NotingJudge(ReplayJudge(*gpu))
        run_batched(both_ways(pairs, pace="eager"), eager, eager.rewrite)
        verdicts = {build_prompt(r, way.preset): answer for r, answer in eager.verdicts}
        phrases = {build_rewrite_prompt(r, way.preset): answer for r, answer in eager.replies}

        def verdict(prompt: Prompt) -> Verdict:
            answer = verdicts.get(prompt)
            if answer and answer.failure is None:
                return answer
            return make_fake_verdict(quoted_words(prompt))

        def phrase(prompt: Prompt) -> Reply:
            answer = phrases.get(prompt)
            return answer if answer and answer.text else Reply(raw_phrase(prompt))

        super().__init__(verdict, phrase, few_calls=way.pace == "batched")
        self.longest: list[str] = []

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """Return one phrase per prompt."""
        answers = super().write(prompts, max_tokens)
        self.longest.append(max((answer.text or "" for answer in answers), key=len))
        return answers


class UnsureStudent(PromptJudge):
    """Judge that gives recorded answers, but doubts a share of the questions."""

    def __init__(self, model: Waiting, preset: str, share: float) -> None:
        super().__init__(model, preset)
        self._share = share

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """Return recorded verdicts; where in doubt, absent and explicit are equally likely."""
        verdicts = super().grade(questions)
        places = [
            crc32(build_prompt(each, self.preset).text.encode()) / 2**32 for each in questions
        ]
        return [
            Verdict((0.5, 0.0, 0.0, 0.0, 0.5)) if place < self._share else verdict
            for place, verdict in zip(places, verdicts, strict=True)
        ]


def work(
    gpu: Sequence[Golden], pairs: Sequence[Pair], way: Way, chat: Chat, doubts: float = 0.3
) -> Work:
    """Judge a GPU's pairs in one way, and count; a student passes on a share of ``doubts``."""
    model, student = Waiting(gpu, pairs, way), Waiting(gpu, pairs, way)
    judge: Judge = PromptJudge(model, way.preset)
    judge = Cascade(judge) if way.cascade else judge
    if way.passes_on:
        judge = Cascade(judge, first=UnsureStudent(student, way.preset, doubts), doubt=1.99)
    steps = both_ways(pairs, pace=way.pace)
    run_batched(steps, judge, Rewriter(judge))
    (empty,) = chat.encode([Prompt("", "")])
    longest = chat.encode([Prompt("", text) for text in model.longest])
    words = max(len(golden["parsed"][side]["words"]) for golden in gpu for side in SIDES)
    return Work(
        model.log.cost(chat),
        sum(len(ids) - len(empty) + 1 for ids in longest),
        words,
        Work(student.log.cost(chat), 0, words) if way.passes_on else None,
    )


def gpus(goldens: Sequence[Golden]) -> Iterator[tuple[Sequence[Golden], list[Pair]]]:
    """Yield eight pairs at a time, with descriptions from the release's parses."""
    from spacy.vocab import Vocab

    vocab = Vocab()
    for start in range(0, len(goldens) - PAIRS_PER_GPU + 1, PAIRS_PER_GPU):
        gpu = goldens[start : start + PAIRS_PER_GPU]
        texts = (
            describe_doc(*recorded_parse(golden, side, vocab)) for golden in gpu for side in SIDES
        )
        yield gpu, list(zip(texts, texts, strict=True))  # generation, reference by turns


def line(way: Way, works: Sequence[Work], rates: Rates) -> str:
    """Format one way's figures: those of its slowest GPU."""
    slowest = max(works, key=lambda each: sum(seconds(each, way, rates).values()))
    parts = seconds(slowest, way, rates)
    total, cost = sum(parts.values()), slowest.cost
    share = total / (total + rates.rest_s)
    low, high = (
        total * ours / (total * ours + rates.rest_s * rest)
        for ours, rest in ((1 - UNSURE, 1 + UNSURE), (1 + UNSURE, 1 - UNSURE))
    )
    aim = EXACT if way.exact else OPT_IN
    return (
        f"{way!s:42}{cost.calls:6}{cost.requests:9,}{compute(cost, way):10,}{slowest.steps:7}"
        + "".join(f"{each:13.2f}" for each in parts.values())
        + f"{total:8.2f}{low:8.0%} to {high:.0%}  {'exact' if way.exact else 'opt-in'} aim "
        + f"{aim:.1%}: {'met' if share <= aim else 'not met'}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each way of judging."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    parser.add_argument("tokenizer", type=Path, help="folder with vocab.json and merges.txt")
    for each in fields(Rates):
        words = f"{each.metadata['source']} (default {each.default:g})"
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(flag, type=float, default=each.default, help=words.replace("%", "%%"))
    options = vars(parser.parse_args(arguments))
    goldens, chat = load(options.pop("goldens")), Chat(qwen_tokenizer(options.pop("tokenizer")))
    rates = Rates(**options)
    read = list(gpus(goldens))
    works: dict[tuple[str, Pace, bool, bool], list[Work]] = {}
    parts = ("prefill", "decoding", "calls", "wake, sleep", "texts")
    counts = f"{'calls':>6}{'requests':>9}{'computed':>10}{'steps':>7}"
    timed = "".join(f"{part:>13}" for part in parts)
    print(f"{'seconds of the slowest GPU':42}{counts}{timed}{'judging':>8}{'share':>15}")
    for way in WAYS:
        key = way.preset, way.pace, way.cascade, way.passes_on
        if key not in works:
            works[key] = [work(*gpu, way, chat, rates.doubts) for gpu in read]
        print(line(way, works[key], rates))


if __name__ == "__main__":
    main()
