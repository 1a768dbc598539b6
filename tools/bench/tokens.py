"""Prompts of a language model, counted in tokens: Qwen's tokenizer and chat markers, no model.

    OMP_NUM_THREADS=1 python -m tools.bench.tokens batch GOLDENS.jsonl TOKENIZER [--json PATH]
    OMP_NUM_THREADS=1 python -m tools.bench.tokens training GOLDENS.jsonl TOKENIZER

batch: the golden pairs in one batch, compared with the release. Recorded answers decide which
questions follow, so the scores must be those of the goldens. *The release* asks about every
candidate each time it comes up, decodes five tokens per grade, and words questions as preset
``released``; its counts are printed next to those of ``release_cost.json`` in the goldens' folder,
if present, to check the counting. *Ours* is ``PromptJudge`` under ``run_batched``, lazily.
*Decisive* is the same with a judge that only answers 1 or 5, *batched* the same in few calls
(``posh.search.Pace``).

training: three calls of ``PoSh.score``, as in training, each with 8 new generations for each of
the same 8 references, made of sentences from the golden texts. A fake model answers; its prefix
cache is empty at each step, as after vLLM's sleep. Then the first step twice with one store.

Computed: tokens missing in an unlimited prefix cache, in blocks of 16 (vLLM) or to the token
(``transformers``). A rewrite decodes its phrase and the token that ends it. Ratios are to the
release's tokens in blocks of 16; lower is better.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from posh_reward import PoSh
from posh_reward.models.chat import Chat
from posh_reward.models.fake_model import make_fake_verdict
from posh_reward.models.model import Prompt
from posh_reward.posh.batch import run_batched
from posh_reward.posh.examine import Examination
from posh_reward.posh.fake_judge import FakeJudge, quoted_words, raw_phrase
from posh_reward.posh.judge import Judge, PromptJudge
from posh_reward.posh.means import harmonic_mean, mean_score
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import Pace
from posh_reward.posh.wording import PRESETS, build_prompt, build_rewrite_prompt
from posh_reward.store import Store
from posh_reward.types import Reply
from tools.bench.prompt_log import Cost, CountingCoref, NotingJudge, NotingModel, PromptLog
from tools.bench.qwen import qwen_tokenizer
from tools.bench.text import SENTENCE_END
from tools.goldens import Golden, Pair, ReplayJudge, both_ways, load, read_golden

RELEASE_DECODES = 5  # tokens that the release decodes for a grade; it reads one of them
REFERENCES_PER_STEP = 8
GENERATIONS_PER_REFERENCE = 8  # in each step
SIMULATED_STEPS = 3


def scores(examined: Sequence[Examination]) -> list[float]:
    """Return precision, recall and F1 of each pair, in one list."""
    means = [mean_score(each.elements) for each in examined]
    failures = [each.failure for each in examined if each.failure]
    assert not failures, failures[0]
    return [
        score or 0.0
        for precision, recall in zip(means[::2], means[1::2], strict=True)
        for score in (precision, recall, harmonic_mean(precision, recall))
    ]


@dataclass(frozen=True, slots=True)
class Release:
    """Results of asking a judge in the release's way."""

    pairs: list[Pair]
    judge: NotingJudge
    scores: list[float]
    cost: Cost

    def model(self, preset: str) -> NotingModel:
        """Make a model that repeats the judge's answers, and fails at any other prompt."""
        verdicts = {
            build_prompt(request, preset): answer for request, answer in self.judge.verdicts
        }
        replies = {build_rewrite_prompt(r, preset): answer for r, answer in self.judge.replies}
        return NotingModel(verdicts.__getitem__, replies.__getitem__)


def as_release(pairs: list[Pair], answering: Judge, chat: Chat) -> Release:
    """Ask everything that the release asks."""
    judge, log = NotingJudge(answering), PromptLog()
    steps = both_ways(pairs, pace="eager")
    examined = run_batched(steps, judge, judge.rewrite)
    log.calls = judge.calls
    log.questions = [build_prompt(request) for request, _ in judge.verdicts]
    log.phrases = [(build_rewrite_prompt(r), answer.text or "") for r, answer in judge.replies]
    return Release(pairs, judge, scores(examined), log.cost(chat, RELEASE_DECODES))


def ours(release: Release, preset: str, chat: Chat, pace: Pace = "lazy") -> dict[str, float]:
    """Ask in our way with the same answers; return costs and the largest score difference."""
    model = release.model(preset)
    judge = PromptJudge(model, preset)
    steps = both_ways(release.pairs, pace=pace)
    examined = run_batched(steps, judge, Rewriter(judge))
    cost = model.log.cost(chat)
    gaps = [abs(a - b) for a, b in zip(scores(examined), release.scores, strict=True)]
    return {
        **asdict(cost),
        "computed_ratio": cost.computed / release.cost.computed,
        "computed_to_the_token_ratio": cost.computed_to_the_token / release.cost.computed,
        "decoded_ratio": cost.decoded / release.cost.decoded,
        "max_score_difference": max(gaps),
    }


def decisive(prompt: Prompt) -> float:
    """Return 5 if at least half of the quoted words are present, else 1."""
    return 5.0 if quoted_words(prompt) >= 3 else 1.0


def releases(goldens: Sequence[Golden], chat: Chat) -> dict[str, Release]:
    """Ask in the release's way: recorded and fake answers."""
    pairs = [read_golden(each) for each in goldens]
    replayed = as_release(pairs, ReplayJudge(*goldens), chat)
    figures = [g["scores"][name] for g in goldens for name in ("precision", "recall", "f1")]

    def fake(grader: Callable[[Prompt], float]) -> Judge:
        return FakeJudge(lambda request: grader(build_prompt(request)))

    return {
        "golden": replace(replayed, scores=figures),
        "golden, decisive": as_release(pairs, fake(decisive), chat),
    }


def print_release(goldens: Path, cost: Cost) -> None:
    """Print the release's cost as counted here and, if known, in its own run."""
    counts = {
        "requests": cost.requests,
        "submitted_tokens": cost.submitted,
        "computed_tokens_block16": cost.computed,
        "trie_tokens": cost.computed_to_the_token,
        "decoded_tokens": cost.decoded,
    }
    file = goldens.parent / "release_cost.json"
    golden = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if golden:
        golden["requests"] = golden["grade_requests"] + golden["rewrite_requests"]
    print("the release:", ", ".join(f"{name} {value:,}" for name, value in counts.items()))
    for name, value in counts.items():
        if name in golden:
            print(f"  {name}: {value / golden[name]:.4f} of {file.name}'s {golden[name]:,}")


def print_ours(name: str, figures: dict[str, Any]) -> None:
    """Print a line of figures."""
    print(
        f"{name}: {figures['calls']} calls, {figures['requests']:,} requests, "
        f"{figures['submitted']:,} submitted, "
        f"{figures['computed']:,} computed ({figures['computed_ratio']:.4f}; to the token "
        f"{figures['computed_to_the_token_ratio']:.4f}), {figures['decoded']:,} decoded "
        f"({figures['decoded_ratio']:.4f}), scores differ by {figures['max_score_difference']:.1e}"
    )


def batch(options: argparse.Namespace) -> None:
    """Compare all presets with the release."""
    goldens, chat = load(options.goldens), Chat(qwen_tokenizer(options.tokenizer))
    release = releases(goldens, chat)
    print_release(options.goldens, release["golden"].cost)
    record: dict[str, dict[str, Any]] = {}
    for preset in PRESETS:
        figures = ours(release["golden"], preset, chat)
        others = ours(release["golden, decisive"], preset, chat)
        batched = ours(release["golden"], preset, chat, "batched")
        record[preset] = {**figures, "decisive": others, "batched": batched}
        print_ours(preset, figures)
        print_ours("  decisive", others)
        print_ours("  batched", batched)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def references(goldens: Sequence[Golden]) -> list[Golden]:
    """Return goldens with different references, from all parts of the file."""
    distinct = list({each["reference"]: each for each in goldens}.values())
    return distinct[:: max(1, len(distinct) // REFERENCES_PER_STEP)][:REFERENCES_PER_STEP]


def generations(goldens: Sequence[Golden], index: int, step: int) -> list[str]:
    """Make new texts for one reference, mostly from sentences of its golden pair."""
    own, other = goldens[index], goldens[(index + 1) % len(goldens)]
    right = SENTENCE_END.split(own["generation"] + " " + own["reference"])
    wrong = SENTENCE_END.split(other["generation"])
    length = len(SENTENCE_END.split(own["generation"]))
    texts = []
    for number in range(GENERATIONS_PER_REFERENCE):
        draw = Random(f"{step}/{index}/{number}")
        pool = right + draw.sample(wrong, min(len(wrong), 2))
        texts.append(" ".join(draw.sample(pool, min(len(pool), length))))
    return texts


@dataclass(frozen=True, slots=True)
class Step:
    """Cost of one step."""

    texts_parsed: int
    cost: Cost
    repeated: int  # questions that were asked before, in this step or an earlier one
    phrases: int  # rewritten in this step
    phrases_of_references: int  # those that only references needed

    def __str__(self) -> str:
        cost, pairs = self.cost, REFERENCES_PER_STEP * GENERATIONS_PER_REFERENCE
        return (
            f"{self.texts_parsed} texts parsed, {cost.requests:,} requests ({self.repeated} asked "
            f"before), {cost.submitted:,} tokens submitted, {cost.computed:,} computed "
            f"({cost.computed / pairs:,.0f} a pair), {cost.decoded:,} decoded, {self.phrases} "
            f"phrases rewritten, {self.phrases_of_references} of them for references alone"
        )


def steps(
    goldens: Sequence[Golden], preset: str, chat: Chat, store: Store | None = None
) -> Iterator[Step]:
    """Score steps with one metric."""
    model = NotingModel(
        lambda each: make_fake_verdict(quoted_words(each)), lambda p: Reply(raw_phrase(p))
    )
    coref, judge = CountingCoref(), NotingJudge(PromptJudge(model, preset, store))
    posh = PoSh(judge, coref=coref, preset=preset, store=store)
    references = [each["reference"] for each in goldens for _ in range(GENERATIONS_PER_REFERENCE)]
    before: set[Prompt] = set()
    for step in range(1, SIMULATED_STEPS + 1):
        log = model.log = PromptLog()
        judge.verdicts, coref.texts = [], 0
        texts = [text for i in range(len(goldens)) for text in generations(goldens, i, step)]
        assert all(score.f1 is not None for score in posh.score(texts, references))
        earlier = len(before)
        before.update(log.questions)
        phrases = {text for _, text in log.phrases}
        by_generations = {r.identifier for r, _ in judge.verdicts if r.direction == "precision"}
        by_references = {r.identifier for r, _ in judge.verdicts if r.direction == "recall"}
        yield Step(
            texts_parsed=coref.texts,
            cost=log.cost(chat),
            repeated=len(log.questions) - (len(before) - earlier),
            phrases=len(phrases),
            phrases_of_references=len(phrases & (by_references - by_generations)),
        )


def training(options: argparse.Namespace) -> None:
    """Print each step's cost for two presets; then the first step with a store, twice."""
    goldens, chat = references(load(options.goldens)), Chat(qwen_tokenizer(options.tokenizer))
    for preset in ("released", "prefix-first"):
        for number, step in enumerate(steps(goldens, preset, chat), 1):
            print(f"{preset}, step {number}: {step}")
    with TemporaryDirectory() as folder:
        for run in ("with a new store", "once more with that store"):
            first = next(steps(goldens, "released", chat, Store(Path(folder) / "store")))
            print(f"released, step 1, {run}: {first}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for command in (batch, training):
        flags = commands.add_parser(command.__name__, help=command.__doc__)
        flags.set_defaults(command=command)
        flags.add_argument("goldens", type=Path, help="goldens.jsonl")
        flags.add_argument("tokenizer", type=Path, help="folder with vocab.json and merges.txt")
        if command is batch:
            flags.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    options.command(options)


if __name__ == "__main__":
    main()
