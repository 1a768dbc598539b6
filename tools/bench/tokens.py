"""What prompts cost a language model, in tokens, with Qwen's tokenizer and chat form."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from posh_reward.metrics.posh.judges.fake import quoted_words, raw_phrase
from posh_reward.models.base import Prompt
from posh_reward.models.chat import Chat
from posh_reward.models.fake import FakeModel
from posh_reward.types import Reply, Verdict

BLOCK = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """What a model was asked."""

    requests: int
    submitted: int
    """Tokens of all prompts."""
    computed: int
    """Of these, what a prefix cache in blocks of 16 does not hold."""
    computed_to_the_token: int
    """The same with a cache that holds any beginning."""
    decoded: int


def computed_in_blocks(prompts: Iterable[Sequence[int]], block: int = BLOCK) -> int:
    """Tokens computed with a cache of whole blocks, each known by all that leads up to it."""
    held: set[int] = set()
    computed = 0
    for ids in prompts:
        key, found = 0, 0
        for start in range(0, len(ids) - block + 1, block):
            key = hash((key, *ids[start : start + block]))
            found += key in held
            held.add(key)
        computed += len(ids) - found * block
    return computed


def computed_to_the_token(prompts: Sequence[list[int]]) -> int:
    """Tokens computed where any beginning is found again: the nodes of the prompts' trie."""
    in_order = sorted(prompts)
    shared = sum(shared_length(first, second) for first, second in pairwise(in_order))
    return sum(map(len, in_order)) - shared


def shared_length(first: list[int], second: list[int]) -> int:
    """How many tokens two prompts have in common at their beginning."""
    longest = min(len(first), len(second))
    return bisect_left(range(1, longest + 1), True, key=lambda n: first[:n] != second[:n])


class Asked:
    """Prompts and phrases as a model met them."""

    def __init__(self) -> None:
        self.questions: list[Prompt] = []
        self.phrases: list[tuple[Prompt, str]] = []
        """Prompts for rewrites, and the answers."""

    def cost(self, chat: Chat, decoded_for_a_grade: int = 1) -> Cost:
        """In tokens."""
        ids = chat.encode([*self.questions, *(asked for asked, _ in self.phrases)])
        answers = chat.encode([Prompt("", answer) for _, answer in self.phrases])
        (empty,) = chat.encode([Prompt("", "")])
        return Cost(
            requests=len(ids),
            submitted=sum(map(len, ids)),
            computed=computed_in_blocks(ids),
            computed_to_the_token=computed_to_the_token(ids),
            decoded=decoded_for_a_grade * len(self.questions)
            + sum(len(answer) - len(empty) + 1 for answer in answers),
        )


class NotingModel(FakeModel):
    """A fake model that notes the phrases it writes, too."""

    def __init__(self) -> None:
        super().__init__(quoted_words, raw_phrase)
        self.asked = Asked()

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """One verdict per prompt."""
        self.asked.questions.extend(prompts)
        return self.verdicts(prompts, labels)

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """One phrase per prompt."""
        answers = self.rewrites(prompts, max_tokens)
        written = (answer.text or "" for answer in answers)
        self.asked.phrases.extend(zip(prompts, written, strict=True))
        return answers

    def verdicts(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The fake model's."""
        return super().choose(prompts, labels)

    def rewrites(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        """The fake model's."""
        return super().write(prompts, max_tokens)
