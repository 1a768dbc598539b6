"""What a language model is asked for a batch of pairs, in tokens, against what the release asks.

    OMP_NUM_THREADS=1 python tools/bench/judge_cost.py GOLDENS.jsonl TOKENIZER_FOLDER [--json PATH]

The golden graphs are examined with the answers that the goldens recorded, so the scores must be
those of the goldens. *The release* is its way of asking: every candidate, each as often as it
comes up, five tokens decoded for a grade, and the wording of preset ``released``. It is counted
first, next to ``release_cost.json`` if that lies beside the goldens, so that the counting can be
seen to agree. *Ours* is the real path, ``PromptJudge`` and ``run_together``, all pairs at once.

Computed tokens: those not found in a prefix cache that forgets nothing, in blocks of 16 (vLLM) or
token by token (the transformers judge). Rewrites decode their phrase and the token that ends it.
Ratios are to the release; both computed ones to its blocks of 16.

*Decisive* is the same with a stand-in judge that answers 1 or 5 only. For preset ``mended`` there
are no golden answers: a stand-in answers, for the release too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from posh_reward.graph.rules.build import build
from posh_reward.metrics.posh.aggregate import harmonic_mean, mean_score
from posh_reward.metrics.posh.examine import Examination, Steps, examine
from posh_reward.metrics.posh.judges.fake import FakeJudge, quoted_words
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from posh_reward.metrics.posh.lockstep import Rewriter, run_together
from posh_reward.metrics.posh.presets import PRESET, PRESETS, prompt, rewrite_prompt
from posh_reward.models.base import Prompt
from posh_reward.models.chat import Chat
from posh_reward.models.fake import between_labels
from posh_reward.types import Description, Reply, Request, RewriteRequest, Verdict
from tools.bench.qwen import qwen_tokenizer
from tools.bench.tokens import Asked, Cost, NotingModel
from tools.goldens import SIDES, Golden, ReplayJudge, expected, load, parsed

Pair = tuple[Description, Description]
"""(Generation, reference)."""
Grade = Callable[[Request], Verdict]
Phrase = Callable[[RewriteRequest], Reply]

RELEASE_DECODES = 5
"""Tokens that the release decodes for a grade, of which it reads one."""


class ReleaseJudge(FakeJudge):
    """Answers as it is told, and notes everything as often as it is asked."""

    def __init__(self, grade: Grade, phrase: Phrase) -> None:
        super().__init__()
        self.verdicts: list[tuple[Request, Verdict]] = []
        self.rewrites: list[tuple[RewriteRequest, Reply]] = []
        self._grade, self._phrase = grade, phrase

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """What it was told."""
        answers = [self._grade(request) for request in requests]
        self.verdicts.extend(zip(requests, answers, strict=True))
        return answers

    def rewrite(self, requests: Sequence[RewriteRequest]) -> list[Reply]:
        """What it was told."""
        answers = [self._phrase(request) for request in requests]
        self.rewrites.extend(zip(requests, answers, strict=True))
        return answers

    def asked(self) -> Asked:
        """What it was asked, in the release's wording."""
        asked = Asked()
        asked.questions = [prompt(request) for request, _ in self.verdicts]
        asked.phrases = [(rewrite_prompt(r), answer.text or "") for r, answer in self.rewrites]
        return asked


class ToldModel(NotingModel):
    """Gives the answers that the release got, by prompt: there are none that it did not ask."""

    def __init__(self, told: ReleaseJudge, preset: str) -> None:
        super().__init__()
        self._verdicts = {prompt(request, preset): answer for request, answer in told.verdicts}
        self._rewrites = {rewrite_prompt(r, preset): answer for r, answer in told.rewrites}

    def verdicts(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The release's."""
        return [self._verdicts[each] for each in prompts]

    def rewrites(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The release's."""
        return [self._rewrites[each] for each in prompts]


def both_ways(pairs: Sequence[Pair], *, lazy: bool) -> list[Steps]:
    """The examinations of all pairs: precision and recall of each."""
    return [
        steps
        for generation, reference in pairs
        for steps in (
            examine(generation, reference, "precision", lazy=lazy),
            examine(reference, generation, "recall", lazy=lazy),
        )
    ]


def scores(examined: Sequence[Examination]) -> list[float]:
    """Precision, recall and F1 of each pair, one after the other."""
    means = [mean_score(each.elements) for each in examined]
    missing = [each.failure for each in examined if each.failure]
    assert not missing, missing[0]
    return [
        score or 0.0
        for precision, recall in zip(means[::2], means[1::2], strict=True)
        for score in (precision, recall, harmonic_mean(precision, recall))
    ]


@dataclass(frozen=True, slots=True)
class Release:
    """The release's way of asking about some pairs, with some judge."""

    pairs: list[Pair]
    judge: ReleaseJudge
    scores: list[float]
    cost: Cost


def as_release(pairs: list[Pair], grade: Grade, phrase: Phrase, chat: Chat) -> Release:
    """Asks everything that the release asks."""
    judge = ReleaseJudge(grade, phrase)
    examined = run_together(both_ways(pairs, lazy=False), judge, judge.rewrite)
    return Release(pairs, judge, scores(examined), judge.asked().cost(chat, RELEASE_DECODES))


def ours(release: Release, preset: str, chat: Chat) -> dict[str, float]:
    """Asks as we do, gets the same answers, and compares."""
    model = ToldModel(release.judge, preset)
    judge = PromptJudge(model, preset)
    examined = run_together(both_ways(release.pairs, lazy=True), judge, Rewriter(judge))
    cost = model.asked.cost(chat)
    gaps = [abs(a - b) for a, b in zip(scores(examined), release.scores, strict=True)]
    return {
        **asdict(cost),
        "computed_ratio": cost.computed / release.cost.computed,
        "computed_to_the_token_ratio": cost.computed_to_the_token / release.cost.computed,
        "decoded_ratio": cost.decoded / release.cost.decoded,
        "max_score_difference": max(gaps),
    }


def golden_pairs(goldens: Sequence[Golden]) -> list[Pair]:
    """The pairs with the release's own scene graphs."""
    told = [[Description(each[side], expected(each, side)) for side in SIDES] for each in goldens]
    return [(generation, reference) for generation, reference in told]


def mended_pairs(goldens: Sequence[Golden]) -> list[Pair]:
    """The pairs with mended scene graphs, from the parses that the release was given."""
    from spacy.vocab import Vocab

    vocab = Vocab()
    told = [
        [Description(g[side], build(*parsed(g, side, vocab), mended=True)) for side in SIDES]
        for g in goldens
    ]
    return [(generation, reference) for generation, reference in told]


def recorded(goldens: Sequence[Golden]) -> tuple[Grade, Phrase]:
    """The answers of the goldens; a failure where there is none."""
    judges = {(each["generation"], each["reference"]): ReplayJudge(each) for each in goldens}
    phrases = {text: answer for g in goldens for text, answer in g["rewrites"].items()}
    rewriting = ReplayJudge({"rewrites": phrases})

    def grade(request: Request) -> Verdict:
        texts = request.source.text, request.target.text
        pair = texts if request.direction == "precision" else texts[::-1]
        return judges[pair].grade([request])[0]

    return grade, lambda request: rewriting.rewrite([request])[0]


def graded_by(grader: Callable[[Prompt], float]) -> Grade:
    """A stand-in judge that reads the released prompt."""
    return lambda request: Verdict(between_labels(grader(prompt(request))))


def decisive(asked: Prompt) -> float:
    """5 if at least half of the quoted words are there, else 1."""
    return 5.0 if quoted_words(asked) >= 3 else 1.0


def plain_phrase(request: RewriteRequest) -> Reply:
    """A stand-in for a fluent phrase."""
    return Reply(f"the {request.text}".replace('"', ""))


def releases(goldens: Sequence[Golden], chat: Chat) -> dict[str, Release]:
    """What the release would be asked: by goldens, mended graphs, and decisive judges."""
    told = golden_pairs(goldens)
    mended = mended_pairs(goldens)
    replayed = as_release(told, *recorded(goldens), chat)
    measured = [g["scores"][name] for g in goldens for name in ("precision", "recall", "f1")]
    return {
        "golden": replace(replayed, scores=measured),
        "golden, decisive": as_release(told, graded_by(decisive), plain_phrase, chat),
        "mended": as_release(mended, graded_by(quoted_words), plain_phrase, chat),
        "mended, decisive": as_release(mended, graded_by(decisive), plain_phrase, chat),
    }


def print_release(goldens: Path, cost: Cost) -> None:
    """The release's cost as counted here, and as counted from its own run."""
    counted = {
        "requests": cost.requests,
        "submitted_tokens": cost.submitted,
        "computed_tokens_block16": cost.computed,
        "trie_tokens": cost.computed_to_the_token,
        "decoded_tokens": cost.decoded,
    }
    file = goldens.parent / "release_cost.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if known:
        known["requests"] = known["grade_requests"] + known["rewrite_requests"]
    print("the release:", ", ".join(f"{name} {value:,}" for name, value in counted.items()))
    for name, value in counted.items():
        if name in known:
            print(f"  {name}: {value / known[name]:.4f} of {file.name}'s {known[name]:,}")


def print_ours(name: str, figures: dict[str, Any]) -> None:
    """One line a preset."""
    print(
        f"{name}: {figures['requests']:,} requests, {figures['submitted']:,} submitted, "
        f"{figures['computed']:,} computed ({figures['computed_ratio']:.4f}; to the token "
        f"{figures['computed_to_the_token_ratio']:.4f}), {figures['decoded']:,} decoded "
        f"({figures['decoded_ratio']:.4f}), scores differ by {figures['max_score_difference']:.1e}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints all figures, and writes those of the presets if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    parser.add_argument("tokenizer", type=Path, help="folder with vocab.json and merges.txt")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    goldens, chat = load(options.goldens), Chat(qwen_tokenizer(options.tokenizer))
    release = releases(goldens, chat)
    print_release(options.goldens, release["golden"].cost)
    written: dict[str, dict[str, Any]] = {}
    for preset in PRESETS:
        whose = "mended" if PRESET[preset].mended else "golden"
        written[preset] = {
            **ours(release[whose], preset, chat),
            "decisive": ours(release[f"{whose}, decisive"], preset, chat),
        }
        print_ours(preset, written[preset])
        print_ours("  decisive", written[preset]["decisive"])
    if options.json:
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
