"""The reward in OpenRLHF's own executor, experiences and advantages."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores
from tests.adapters.stand_ins import stand_in

pytestmark = pytest.mark.adapters
PROMPT = "<|im_start|>user\n<image>Describe.<|im_end|>\n<|im_start|>assistant\n"
EXPANDED = PROMPT.replace("<image>", "<|image_pad|>" * 3)
REWARD_FILE = """
from posh_reward.adapters.reward_functions import openrlhf_reward

reward_func = openrlhf_reward("tests.adapters.groups:REWARD", fallback=0.5)
"""


class Characters:
    """A tokenizer of characters; it keeps special tokens, as the executor wants."""

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        import torch

        return {"input_ids": torch.tensor([[ord(each) for each in text]])}

    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(map(chr, ids)).replace(PROMPT, EXPANDED)


class Engine:
    """An engine that says the group's texts."""

    def __init__(self) -> None:
        self.texts = iter(TEXTS)

    async def generate(self, ids: Any, params: Any, **_: Any) -> Any:
        text = next(self.texts) + "<|im_end|>"
        output = SimpleNamespace(
            token_ids=[*map(ord, text)], text=text, finish_reason="stop", logprobs=None
        )
        return SimpleNamespace(outputs=[output])


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    file = tmp_path_factory.mktemp("reward") / "reward.py"
    Path(file).write_text(REWARD_FILE)
    executor, engine = SingleTurnAgentExecutor(str(file)), Engine()
    params = SimpleNamespace(max_tokens=99, logprobs=None)

    async def group() -> Any:
        calls = [
            executor.execute(PROMPT, REFERENCE, params, 999, Characters(), engine) for _ in TEXTS
        ]
        return await asyncio.gather(*calls)

    return asyncio.run(group())


def test_scores_are_those_of_a_direct_call(responses: list[dict[str, Any]]) -> None:
    for response, expected, score in zip(responses, rewards(), scores(), strict=True):
        assert float(response["reward"]) == pytest.approx(0.5 if expected is None else expected)
        assert float(response["extra_logs"]["failed"]) == (expected is None)
        if expected is not None:
            assert float(response["extra_logs"]["posh_recall"]) == pytest.approx(score.recall)


def test_a_failed_row_has_the_advantage_of_the_fallback(responses: list[dict[str, Any]]) -> None:
    import torch

    stand_in("flash_attn", "vllm", "deepspeed")
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    make = SamplesGenerator._process_response_into_experience
    experiences = [make(SimpleNamespace(), response, max_len=999) for response in responses]
    for index, experience in enumerate(experiences):
        experience.index = [index]
        experience.kl = torch.zeros_like(experience.action_mask, dtype=torch.float32)
    assert experiences[0].info["posh_precision"].item() == pytest.approx(scores()[0].precision)
    judged = run(RemoteExperienceMaker, experiences)
    advantages = torch.stack([each.advantages[each.action_mask.bool()][0] for each in judged])
    numbers = torch.tensor([0.5 if each is None else each for each in rewards()])
    assert advantages.tolist() == pytest.approx(
        ((numbers - numbers.mean()) / numbers.std()).tolist(), abs=1e-4
    )
    print(f"advantage of a declared 0.5: {advantages[FAILED]:.2f}")


def run(maker: Any, experiences: list[Any]) -> Any:
    """Advantages by group_norm, without penalties."""
    algo = SimpleNamespace(
        advantage=SimpleNamespace(estimator="group_norm", gamma=1.0, lambd=1.0, no_std_norm=False)
    )
    args = MagicMock(algo=algo, rollout=SimpleNamespace(n_samples_per_prompt=len(experiences)))
    args.reward.clip_range = None
    args.reward.overlong_buffer_len = None
    args.reward.stop_properly_penalty_coef = None
    self = SimpleNamespace(
        strategy=SimpleNamespace(args=args),
        advantage_estimator="group_norm",
        kl_ctl=SimpleNamespace(value=0.0),
        args=args,
    )
    self.get_cumulative_returns = lambda *a: maker.get_cumulative_returns(self, *a)
    return maker.compute_advantages_and_returns(self, experiences)
