"""Span credit in TRL's loss, and that nothing changes where both extensions are off."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trl import GRPOConfig, GRPOTrainer

from posh_reward import PoSh, PoshReward
from posh_reward.errors import ConfigError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.training.dapo.credit import check_span_credit
from posh_reward.training.dapo.sampling import DynamicSampling
from posh_reward.types import Failure, Question
from tests.training.dapo.tiny import GROUP, Speaks, drawn_settings, gradient, make, rows

SAID = ("a red hat and a blue coat", "a red hat", "a green dog with a red hat", "two blue birds")


def posh(**given: Any) -> PoshReward:
    """Things that are red are there; others are not."""

    def grade(request: Question) -> float | Failure:
        words = f"{request.identifier} {request.text}"
        return 5.0 if "red" in words or "hat" in words else 1.0

    return PoshReward(PoSh(FakeJudge(grade)), **given)


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
    said = [trainer._decode_text([token]).strip() for token in made["completion_ids"][0]]
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
    made = batch(trainer, ["a red hat", "a red coat", "a blue hat", "a blue coat"], cut=True)
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


CONFLICTS: dict[str, list[Any]] = {
    "loss_type": ["cispo", "luspo", "sapo", "vespo"],
    "importance_sampling_level": ["sequence"],
    "scale_rewards": ["none"],
    "top_entropy_quantile": [0.5],
    "off_policy_mask_threshold": [0.5],
    "vllm_importance_sampling_mode": ["token_mask"],
}
"""Settings that span credit does not go with; with all others it does what it promises."""


@given(drawn=drawn_settings(CONFLICTS))
@settings(max_examples=3)
def test_credit_acts_and_keeps_the_mean_with_all_other_settings(
    tiny: Path, drawn: dict[str, Any]
) -> None:
    plain = make(tiny, GRPOTrainer, reward=posh(), **drawn)
    expected = batch(plain, [*SAID], cut=True)
    trainer = make(tiny, reward=posh(), span_credit=0.5, **drawn)
    made = batch(trainer, [*SAID], cut=True)
    mask = made["completion_mask"]
    kept = mask.any(1)  # TRL masks truncated completions if told to
    mean = made["advantages"].sum(1)[kept] / mask.sum(1)[kept]
    assert torch.allclose(mean, expected["advantages"][kept], atol=1e-5)
    gradients = []
    for each, with_batch in ((plain, expected), (trainer, made)):
        each.compute_loss(each.model, with_batch).backward()
        gradients.append(torch.cat([g.flatten() for g in gradient(each.model)]))
    without, with_credit = gradients
    # Rounding alone makes 1e-7, as with a setting by which credit cancels out.
    assert (with_credit - without).norm() > 1e-3 * without.norm()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in CONFLICTS.items() for v in vs])
@given(data=st.data())
@settings(max_examples=3)
def test_what_credit_does_not_go_with_is_refused(name: str, value: Any, data: Any) -> None:
    drawn = data.draw(drawn_settings(CONFLICTS))
    drawn |= {"use_vllm": True, "vllm_importance_sampling_correction": True}
    if value == "vespo":
        drawn["vllm_importance_sampling_mode"] = "token_truncate"
    args = GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **drawn | {name: value})
    with pytest.raises(ConfigError, match=f"{name} {value!r}"):
        check_span_credit(0.5, args)
    check_span_credit(0.0, args)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"span_credit": 0.5, "off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold"),
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
