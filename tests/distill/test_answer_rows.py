"""Prompts in trees are answered as each alone; the loss and its figures by hand."""

import math
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("pyarrow")

import numpy as np
import torch

from posh_reward.distill import answer_trainer
from posh_reward.errors import ConfigError
from posh_reward.models.chat import Chat
from tests.models.tiny import byte_tokenizer, tiny_model

TOKENIZER = byte_tokenizer()
SURE = [0.0, 0.0, 0.0, 0.0, 1.0]


def grade(prefix: str, suffix: str) -> dict[str, Any]:
    return {"task": "grade", "prefix": prefix, "suffix": suffix, "probabilities": SURE,
            "reply": None}  # fmt: skip


def rewrite(text: str, reply: str) -> dict[str, Any]:
    return {"task": "rewrite", "prefix": "", "suffix": f"Rewrite: {text}", "probabilities": None,
            "reply": reply}  # fmt: skip


ROWS = [
    *(grade("A red dog sleeps.\n", f'Is "{thing}" there?') for thing in ("dog", "cat", "a hat")),
    *(grade("A boat.\n", f'Is "{number}" there?') for number in range(11)),
    rewrite("dog red", "the red dog"),
    rewrite("cat", "the cat"),
]


def logits_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    names = ("input_ids", "position_ids", "attention_mask", "logits_to_keep")
    with torch.no_grad():
        logits: torch.Tensor = model(**{n: batch[n] for n in names}, use_cache=False).logits
    return logits


def test_a_tree_is_answered_as_each_prompt_alone() -> None:
    model, found = tiny_model(TOKENIZER), answer_trainer.AnswerTrees(ROWS, Chat(TOKENIZER), 500)
    assert {len(tree.answers) for tree in found.trees} == {2, 3, answer_trainer.PROMPTS_PER_TREE}
    batch = answer_trainer.collate([found[place] for place in range(len(found))], pad=0)
    rows, slots, room = batch["labels"].shape
    together = logits_of(model, batch).view(rows, slots, room, -1)
    for row, tree in enumerate(found.trees):
        for slot, answer in enumerate(tree.answers):
            count = max(1, len(answer.reply))
            with torch.no_grad():
                alone = model(torch.tensor([answer.ids])).logits[0, -count:]
            torch.testing.assert_close(together[row, slot, -count:], alone, atol=1e-5, rtol=1e-4)
    assert batch["weights"].sum() == len(ROWS)


def test_a_rewrite_is_learned_to_the_end_of_its_turn() -> None:
    chat = Chat(TOKENIZER)
    [tree] = answer_trainer.AnswerTrees([rewrite("cat", "the cat")], chat, 500).trees
    [answer] = tree.answers
    assert TOKENIZER.decode(answer.reply) == "the cat<|im_end|>"
    assert answer.ids[-len(answer.reply) + 1 :] == answer.reply[:-1]
    batch = answer_trainer.collate([{"tree": tree}], pad=0)
    assert batch["labels"][0, 0].tolist() == answer.reply
    assert batch["probabilities"].isnan().all()


def test_questions_of_one_pair_share_their_beginning() -> None:
    found = answer_trainer.AnswerTrees(ROWS[:3], Chat(TOKENIZER), 500)
    [tree] = found.trees
    prompts = [answer.ids for answer in tree.answers]
    assert tree.shared >= len("user\nA red dog sleeps.\nIs ")
    assert found.lengths.tokens == sum(map(len, prompts))
    assert found.lengths.computed == tree.token_count < found.lengths.tokens
    batch = answer_trainer.collate([found[0]], pad=0)
    assert (batch["labels"] == answer_trainer.IGNORED_LABEL).all()


def test_prompts_that_are_too_long_are_counted_and_left_out() -> None:
    chat = Chat(TOKENIZER)
    lengths = answer_trainer.AnswerTrees(ROWS, chat, 500).lengths
    assert (lengths.prompts, lengths.left_out) == (len(ROWS), 0)
    shorter = answer_trainer.AnswerTrees(ROWS, chat, lengths.longest - 1).lengths
    assert shorter.left_out > 0
    assert shorter.prompts + shorter.left_out == len(ROWS)
    assert shorter.longest == lengths.longest
    assert "too long and left out" in str(shorter)
    with pytest.raises(ConfigError, match="max_prompt_tokens"):
        answer_trainer.AnswerTrees(ROWS, chat, 5)


def test_the_divergence_by_hand() -> None:
    wanted = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    given = torch.tensor([[0.25, 0.25, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 0.5]]).clamp(1e-9)
    found = answer_trainer.kl_divergence(wanted, given.log())
    assert found.tolist() == pytest.approx([math.log(2), math.log(2)], abs=1e-5)


def test_fidelity_of_a_perfect_and_of_a_constant_student() -> None:
    wanted = np.array([SURE, [1.0, 0.0, 0.0, 0.0, 0.0], [np.nan] * 5])
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(np.nan_to_num(wanted, nan=0.2), 1e-9))
    rewrites = np.array([[0.0], [0.0], [0.7]])
    perfect = answer_trainer.measure_fidelity(np.hstack([logs, rewrites]), wanted)
    assert perfect["kl"] == pytest.approx(0, abs=1e-6)
    assert (perfect["present_alike"], perfect["kappa"]) == (1, 1)
    assert perfect["rewrite_loss"] == 0.7
    constant = answer_trainer.measure_fidelity(
        np.hstack([np.tile(logs[0], (3, 1)), rewrites]), wanted
    )
    assert (constant["present_alike"], constant["kappa"]) == (0.5, 0)
    assert constant["grades_apart"] == pytest.approx(2)
