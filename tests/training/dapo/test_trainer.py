"""Span credit in TRL's loss, and that nothing changes where both extensions are off."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trl import GRPOTrainer

from posh_reward import PoSh, PoshReward
from posh_reward.errors import ConfigError
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.training.dapo.sampling import DynamicSampling
from posh_reward.types import Failure, Question
from tests.training.dapo.tiny import GROUP, make, rows

SAID = ("a red hat and a blue coat", "a red hat", "a green dog with a red hat", "two blue birds")


def posh(**given: Any) -> PoshReward:
    """Things that are red are there; others are not."""

    def grade(request: Question) -> float | Failure:
        words = f"{request.identifier} {request.text}"
        return 5.0 if "red" in words or "hat" in words else 1.0

    return PoshReward(PoSh(FakeJudge(grade)), **given)


class Speaks:
    """Lets a trainer's model say texts of our choice, in turn; cut to one length unless it ends."""

    def __init__(self, trainer: Any, texts: list[str], *, ends: bool = True) -> None:
        tokenizer = trainer.processing_class.tokenizer
        ids = [tokenizer.encode(text) for text in texts]
        length = (max if ends else min)(map(len, ids)) + ends
        fill = [tokenizer.eos_token_id] * length
        self.ids = torch.tensor([(said + fill)[:length] for said in ids])
        trainer.model.generate = self.say

    def say(self, input_ids: torch.Tensor, **named: Any) -> torch.Tensor:
        said = self.ids.repeat(len(input_ids) // len(self.ids) + 1, 1)[: len(input_ids)]
        return torch.cat([input_ids, said], dim=1)


def batch(trainer: Any, texts: list[str], groups: tuple[int, ...] = (0, 1), **how: Any) -> Any:
    Speaks(trainer, texts, **how)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer._generate_and_score_completions(rows(trainer, [*groups]))


def test_details_move_their_tokens_and_the_mean_stays(tiny: Path) -> None:
    plain = batch(make(tiny, reward=posh()), [*SAID])
    trainer = make(tiny, reward=posh(), span_credit=0.5)
    made = batch(trainer, [*SAID])
    mask, advantages = made["completion_mask"], made["advantages"]
    assert advantages.shape == mask.shape
    assert not advantages[mask == 0].any()
    means = advantages.sum(1) / mask.sum(1)
    assert torch.allclose(means, plain["advantages"], atol=1e-5)
    moved = advantages[0] - plain["advantages"][0]
    said = [trainer._decode([token]).strip() for token in made["completion_ids"][0]]
    assert moved[said.index("red")] > 0 > moved[said.index("blue")]
    assert abs(moved[said.index("and")]) < 1e-6
    logged = trainer._metrics["train"]
    assert logged["span_credit/without"] == [0.0]
    assert 0 < logged["span_credit/token_share"][0] < 1


def test_the_loss_takes_the_advantage_of_each_token(tiny: Path) -> None:
    """Contract of TRL: (B, T) advantages that are constant in a row are (B,) advantages."""
    trainer = make(tiny, reward=posh())
    made = batch(trainer, [*SAID])
    flat = trainer.compute_loss(trainer.model, made)
    per_token = made["advantages"].unsqueeze(1) * made["completion_mask"]
    assert torch.equal(flat, trainer.compute_loss(trainer.model, {**made, "advantages": per_token}))
    first = torch.zeros_like(per_token)
    first[0, 1] = 1.0
    loss = trainer.compute_loss(trainer.model, {**made, "advantages": first})
    assert loss.item() == pytest.approx(-1 / made["num_items_in_batch"].item())


def test_credit_follows_its_completion_when_rows_are_shuffled_and_split(tiny: Path) -> None:
    settings: dict[str, Any] = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    trainer = make(tiny, reward=posh(), span_credit=0.5, **settings)
    Speaks(trainer, [*SAID])
    trainer.model.train()
    trainer._prepare_inputs(rows(trainer, [0, 1]))
    slices = trainer._buffered_inputs
    assert [len(each["advantages"]) for each in slices] == [4, 4]
    by_text: dict[tuple[int, ...], torch.Tensor] = {}
    for part in slices:
        for ids, advantages in zip(part["completion_ids"], part["advantages"], strict=True):
            centred = advantages - advantages.sum() / (advantages != 0).sum()
            key = tuple(ids.tolist())
            assert torch.allclose(by_text.setdefault(key, centred), centred, atol=1e-5)
    assert len(by_text) == len(SAID)


def test_truncated_completions_have_no_advantage_at_all(tiny: Path) -> None:
    trainer = make(tiny, reward=posh(), span_credit=0.5, mask_truncated_completions=True)
    made = batch(trainer, [*SAID], ends=False)
    assert not made["advantages"].any()
    assert trainer.compute_loss(trainer.model, made).item() == 0


def test_credit_lands_on_the_chosen_groups(tiny: Path) -> None:
    """With dynamic sampling the scores of the dropped completions go with them."""
    same = ["a red hat"] * GROUP
    other = ["a blue coat", "a red hat and a blue coat", "a red hat", "a dog"]
    sampling = DynamicSampling(2, 1e-6)
    sampled = make(tiny, reward=posh(), span_credit=0.5, dynamic_sampling=sampling)
    chosen = batch(sampled, [*same, *other], (0, 1, 2, 3))
    alone = batch(make(tiny, reward=posh(), span_credit=0.5), other, (1, 3))
    assert torch.equal(chosen["completion_ids"], alone["completion_ids"])
    assert torch.equal(chosen["advantages"], alone["advantages"])


@pytest.mark.parametrize("wrapped", [False, True])
def test_two_rewards_of_one_scoring(tiny: Path, wrapped: bool) -> None:
    """The reward may stand beside another function, or behind a function of its user's."""
    scorer = posh()

    def precision(completions: list[Any], **columns: Any) -> list[float | None]:
        return scorer(completions=completions, **columns)

    def length(completions: list[Any], **columns: Any) -> list[float]:
        return [float(at % 3) for at in range(len(completions))]

    trainer = make(
        tiny, span_credit=0.5, multi_objective_aggregation="normalize_then_sum",
        reward=[length, precision] if wrapped else scorer.functions(length), scored_by=scorer,
    )  # fmt: skip
    made = batch(trainer, [*SAID])
    assert trainer._metrics["train"]["span_credit/without"] == [0.0]
    assert made["advantages"].shape == made["completion_mask"].shape


@pytest.mark.slow
def test_with_both_off_a_run_is_trls_bit_for_bit(tiny: Path) -> None:
    weights = []
    for made in (GRPOTrainer, None):
        given = {"made": made} if made else {"span_credit": 0.0}
        trainer = make(tiny, **given)
        trainer.train()
        weights.append(trainer.model.state_dict())
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())


@pytest.mark.slow
def test_a_run_with_both_learns_and_logs(tiny: Path) -> None:
    trainer = make(
        tiny, reward=PoshReward(), span_credit=0.5, dynamic_sampling=DynamicSampling(2),
        learning_rate=1e-3, mask_truncated_completions=False,
    )  # fmt: skip
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    steps = [line for line in trainer.state.log_history if "reward" in line]
    logged = {"span_credit/token_share", "span_credit/size", "dynamic_sampling/spread_kept"}
    assert logged <= set(steps[0])
    assert any(not torch.equal(before[n], v) for n, v in trainer.model.state_dict().items())


@given(
    loss_type=st.sampled_from(
        ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "luspo", "sapo", "vespo"]
    ),
    importance_sampling_level=st.sampled_from(["token", "sequence"]),
    top_entropy_quantile=st.sampled_from([1.0, 0.5]),
    scale_rewards=st.sampled_from(["group", "batch", "none"]),
    delta=st.sampled_from([None, 1.5]),
    beta=st.sampled_from([0.0, 0.1]),
    num_iterations=st.sampled_from([1, 2]),
    off_policy_mask_threshold=st.sampled_from([None, 0.5]),
    entropy_coef=st.sampled_from([0.0, 0.01]),
)
@settings(max_examples=25)
def test_credit_acts_with_every_setting_that_is_not_refused(tiny: Path, **given: Any) -> None:
    try:
        trainer = make(tiny, reward=posh(), span_credit=0.5, **given)
    except ValueError as error:  # ours, or TRL's, which refuses some, too
        named = [name for name in given if name in str(error)]
        assert named, error  # noqa: PT017
        return
    made = batch(trainer, [*SAID])
    mask = made["completion_mask"]
    mean = (made["advantages"].sum(1) / mask.sum(1)).unsqueeze(1) * mask
    gradients = []
    for advantages in (made["advantages"], mean):
        trainer.model.zero_grad()
        trainer.compute_loss(trainer.model, {**made, "advantages": advantages}).backward()
        gradients.append(torch.cat([
            each.grad.flatten() for each in trainer.model.parameters() if each.grad is not None
        ]))  # fmt: skip
    with_credit, without = gradients
    assert (with_credit - without).norm() > 0.1 * without.norm()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"span_credit": 0.5, "off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold"),
    ({"span_credit": 0.5, "loss_type": "vespo"}, "vespo"),
    ({"span_credit": 0.5, "importance_sampling_level": "sequence"}, "has no effect"),
    ({"span_credit": 0.5, "top_entropy_quantile": 0.5}, "top_entropy_quantile"),
    ({"span_credit": 0.5, "scale_rewards": "none"}, "scale_rewards: none"),
    ({"span_credit": 0.5, "reward": lambda completions, **columns: [1.0]}, "PoshReward"),
    ({"span_credit": -1.0}, "span_credit is -1"),
    ({"dynamic_sampling": DynamicSampling(2), "rollout_func": print}, "has rollout_func"),
]


@pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning")
@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_what_does_not_go_together_is_refused(
    tiny: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tiny, **{"reward": posh(), **settings})
