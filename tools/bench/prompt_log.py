"""Logs of the prompts of models and judges, counted in tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from posh_reward.graph.coreference import load_coref
from posh_reward.models.chat import Chat
from posh_reward.models.fake_model import Recorder
from posh_reward.models.model import Prompt
from posh_reward.posh.judge import Judge
from posh_reward.types import Phrase, Question, Reply, Verdict

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from posh_reward.types import Clusters

TOKENS_PER_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a model's prompts."""

    calls: int  # each waits for the answers to the one before
    requests: int
    submitted: int  # tokens of all prompts
    computed: int  # tokens missing in a prefix cache with blocks of 16
    computed_to_the_token: int  # tokens missing in a prefix cache of any length
    decoded: int


class PromptLog:
    """Questions and rewrites sent to a model or a judge, in order."""

    def __init__(self) -> None:
        self.questions: list[Prompt] = []
        self.phrases: list[tuple[Prompt, str]] = []  # prompts for rewrites, and the answers
        self.calls = 0  # calls to a model, one after another

    def cost(self, chat: Chat, decoded_for_a_grade: int = 1) -> Cost:
        """Count the log in tokens."""
        ids = chat.encode([*self.questions, *(prompt for prompt, _ in self.phrases)])
        answers = chat.encode([Prompt("", answer) for _, answer in self.phrases])
        (empty,) = chat.encode([Prompt("", "")])
        return Cost(
            calls=self.calls,
            requests=len(ids),
            submitted=sum(map(len, ids)),
            computed=computed_in_blocks(ids),
            computed_to_the_token=computed_to_the_token(ids),
            decoded=decoded_for_a_grade * len(self.questions)
            + sum(len(answer) - len(empty) + 1 for answer in answers),
        )


def computed_in_blocks(prompts: Iterable[Sequence[int]], block: int = TOKENS_PER_BLOCK) -> int:
    """Count tokens computed with a cache of whole blocks, keyed by block and all before it."""
    cache: set[int] = set()
    computed = 0
    for ids in prompts:
        key, hits = 0, 0
        for start in range(0, len(ids) - block + 1, block):
            # As in vLLM, equal tokens after a different beginning are a different block.
            key = hash((key, *ids[start : start + block]))
            hits += key in cache
            cache.add(key)
        computed += len(ids) - hits * block
    return computed


def computed_to_the_token(prompts: Sequence[list[int]]) -> int:
    """Count tokens computed if every shared beginning is cached: nodes of the prompts' trie."""
    # When sorted, each prompt shares most with the one before; the rest is new nodes of the trie.
    in_order = sorted(prompts)
    shared = sum(shared_length(first, second) for first, second in pairwise(in_order))
    return sum(map(len, in_order)) - shared


def shared_length(first: list[int], second: list[int]) -> int:
    """Return the length of two prompts' common beginning, in tokens."""
    longest = min(len(first), len(second))
    return bisect_left(range(1, longest + 1), True, key=lambda n: first[:n] != second[:n])


class NotingModel(Recorder):
    """Model that answers each prompt by a function, and logs the prompts."""

    sees = False

    def __init__(
        self,
        verdict: Callable[[Prompt], Verdict],
        reply: Callable[[Prompt], Reply],
        *,
        few_calls: bool = False,
    ) -> None:
        super().__init__("noting")
        self.few_calls = few_calls
        self.log = PromptLog()
        self._verdict, self._reply = verdict, reply

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """Return one verdict per prompt."""
        self.log.calls += 1
        self.log.questions.extend(prompts)
        return [self._verdict(each) for each in prompts]

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """Return one phrase per prompt."""
        self.log.calls += 1
        answers = [self._reply(each) for each in prompts]
        self.log.phrases.extend((p, a.text or "") for p, a in zip(prompts, answers, strict=True))
        return answers


class NotingJudge(Recorder):
    """Judge that passes on another judge's answers, and logs every one."""

    def __init__(self, answering: Judge) -> None:
        super().__init__("noting")
        self.verdicts: list[tuple[Question, Verdict]] = []
        self.replies: list[tuple[Phrase, Reply]] = []
        self.calls = 0
        self._answering = answering

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the other judge's verdicts."""
        self.calls += 1
        answers = self._answering.grade(requests)
        self.verdicts.extend(zip(requests, answers, strict=True))
        return answers

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Return the other judge's phrases."""
        self.calls += 1
        answers = self._answering.rewrite(requests)
        self.replies.extend(zip(requests, answers, strict=True))
        return answers


class CountingCoref:
    """Resolver by rules that counts texts; each parsed text comes here once."""

    def __init__(self) -> None:
        self._rules = load_coref("rules")
        self.name = self._rules.name
        self.texts = 0

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """Return the clusters that the rules find."""
        self.texts += len(docs)
        return self._rules.resolve(docs)
