"""Keep what models and judges are asked, and count it in tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from posh_reward.graph.coref import load_coref
from posh_reward.metrics.posh.judges.judge import Judge
from posh_reward.models.chat import Chat
from posh_reward.models.fake_model import Recorder
from posh_reward.models.model import Prompt
from posh_reward.types import Phrase, Question, Reply, Verdict

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from posh_reward.types import Clusters

BLOCK = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """A model's prompts."""

    calls: int  # one after another: each waits for the answers of the last
    requests: int
    submitted: int  # tokens of all prompts
    computed: int  # those that a prefix cache in blocks of 16 does not hold
    computed_to_the_token: int  # those that a prefix cache of any beginning does not hold
    decoded: int


class PromptLog:
    """The questions and the rewrites that a model or a judge met, in order."""

    def __init__(self) -> None:
        self.questions: list[Prompt] = []
        self.phrases: list[tuple[Prompt, str]] = []  # prompts for rewrites, and the answers
        self.calls = 0  # calls to a model, one after another

    def cost(self, chat: Chat, decoded_for_a_grade: int = 1) -> Cost:
        """All of it, in tokens."""
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


def computed_in_blocks(prompts: Iterable[Sequence[int]], block: int = BLOCK) -> int:
    """Tokens computed with a cache of whole blocks, each known by all that leads up to it."""
    cache: set[int] = set()
    computed = 0
    for ids in prompts:
        key, hits = 0, 0
        for start in range(0, len(ids) - block + 1, block):
            # As vLLM's blocks: the same tokens after another beginning are another block.
            key = hash((key, *ids[start : start + block]))
            hits += key in cache
            cache.add(key)
        computed += len(ids) - hits * block
    return computed


def computed_to_the_token(prompts: Sequence[list[int]]) -> int:
    """Tokens computed where any beginning is found again: the nodes of the prompts' trie."""
    # Sorted, each prompt shares most with the one before it: the rest is new nodes of the trie.
    in_order = sorted(prompts)
    shared = sum(shared_length(first, second) for first, second in pairwise(in_order))
    return sum(map(len, in_order)) - shared


def shared_length(first: list[int], second: list[int]) -> int:
    """Length in tokens of two prompts' common beginning."""
    longest = min(len(first), len(second))
    return bisect_left(range(1, longest + 1), True, key=lambda n: first[:n] != second[:n])


class NotingModel(Recorder):
    """A model that answers each prompt by a function, and logs the prompts."""

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
        """One verdict per prompt."""
        self.log.calls += 1
        self.log.questions.extend(prompts)
        return [self._verdict(each) for each in prompts]

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """One phrase per prompt."""
        self.log.calls += 1
        answers = [self._reply(each) for each in prompts]
        self.log.phrases.extend((p, a.text or "") for p, a in zip(prompts, answers, strict=True))
        return answers


class NotingJudge(Recorder):
    """A judge that answers as another does, and notes each answer as often as it is given."""

    def __init__(self, answering: Judge) -> None:
        super().__init__("noting")
        self.verdicts: list[tuple[Question, Verdict]] = []
        self.replies: list[tuple[Phrase, Reply]] = []
        self.calls = 0
        self._answering = answering

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """The other judge's verdicts."""
        self.calls += 1
        answers = self._answering.grade(requests)
        self.verdicts.extend(zip(requests, answers, strict=True))
        return answers

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """The other judge's phrases."""
        self.calls += 1
        answers = self._answering.rewrite(requests)
        self.replies.extend(zip(requests, answers, strict=True))
        return answers


class CountingCoref:
    """A resolver by rules that counts the texts: each text that is parsed passes here once."""

    def __init__(self) -> None:
        self._rules = load_coref("rules")
        self.name = self._rules.name
        self.texts = 0

    def resolve(self, docs: Sequence[Doc]) -> list[Clusters]:
        """The clusters that the rules find."""
        self.texts += len(docs)
        return self._rules.resolve(docs)
