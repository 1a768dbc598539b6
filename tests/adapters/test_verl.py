"""The reward in verl's own reward loop, and in its advantages."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from posh_reward import PoshReward, Shaping
from tests.adapters.groups import FAILED, METRIC, REFERENCE, TEXTS, rewards, scores
from tests.adapters.two_objectives import CASES, GROUPS, JUDGED, LENGTHS, WEIGHTS

pytestmark = pytest.mark.adapters
NAME = "tests.adapters.groups:REWARD"
SEPARATE = PoshReward(METRIC, Shaping("separate"))
AXES = ["posh_precision_reward", "posh_recall_reward"]


class Characters:
    """A tokenizer of characters, since none can be downloaded here."""

    pad_token_id = 0

    def encode(self, text: str) -> list[int]:
        return [ord(each) for each in text]

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        return "".join(chr(each) for each in ids if each)


def batch(texts: list[str]) -> Any:
    """A group with padded responses, as verl hands it to its reward manager."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    ids = [Characters().encode(text) for text in texts]
    width = max(map(len, ids))
    responses = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    prompts = torch.ones((len(texts), 2), dtype=torch.long)
    mask = torch.cat([prompts, (responses != 0).long()], 1)
    rows = TensorDict(
        {"prompts": prompts, "responses": responses, "attention_mask": mask}, batch_size=len(texts)
    )
    columns = {
        "data_source": ["posh"] * len(texts),
        "reward_model": [{"ground_truth": REFERENCE}] * len(texts),
        "extra_info": [{"index": 0} for _ in texts],
        "uid": ["a"] * len(texts),
    }
    return DataProto(rows, {k: np.array(v, dtype=object) for k, v in columns.items()})


def config(**kwargs: Any) -> Any:
    from omegaconf import OmegaConf

    manager = {"source": "register", "name": "naive"}
    custom = {
        "path": "pkg://posh_reward.adapters.verl",
        "name": "compute_score_async",
        "reward_kwargs": kwargs,
    }
    return OmegaConf.create(
        {"reward": {"custom_reward_function": custom, "reward_manager": manager}}
    )


def outcomes(data: Any, **kwargs: Any) -> list[Any]:
    """Through verl's loader and manager, all samples at once, as its worker does."""
    from verl.trainer.ppo.reward import load_reward_manager

    async def run() -> list[Any]:
        settings = config(**{"reward": NAME, **kwargs})
        manager = load_reward_manager(settings, Characters())
        manager.loop = asyncio.get_running_loop()
        calls = [manager.run_single(data[i : i + 1]) for i in range(len(data))]
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(run())


def advantages(values: list[float], data: Any) -> list[float]:
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    table = torch.tensor(values)[:, None]
    result, _ = compute_grpo_outcome_advantage(
        table, torch.ones_like(table), data.non_tensor_batch["uid"]
    )
    return [float(each) for each in result[:, 0]]


def test_scores_are_those_of_a_direct_call() -> None:
    results = outcomes(batch(TEXTS), fallback=0.5)
    for result, expected, score in zip(results, rewards(), scores(), strict=True):
        extra = result["reward_extra_info"]
        assert result["reward_score"] == (0.5 if expected is None else expected)
        assert extra["failed"] == (expected is None)
        if expected is not None:
            assert extra["posh_precision"] == score.precision
    assert len({tuple(each["reward_extra_info"]) for each in results}) == 1


def test_without_a_fallback_a_failed_row_is_left_out_of_its_group() -> None:
    """verl's trainer goes on with the sessions of a prompt that did not raise."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import AdvantageEstimator
    from verl.trainer.ppo.v1.agent_loop_tq import _settle_session_tasks
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    data = batch(TEXTS)
    results = outcomes(data)

    async def session(result: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async def settled() -> Any:
        return await _settle_session_tasks([asyncio.create_task(session(r)) for r in results])

    [error] = asyncio.run(settled())
    assert "could not be judged" in str(error)
    rest = [i for i in range(len(TEXTS)) if i != FAILED]
    values = [results[i]["reward_score"] for i in rest]
    assert values == [each for each in rewards() if each is not None]
    rows = data.select_idxs(rest)
    rows.batch["response_mask"] = (rows.batch["responses"] != 0).long()
    table = rows.batch["response_mask"] * 0.0
    table[:, 0] = table.new_tensor(values)
    rows.batch["token_level_rewards"] = table
    rows = compute_advantage_for_multi_trajectories(
        rows, [f"a_{i}_0" for i in rest], AdvantageEstimator.GRPO, config=OmegaConf.create({})
    )
    remaining = rows.batch["advantages"][:, 0].tolist()
    assert sum(remaining) == pytest.approx(0, abs=1e-5)
    assert remaining == pytest.approx(advantages(values, rows))
    declared = advantages([*values[:FAILED], 0.5, *values[FAILED:]], data)
    print(f"advantages of the others {remaining}; of a declared 0.5: {declared[FAILED]:.2f}")


def two_objectives(rows: list[list[float] | None], fields: bool = True) -> Any:
    """Rows as the trainer has them before ``compute_advantage``; its own trainer lacks fields."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    width = max(LENGTHS)
    mask = torch.tensor([[1] * length + [0] * (width - length) for length in LENGTHS])
    prompts = torch.ones((len(rows), 2), dtype=torch.long)
    tensors = {"response_mask": mask, "token_level_rewards": mask * 0.0}
    columns: dict[str, list[Any]] = {"uid": GROUPS}
    if fields:
        tensors |= {"prompts": prompts, "attention_mask": torch.cat([prompts, mask], 1)}
        columns["failed"] = [float(row is None) for row in rows]
        for place, name in enumerate(AXES):
            columns[name] = [0.5 if row is None else row[place] for row in rows]
    return DataProto(
        TensorDict(tensors, batch_size=len(rows)),
        {k: np.array(v, dtype=object) for k, v in columns.items()},
    )


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_its_advantages_of_two_objectives_are_trls(
    rows: list[list[float] | None], expected: list[float]
) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, compute_gdpo_outcome_advantage
    from verl.trainer.ppo.ray_trainer import compute_advantage

    from posh_reward.adapters.verl import separate_advantage

    settings = OmegaConf.create({"gdpo_reward_keys": AXES, "gdpo_reward_weights": WEIGHTS})

    def first_tokens() -> list[float]:
        data = compute_advantage(two_objectives(rows), adv_estimator="gdpo", config=settings)
        assert (data.batch["advantages"] * (1 - data.batch["response_mask"])).sum() == 0
        return [float(each) for each in data.batch["advantages"][:, 0]]

    assert ADV_ESTIMATOR_REGISTRY["gdpo"] is separate_advantage
    assert first_tokens() == pytest.approx(expected, abs=1e-4)
    ADV_ESTIMATOR_REGISTRY["gdpo"] = compute_gdpo_outcome_advantage
    own = first_tokens()
    ADV_ESTIMATOR_REGISTRY["gdpo"] = separate_advantage
    print(f"verl's own: {[round(each, 4) for each in own]}")
    assert max(abs(a - b) for a, b in zip(own, expected, strict=True)) > 0.05


def test_its_default_trainer_has_no_rewards_by_axis() -> None:
    """If this fails, docs/adapters.md may drop the legacy trainer."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    settings = OmegaConf.create({"gdpo_reward_keys": AXES})
    with pytest.raises(KeyError, match=AXES[0]):
        compute_advantage_for_multi_trajectories(
            two_objectives(JUDGED, fields=False), ["a_0_0"] * 8, "gdpo", config=settings
        )


def test_two_objectives_are_keys_of_the_score() -> None:
    name = f"{__name__}:SEPARATE"
    data = batch(TEXTS)
    found = outcomes(data, reward=name, separate=True, fallback=0.5)
    direct = SEPARATE.rewards_of(scores())
    for at, each in enumerate(found):
        extra = each["reward_extra_info"]
        if at != FAILED:
            values = [direct["posh_precision"][at], direct["posh_recall"][at]]
            assert [extra[axis] for axis in AXES] == values
            assert each["reward_score"] == pytest.approx(sum(values) / 2)  # type: ignore[arg-type]
    assert [found[FAILED]["reward_extra_info"][axis] for axis in AXES] == [0.5, 0.5]
    assert found[FAILED]["reward_extra_info"]["failed"] == 1
    [error, *_] = outcomes(data, reward=name)
    assert "choose objective f1 or weighted" in str(error)


def test_the_settings_in_the_docs_are_verls() -> None:
    from importlib.resources import files

    from hydra import compose, initialize_config_dir
    from verl.utils.config import omega_conf_to_dataclass

    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    commands = " ".join(line for line in page.splitlines() if line.startswith("    "))
    flags = re.findall(r"(\+?(?:trainer|algorithm|reward)\.[\w.]+=[^\s']+)", commands)
    assert len(flags) == 7
    with initialize_config_dir(str(files("verl") / "trainer" / "config"), version_base=None):
        settings = compose("ppo_trainer", overrides=flags)
    assert omega_conf_to_dataclass(settings.algorithm).gdpo_reward_keys == AXES
    kwargs = settings.reward.custom_reward_function.reward_kwargs
    assert (kwargs.separate, kwargs.fallback) == (True, 0.5)
