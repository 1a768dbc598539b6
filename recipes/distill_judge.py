"""Distil a judge: a small model learns the answers that another judge gave to POSH's questions.

    posh-reward judges collect pairs.jsonl --judge vllm -o runs/questions
    accelerate launch --config_file configs/accelerate/one_gpu.yaml recipes/distill_judge.py \
        --config configs/distill/qwen3_0_6b.yaml
    posh-reward judges compare others.jsonl --json figures.json \
        --judges vllm runs/distill_qwen3_0_6b/qwen3-0.6b-judge/judge.yaml

transformers' Trainer with one change, the loss: for questions the divergence of the label
distributions, for rewrites the language-modelling loss (``training/distill``). The checkpoint with
the lowest held-out divergence becomes a folder that ``PoSh(".../judge.yaml")`` loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import posh_reward.training.extra  # noqa: F401

# isort: split
from transformers import TrainingArguments
from trl import ModelConfig, ScriptArguments

from posh_reward.distill.answer_trainer import AnswerTrainer, AnswerTrees, read_rows
from posh_reward.distill.question_set import SUMMARY_FILE, read_question_set
from posh_reward.distill.ship_judge import measure_judge, save_judge, write_card
from posh_reward.errors import ConfigError
from posh_reward.models.chat import Chat
from posh_reward.models.model import label_tokens, missing_token_failure
from posh_reward.training.base_model import starting_model
from posh_reward.training.launch import (
    finish,
    model_init_kwargs,
    parse_settings,
    run,
    train,
)
from posh_reward.training.output_folder import enter_output
from posh_reward.training.recording import record_run
from posh_reward.training.resume import (
    RefuseLostWeights,
    last_checkpoint,
    load_best,
    raise_on_all_ranks,
)
from posh_reward.training.run_settings import flag
from posh_reward.training.saving import compare_weights, finish_record
from posh_reward.training.stopping import STOP_BEFORE_MINUTES, StopWithCheckpoint
from posh_reward.types import LABELS


@dataclass
class DistillScriptArguments(ScriptArguments):  # type: ignore[misc]
    """Settings besides TrainingArguments' and ModelConfig's."""

    dataset_name: str = flag("runs/questions", "Folder written by posh-reward judges collect.")
    max_prompt_tokens: int = flag(
        2048, "Longer prompts, with their rewrites, are left out and counted."
    )
    rewrite_weight: float = flag(1.0, "Weight of a rewrite's loss per token, a question's being 1.")
    held_out_rows: int = flag(4000, "Validation prompts per evaluation, at most.")
    judge_name: str = flag("judge", "Folder of the judge in output_dir; part of its name.")
    judge_dtype: str = flag("auto", "Of the judge's weights: auto (as in training) or bfloat16.")
    stop_before: float = flag(
        STOP_BEFORE_MINUTES,
        "Minutes before the end of the Slurm job to save a checkpoint and stop.",
    )


SETTINGS = (DistillScriptArguments, TrainingArguments, ModelConfig)
"""Dataclasses of the flags and the configuration."""


def make_trainer(
    script: DistillScriptArguments, args: TrainingArguments, model: ModelConfig
) -> AnswerTrainer:
    """Make the trainer, ready to train.

    Raises:
        ConfigError: the model has no single token for a label, or no prompt is short enough.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import get_peft_config

    name = starting_model(model.model_name_or_path, Path(args.output_dir))
    tokenizer = AutoTokenizer.from_pretrained(name, revision=model.model_revision)
    chat, tokens = Chat(tokenizer), label_tokens(tokenizer, LABELS)
    unreadable = missing_token_failure(LABELS, tokens)
    if unreadable is not None:
        raise ConfigError(f"{name}: {unreadable}")
    folder, most = Path(script.dataset_name), script.max_prompt_tokens
    rows = AnswerTrees(read_rows(folder, "train"), chat, most, args.seed)
    held_out = AnswerTrees(read_rows(folder, "validation", script.held_out_rows), chat, most)
    if args.process_index == 0:
        print(f"train: {rows.lengths}\nvalidation: {held_out.lengths}", flush=True)
    student = AutoModelForCausalLM.from_pretrained(name, **model_init_kwargs(None, model))
    peft = get_peft_config(model)
    if peft is not None:
        from peft import get_peft_model

        student.enable_input_require_grads()  # or checkpointed layers would have no gradient
        student = get_peft_model(student, peft)
    return AnswerTrainer(
        student, args, rows, held_out, tokens, script.rewrite_weight,
        processing_class=tokenizer,
        callbacks=[StopWithCheckpoint(stop_before=script.stop_before), RefuseLostWeights()],
    )  # fmt: skip


def refuse_other_questions(folder: Path, args: TrainingArguments) -> None:
    """Keep a copy of the question set's summary in ``output_dir``.

    Raises:
        ConfigError: the checkpoint to resume from has learned another question set.
    """
    summary, copy = folder / SUMMARY_FILE, Path(args.output_dir) / SUMMARY_FILE
    learned = copy.read_bytes() if copy.is_file() and last_checkpoint(args) else None
    if learned not in (None, summary.read_bytes()):
        raise ConfigError(
            f"{args.output_dir} has learned other questions than those in {folder}: choose another "
            "output_dir"
        )
    if args.process_index == 0:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(summary.read_bytes())


def ship_judge(trainer: AnswerTrainer, script: DistillScriptArguments, model: ModelConfig) -> None:
    """Write the judge's folder, ask it held-out questions, and write its card."""
    source = Path(script.dataset_name)
    questions = read_question_set(source)
    folder = Path(trainer.args.output_dir) / script.judge_name
    settings = save_judge(
        trainer.model, trainer.processing_class, folder, questions, script.judge_dtype
    )
    test, validation = read_rows(source, "test"), read_rows(source, "validation")
    fidelity = measure_judge(settings, test, validation)
    base = str(model.model_name_or_path)
    write_card(folder, fidelity, questions, base)
    print(f"{settings}: agrees with its teacher on present or absent in "
          f"{fidelity.agreement.present.value:.1%} of the test questions (majority answer: "
          f"{fidelity.majority:.1%})")  # fmt: skip


def main(argv: list[str] | None = None) -> AnswerTrainer:
    """Parse flags and configuration, train, and write the judge to ``output_dir``.

    With ``--check`` only print what would run, and whether it fits.

    Raises:
        ConfigError: a setting is invalid, or the checkpoint has learned another question set.
        SystemExit: the run is already finished, or was only checked.
    """
    script, args, model = parse_settings(SETTINGS, argv)
    read_question_set(Path(script.dataset_name))
    asked = enter_output(args, script, model)
    refuse_other_questions(Path(script.dataset_name), args)
    trainer = make_trainer(script, args, model)
    with record_run(trainer, script, model, asked):
        train(trainer)
        best, problem = load_best(trainer), None
        folder = Path(args.output_dir) / script.judge_name
        if trainer.is_world_process_zero():
            ship_judge(trainer, script, model)
            # Merged or rounded weights are not the checkpoint's.
            if best is not None and not model.use_peft and script.judge_dtype == "auto":
                problem = compare_weights(folder, best)
        raise_on_all_ranks(problem)
        finish_record(trainer, folder)
    finish(trainer)
    return trainer


if __name__ == "__main__":
    run(main)
