"""vLLM's prompts are the trainer's; ``recipes/test_launch_vllm.py`` asks the real vLLM."""

from typing import Any

import pytest

from posh_reward.training.rollouts import CheckedGenerate, PromptMismatchError

PAD, BEGIN, END = 7, 5, 6
PADS = frozenset([PAD])
PROMPT = [1, BEGIN, PAD, PAD, PAD, END, 2]


class Engine:
    """vLLM's treatment of ids and images: each image's first placeholder is expanded."""

    def __init__(self, tokens: int, *, expands: bool = True) -> None:
        self.tokens = tokens
        self.expands = expands
        self.calls = 0

    def generate(self, prompts: list[list[int]], images: Any, **kwargs: Any) -> tuple[Any, ...]:
        self.calls += 1
        seen = [self.expanded(ids) if images and self.expands else ids for ids in prompts]
        return seen, [[9]] * len(prompts), None, None

    def expanded(self, ids: list[int]) -> list[int]:
        first = ids.index(PAD)
        return ids[:first] + [PAD] * self.tokens + ids[first + 1 :]


def rollout(engine: Engine, images: Any = "an image each", times: int = 1) -> Any:
    generate = CheckedGenerate(engine.generate, PADS)
    return [generate([PROMPT] * 2, images, 2) for _ in range(times)][-1]


def test_vllm_uses_the_trainers_prompts() -> None:
    assert rollout(Engine(3))[0] == [PROMPT] * 2
    wrong, *_ = Engine(3).generate([PROMPT], "an image")  # what TRL does without us
    assert wrong[0].count(PAD) == 5


def test_other_prompts_than_the_trainers_stop_the_run() -> None:
    with pytest.raises(PromptMismatchError, match=r"trainer has 7 tokens, 3 of .* vLLM 12, 8 of"):
        rollout(Engine(6))
