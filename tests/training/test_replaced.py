"""Methods of TRL's trainer that are replaced: each test fails without its replacement."""

from pathlib import Path
from types import SimpleNamespace as Some
from typing import Any

import pytest
import trl.trainer.grpo_trainer as trl_trainer
from trl import GRPOConfig, GRPOTrainer

from posh_reward.training.dapo.sampling import DynamicSampling
from posh_reward.training.launch import make_tables_plain
from posh_reward.training.rollouts import check_rollouts
from tests.training.dapo.tiny import flat_or_wide, make, rows


@pytest.mark.parametrize("plain", [False, True])
def test_prompts_in_the_table_of_wandb_are_plain(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """wandb 0.31 raises TypeError for a column of messages whose content is a list of parts."""
    tables: list[Any] = []
    wandb = Some(run=True, Table=lambda dataframe: dataframe, Image=str,
                 log=lambda logged: tables.append(logged["completions"]))  # fmt: skip
    monkeypatch.setattr(trl_trainer, "wandb", wandb, raising=False)
    trainer = make(
        tiny, GRPOTrainer, log_completions=True, num_completions_to_print=0, log_multimodal=False
    )
    trainer.args.report_to = ["wandb"]
    if plain:
        make_tables_plain(trainer)
    trainer.model.train()
    trainer._generate_and_score_completions(rows(trainer, [0, 1]))
    trainer.log({})
    [table] = tables
    contents = [message["content"] for prompt in table["prompt"] for message in prompt]
    assert contents
    assert all(isinstance(content, str) for content in contents) == plain


def test_vllm_forgets_images_when_it_gets_weights() -> None:
    events: list[str] = []
    engine = Some(reset_encoder_cache=lambda: events.append("reset"))
    generation = Some(mode="server", generate=None, llm=Some(llm_engine=engine),
                      sync_weights=lambda: events.append("weights"))  # fmt: skip
    args = GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to="none")
    trainer: Any = Some(
        vllm_generation=generation, processing_class=None, args=args, add_callback=id,
        _compute_loss=None, _get_per_token_logps_and_entropies=None,
    )  # fmt: skip
    check_rollouts(trainer)
    generation.sync_weights()
    assert events == ["weights", "reset"]


@pytest.mark.parametrize(("sleeps", "pushed"), [(True, [True, True]), (False, [True, False])])
def test_weights_are_pushed_again_to_a_vllm_that_has_slept(
    tiny: Path, sleeps: bool, pushed: list[bool]
) -> None:
    """One image's completions do not differ, so a second round is generated."""
    sampling = DynamicSampling(2, refill=True)
    trainer = make(tiny, reward=flat_or_wide((0,)), dynamic_sampling=sampling)
    trainer.model.train()
    generate, pushes = trainer._generate_single_turn, []

    def generate_by_vllm(*args: Any, **kwargs: Any) -> Any:
        pushes.append(trainer.state.global_step != trainer._last_loaded_step)
        trainer._last_loaded_step = trainer.state.global_step  # as TRL, once it has pushed
        trainer.use_vllm = False
        generated = generate(*args, **kwargs)
        trainer.use_vllm = True
        return generated

    trainer._generate_single_turn = generate_by_vllm
    trainer._last_loaded_step, trainer.use_vllm = -1, True
    trainer.args.vllm_enable_sleep_mode = sleeps
    trainer._choose_rows(rows(trainer, [0, 1, 2, 3]), sampling)
    assert pushes == pushed
