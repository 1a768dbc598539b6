"""What a language model is asked in the first steps of a training run, in tokens.

    OMP_NUM_THREADS=1 python tools/bench/training_cost.py GOLDENS.jsonl TOKENIZER_FOLDER

Each step is one call of ``PoSh.score`` with 8 new generations for each of the same 8 references:
sentences of the golden texts, drawn anew each step. A stand-in answers. The prefix cache is empty
at each step, as sleeping empties vLLM's. References are parsed in the first step alone, and a
phrase of theirs is rewritten once; in later steps they still have phrases that were never asked
for: a candidate is only called for once those before it have not settled the matter. With a store
a run that starts again asks nothing that it asked before; it parses the generations.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from posh_reward import PoSh
from posh_reward.graph.coref import load_coref
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from posh_reward.models.base import Prompt
from posh_reward.models.chat import Chat
from posh_reward.store import Store
from posh_reward.types import Request, Verdict
from tools.bench.qwen import qwen_tokenizer
from tools.bench.speed import SENTENCE_END
from tools.bench.tokens import Asked, Cost, NotingModel
from tools.goldens import Golden, load

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from posh_reward.types import Clusters

REFERENCES = 8
GENERATIONS = 8
"""For each reference, in each step."""
STEPS = 3


class CountingCoref:
    """Resolves by rules, and counts the texts: each text that is parsed passes here once."""

    def __init__(self) -> None:
        self._rules = load_coref("rules")
        self.name = self._rules.name
        self.texts = 0

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """The rules'."""
        self.texts += len(docs)
        return self._rules.resolve(docs)


class NotingJudge(PromptJudge):
    """Notes what entities are called in each direction."""

    def __init__(self, model: NotingModel, preset: str, store: Store | None) -> None:
        super().__init__(model, preset, store)
        self.called: dict[str, set[str]] = {"precision": set(), "recall": set()}

    def grade(self, requests: Sequence[Request]) -> list[Verdict]:
        """As any ``PromptJudge``."""
        for request in requests:
            self.called[request.direction].add(request.identifier)
        return super().grade(requests)


def references(goldens: Sequence[Golden]) -> list[Golden]:
    """Goldens with different references, from all parts of the file."""
    distinct = list({each["reference"]: each for each in goldens}.values())
    return distinct[:: max(1, len(distinct) // REFERENCES)][:REFERENCES]


def generations(goldens: Sequence[Golden], index: int, step: int) -> list[str]:
    """New texts for one reference: as many sentences as a golden generation has.

    Most are of the golden's own two texts, some of a neighbour's.
    """
    own, other = goldens[index], goldens[(index + 1) % len(goldens)]
    right = SENTENCE_END.split(own["generation"] + " " + own["reference"])
    wrong = SENTENCE_END.split(other["generation"])
    length = len(SENTENCE_END.split(own["generation"]))
    texts = []
    for number in range(GENERATIONS):
        draw = Random(f"{step}/{index}/{number}")
        pool = right + draw.sample(wrong, min(len(wrong), 2))
        texts.append(" ".join(draw.sample(pool, min(len(pool), length))))
    return texts


@dataclass(frozen=True, slots=True)
class Step:
    """What one step asked for."""

    texts_parsed: int
    cost: Cost
    repeated: int
    """Questions that were asked before, in this step or an earlier one."""
    phrases: int
    """Rewritten in this step."""
    phrases_of_references: int
    """Those that only references needed."""


def steps(
    goldens: Sequence[Golden], preset: str, chat: Chat, store: Store | None = None
) -> Iterator[Step]:
    """Scores step after step with one metric."""
    model, coref = NotingModel(), CountingCoref()
    judge = NotingJudge(model, preset, store)
    posh = PoSh(judge, coref=coref, preset=preset, store=store)
    told = [each["reference"] for each in goldens for _ in range(GENERATIONS)]
    before: set[Prompt] = set()
    for step in range(1, STEPS + 1):
        model.asked, coref.texts = Asked(), 0
        judge.called = {"precision": set(), "recall": set()}
        drawn = [text for i in range(len(goldens)) for text in generations(goldens, i, step)]
        assert all(score.f1 is not None for score in posh.score(drawn, told))
        asked, seen = model.asked, len(before)
        before.update(asked.questions)
        phrases = {text for _, text in asked.phrases}
        yield Step(
            texts_parsed=coref.texts,
            cost=asked.cost(chat),
            repeated=len(asked.questions) - (len(before) - seen),
            phrases=len(phrases),
            phrases_of_references=len(
                phrases & (judge.called["recall"] - judge.called["precision"])
            ),
        )


def line(step: Step, pairs: int) -> str:
    """One step, as people read it."""
    cost = step.cost
    return (
        f"{step.texts_parsed} texts parsed, {cost.requests:,} requests ({step.repeated} asked "
        f"before), {cost.submitted:,} tokens submitted, {cost.computed:,} computed "
        f"({cost.computed / pairs:,.0f} a pair), {cost.decoded:,} decoded, {step.phrases} phrases "
        f"rewritten, {step.phrases_of_references} of them for references alone"
    )


def main() -> None:
    """Prints a line a step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("goldens", type=Path, help="goldens.jsonl")
    parser.add_argument("tokenizer", type=Path, help="folder with vocab.json and merges.txt")
    options = parser.parse_args()
    goldens, chat = references(load(options.goldens)), Chat(qwen_tokenizer(options.tokenizer))
    pairs = len(goldens) * GENERATIONS
    for preset in ("released", "prefix-first"):
        for number, step in enumerate(steps(goldens, preset, chat), 1):
            print(f"{preset}, step {number}: {line(step, pairs)}")
    with TemporaryDirectory() as folder:
        for run in ("with a new store", "once more with that store"):
            first = next(steps(goldens, "released", chat, Store(str(Path(folder) / "store"))))
            print(f"released, step 1, {run}: {line(first, pairs)}")


if __name__ == "__main__":
    main()
