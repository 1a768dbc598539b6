"""Which groups are kept, and that a step on them is the step of a run that had only them."""

from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from posh_reward.errors import ConfigError
from posh_reward.training.dapo.sampling import (
    DynamicSampling,
    check_sampling,
    choose_groups,
    measure_spreads,
)
from posh_reward.training.dapo.trainer import DapoTrainer
from posh_reward.training.launch import train
from tests.training.dapo.tiny import (
    GROUP,
    ROWS,
    Speaks,
    drawn_settings,
    flat_or_wide,
    gradient,
    make,
    rows,
)

ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("spread", "kept"),
    [
        ([0.2, 0.3, 0.9, 0.8], [0, 1]),  # wide enough: in the order of the data
        ([0.2, 0.0, 0.3, 0.9], [0, 2]),  # a narrow one is replaced by the next wide one
        ([0.01, 0.02, 0.5, 0.03], [1, 2, 3]),  # too few are wide: the widest narrow ones
    ],
)
def test_wide_groups_are_kept(spread: list[float], kept: list[int]) -> None:
    assert choose_groups(torch.tensor([spread]), len(kept), 0.1)[0].tolist() == kept


def test_a_completion_without_a_reward_is_left_out() -> None:
    with_it = measure_spreads(torch.tensor([[[0.2], [nan], [0.4]]]), ONE)
    assert with_it.tolist() == measure_spreads(torch.tensor([[[0.2], [0.4]]]), ONE).tolist()


def test_two_rewards_that_cancel_out_differ_only_if_each_is_normalised() -> None:
    opposed = torch.tensor([[[0.2, 0.4], [0.4, 0.2]]])
    weights = torch.tensor([1.0, 1.0])
    assert measure_spreads(opposed, weights).item() == pytest.approx(0, abs=1e-6)
    assert measure_spreads(opposed, weights, each_normalised=True).item() == pytest.approx(
        0.02**0.5
    )


SAID = ["a red hat", "a green dog", "two blue birds", "a red hat and a blue coat"]


@given(drawn=drawn_settings())
@settings(max_examples=3)
def test_a_chosen_batch_is_the_batch_of_its_groups_alone(tiny: Path, drawn: dict[str, Any]) -> None:
    """Images, masks, advantages, log-probabilities, the normaliser of the loss, its gradient."""
    batches, gradients = [], []
    for kind, own, groups in (
        (DapoTrainer, {"dynamic_sampling": DynamicSampling(2)}, [0, 1, 2, 3]),
        (GRPOTrainer, {}, [1, 2]),
    ):
        trainer = make(tiny, kind, reward=flat_or_wide((0, 3)), **drawn, **own)
        Speaks(trainer, SAID, cut=True)
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        batch = trainer._generate_and_score_completions(rows(trainer, groups))
        loss = trainer.compute_loss(trainer.model, batch)
        loss.backward()
        batches.append({n: v.tolist() if torch.is_tensor(v) else v for n, v in batch.items()})
        gradients.append([loss.detach(), *gradient(trainer.model)])
    assert batches[0] == batches[1]
    assert batches[0].keys() >= {"pixel_values", "num_items_in_batch", "advantages"}
    assert all(map(torch.equal, *gradients))


def test_a_run_trains_on_wide_groups_and_says_so(tiny: Path) -> None:
    trainer = make(
        tiny, reward=flat_or_wide((0, 3, 5)), dynamic_sampling=DynamicSampling(2),
        log_completions=True, num_completions_to_print=0, shuffle_dataset=False,
    )  # fmt: skip
    trainer.train()
    steps = [line for line in trainer.state.log_history if "reward" in line]
    assert [line["dynamic_sampling/groups_dropped"] for line in steps] == [2, 2]
    assert [line["dynamic_sampling/narrow_generated"] for line in steps] == [2, 1]
    assert [line["dynamic_sampling/narrow_kept"] for line in steps] == [0, 0]
    kept, dropped = (steps[0][f"dynamic_sampling/spread_{name}"] for name in ("kept", "dropped"))
    assert kept > dropped
    assert all(line["frac_reward_zero_std"] == 0 for line in steps)
    # 8 images, 4 of them generated for a step: an epoch is two steps, not four.
    assert [line["epoch"] for line in steps] == [0.5, 1.0]


REFILL = DynamicSampling(4, refill=True)


def counted(flat: tuple[int, ...], calls: list[list[int]]) -> Any:
    """A reward that notes the images of each call, of which some groups are flat."""
    tell = flat_or_wide(flat)

    def reward(completion_ids: Any, index: list[int], **columns: Any) -> list[float | None]:
        calls.append(sorted(set(index)))
        values: list[float | None] = tell(completion_ids=completion_ids, index=index)
        return values

    return reward


@pytest.mark.parametrize(
    ("flat", "calls"),
    [
        ((), [[0, 1]]),
        ((0,), [[0, 1], [2]]),
        ((0, 1, 2), [[0, 1], [2, 3], [4]]),
        (tuple(range(8)), [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ],
)
def test_only_what_is_needed_is_generated_again(
    tiny: Path, flat: tuple[int, ...], calls: list[list[int]]
) -> None:
    """Two wide groups are wanted, of eight at most."""
    seen: list[list[int]] = []
    trainer = make(tiny, reward=counted(flat, seen), dynamic_sampling=REFILL)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows(trainer, [*range(8)]))
    assert seen == calls
    assert len(batch["completion_ids"]) == ROWS
    generated = sum(map(len, calls))
    assert trainer._metrics["train"]["dynamic_sampling/groups_generated"] == [generated]


@pytest.mark.slow
def test_each_image_is_drawn_once_an_epoch_whatever_is_dropped(tiny: Path) -> None:
    seen: list[int] = []

    def reward(completions: list[Any], index: list[int], **columns: Any) -> list[float]:
        seen.extend(index)
        return [float(at) for at in range(len(completions))]

    trainer = make(
        tiny, reward=reward, dynamic_sampling=DynamicSampling(2), per_device_train_batch_size=4,
        gradient_accumulation_steps=2, num_iterations=2, max_steps=4,
    )  # fmt: skip
    trainer.train()
    assert len(seen) == 8 * GROUP
    assert set(seen) == set(range(8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kind", "options"),
    [
        (4, GRPOTrainer, {}),
        (5, GRPOTrainer, {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}),
        (3, DapoTrainer, {"dynamic_sampling": DynamicSampling(2, 0.05, refill=True)}),
        (11, GRPOTrainer, {"num_iterations": 2, "max_steps": 14}),
    ],
)
def test_a_run_resumed_in_its_second_epoch_goes_on_in_the_order_of_that_epoch(
    tiny: Path, tmp_path: Path, step: int, kind: Any, options: dict[str, Any]
) -> None:
    """An epoch is four steps; two if oversampled, eight if each batch is used twice."""
    drawn: dict[int, list[int]] = {}

    def reward(index: list[int], trainer_state: Any, **columns: Any) -> list[float | None]:
        drawn.setdefault(trainer_state.global_step, []).extend(index)
        rewards: list[float | None] = flat_or_wide((2, 3))(index=index, **columns)
        return rewards

    settings: dict[str, Any] = {
        "made": kind, "reward": reward, "output_dir": str(tmp_path), "max_steps": 7,
        "save_steps": 1, "save_strategy": "steps",
    }  # fmt: skip
    make(tiny, **settings | options).train()
    whole = dict(drawn)
    drawn.clear()
    checkpoint = str(tmp_path / f"checkpoint-{step}")
    train(make(tiny, **settings | options, resume_from_checkpoint=checkpoint))
    # After step 11 the batch of step 10 is generated again.
    again = {at if at in whole else at - 1: indices for at, indices in drawn.items()}
    assert again == {at: indices for at, indices in whole.items() if at >= min(again)}


@pytest.mark.slow
def test_an_unjudged_group_is_replaced(tiny: Path) -> None:
    judged = flat_or_wide()

    def reward(completion_ids: Any, index: list[int], **columns: Any) -> list[float | None]:
        values = judged(completion_ids=completion_ids, index=index)
        return [None if at in (1, 2) else value for at, value in zip(index, values, strict=True)]

    trainer = make(tiny, reward=reward, dynamic_sampling=DynamicSampling(2))
    trainer.model.train()
    trainer._generate_and_score_completions(rows(trainer, [0, 1, 2, 3]))
    assert not torch.tensor(trainer._logs["advantages"]).eq(0).any()


@pytest.mark.slow
def test_evaluation_is_left_alone(tiny: Path) -> None:
    trainer = make(tiny, dynamic_sampling=DynamicSampling(2))
    trainer.model.eval()
    batch = trainer._generate_and_score_completions(rows(trainer, [0, 1]))
    assert len(batch["completion_ids"]) == 2 * GROUP
    assert not any("dynamic" in name for name in trainer._metrics["eval"])


def test_a_group_that_would_straddle_ranks_is_refused() -> None:
    args = SimpleNamespace(per_device_train_batch_size=4, steps_per_generation=3)
    trainer: Any = SimpleNamespace(args=args, num_generations=8, train_dataset=[])
    with pytest.raises(ConfigError, match=r"generates 12 .* groups of 8: make that a multiple"):
        check_sampling(trainer, DynamicSampling(2))


def mixed(trainer: Any, kinds: str, column: str) -> list[dict[str, Any]]:
    """Groups of rows with one image (i), two (d), or none (n: None, e: an empty list)."""
    found: list[dict[str, Any]] = []
    for row, kind in zip(trainer.train_dataset, kinds, strict=False):
        image = row.pop("image")
        images = {"i": [image], "d": [image, image], "n": None, "e": []}[kind]
        value = images if column == "images" else image if images else None
        found += [{**row, column: value} for _ in range(GROUP)]
    return found


@pytest.fixture(scope="module")
def greedy(tiny: Path) -> tuple[Any, Any, set[int]]:
    """Ours and TRL's trainer, which say the same to the same prompt, and the flat groups."""
    flat: set[int] = set()

    def reward(index: list[int], **columns: Any) -> list[float | None]:
        return [0.5 if i in flat else at % GROUP / GROUP for at, i in enumerate(index)]

    settings: dict[str, Any] = {"reward": reward, "top_k": 1, "scale_rewards": "batch"}
    ours = make(tiny, dynamic_sampling=DynamicSampling(2), **settings)
    trl = make(tiny, GRPOTrainer, **settings)
    for trainer in (ours, trl):
        trainer.model.train()
    return ours, trl, flat


def outcome(trainer: Any, drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """The batch that a trainer makes of rows, and its figures; or the error that it raises."""
    trainer._metrics["train"].clear()
    try:
        made: dict[str, Any] = trainer._generate_and_score_completions(drawn)
    except TypeError as error:  # TRL's: image processors refuse some mixtures
        return {"error": str(error)}
    own = ("dynamic_sampling", "judging", "num_tokens")
    logged = {n: v for n, v in trainer._metrics["train"].items() if not n.startswith(own)}
    return {n: v.tolist() if torch.is_tensor(v) else v for n, v in (made | logged).items()}


@given(
    kinds=st.text("idne", min_size=4, max_size=4),
    column=st.sampled_from(["image", "images"]),
    dropped=st.sets(st.integers(0, 3), max_size=3),
    refill=st.booleans(),
)
@settings(max_examples=4)
@example("iiee", "images", {0, 1}, False)  # those chosen have no image
@example("eiie", "images", {0, 3}, True)  # the second round has an image where the first has none
@example("iidi", "images", {1}, True)
@example("niin", "image", {0}, True)
def test_a_replay_is_what_trl_makes_of_the_chosen_rows(
    greedy: tuple[Any, Any, set[int]], kinds: str, column: str, dropped: set[int], refill: bool
) -> None:
    """Nothing is sampled here, so TRL generates what ours replays; NaN equals nothing."""
    ours, trl, flat = greedy
    flat.clear()
    flat |= dropped
    ours.dynamic_sampling = DynamicSampling(2, refill=refill)
    kept = sorted(sorted(range(4), key=lambda at: at in dropped)[:2])
    replayed = outcome(ours, mixed(ours, kinds, column))
    rows_kept = mixed(trl, kinds, column)
    alone = outcome(trl, [row for row in rows_kept if row["index"] in kept])
    assert replayed == alone


def test_vllm_decodes_all_completions_of_a_call_at_once(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: None)  # as if it had started

    def at_once(sampling: DynamicSampling | None) -> int:
        trainer = make(tiny, starts_vllm=True, vllm_mode="colocate", dynamic_sampling=sampling)
        size: int = trainer.vllm_generation.max_num_seqs
        return size

    plain = make(tiny, GRPOTrainer, starts_vllm=True, vllm_mode="colocate").vllm_generation
    assert at_once(None) == plain.max_num_seqs == ROWS
    assert at_once(DynamicSampling(3)) == 3 * ROWS
    assert at_once(DynamicSampling(3, refill=True)) == ROWS, "in rounds"
