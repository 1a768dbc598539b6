"""transformers' Trainer with a loss on labels and rewrites.

For a question the loss is the Kullback-Leibler divergence between the teacher's and the student's
distributions over the labels after the prompt. The student's is over the whole vocabulary, so that
it also learns to answer with a label at all. For a rewrite it is the language-modelling loss.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import Trainer

from posh_reward.distill.judge_report import quadratic_kappa
from posh_reward.errors import ConfigError
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.posh.names import MIN_PRESENT_GRADE
from posh_reward.tables.statistics import Floats
from posh_reward.types import LABELS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, TrainingArguments


IGNORED_LABEL = -100  # transformers' label for a position without loss
REWRITE_PROBABILITIES = (float("nan"),) * len(LABELS)
PROMPTS_PER_TREE = 8  # at most: more would share more, but a batch would have fewer pairs


class AnswerTokens(NamedTuple):
    """A prompt with its answer."""

    ids: list[int]
    """The model's input: the prompt, and the rewrite without its last token."""
    reply: list[int]
    """Targets of the last inputs: the rewrite and the end of the turn; empty for a question."""
    probabilities: tuple[float, ...]
    """Targets of the last input: the labels' probabilities; NaN for a rewrite."""


class AnswerTree(NamedTuple):
    """Prompts with a common prefix."""

    shared: int  # tokens of the prefix
    answers: tuple[AnswerTokens, ...]

    @property
    def token_count(self) -> int:
        """Tokens of the row, without padding."""
        return self.shared + sum(len(answer.ids) - self.shared for answer in self.answers)


class Lengths(NamedTuple):
    """Counts of a split's prompts and tokens."""

    prompts: int
    longest: int  # tokens of the longest prompt, even if it is left out
    left_out: int  # prompts above the limit
    tokens: int  # of all prompts, one by one
    computed: int  # of all trees

    def __str__(self) -> str:
        return (
            f"{self.prompts:,} prompts of up to {self.longest:,} tokens, {self.left_out:,} too "
            f"long and left out; {self.tokens:,} tokens, {self.computed:,} to compute"
        )


class AnswerTrees(Dataset[dict[str, Any]]):
    """The prompts of one split of a question set that are short enough, in trees.

    ``chat`` has the student's template and tokenizer, as its judge will use them; ``max_tokens``
    limits a prompt with its answer; ``seed`` draws which questions about a pair share a tree.
    """

    def __init__(
        self, rows: Sequence[dict[str, Any]], chat: Chat, max_tokens: int, seed: int = 0
    ) -> None:
        by_prefix: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows:
            by_prefix.setdefault((row["task"], row["prefix"]), []).append(row)
        rng = random.Random(seed)
        self.trees: list[AnswerTree] = []
        longest = left_out = tokens = 0
        for alike in by_prefix.values():
            rng.shuffle(alike)
            prompts = chat.encode([Prompt(row["prefix"], row["suffix"]) for row in alike])
            short = []
            for row, ids in zip(alike, prompts, strict=True):
                answer = answer_tokens(row, ids, chat)
                longest = max(longest, len(answer.ids))
                if len(answer.ids) <= max_tokens:
                    short.append(answer)
                    tokens += len(answer.ids)
            left_out += len(alike) - len(short)
            self.trees += build_trees(short)
        computed = sum(tree.token_count for tree in self.trees)
        self.lengths = Lengths(len(rows) - left_out, longest, left_out, tokens, computed)
        if not self.trees:
            raise ConfigError(
                f"none of {len(rows)} prompts has at most {max_tokens} tokens: raise "
                "max_prompt_tokens"
            )

    def __len__(self) -> int:
        return len(self.trees)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tree = self.trees[index]
        return {"tree": tree, "input_ids": range(tree.token_count)}  # samplers sort by its length


def answer_tokens(row: dict[str, Any], prompt: Sequence[int], chat: Chat) -> AnswerTokens:
    """Tokenize a row's answer, given its prompt's tokens."""
    if row["probabilities"] is not None:
        return AnswerTokens(list(prompt), [], tuple(row["probabilities"]))
    reply: list[int] = chat.tokenizer(row["reply"], add_special_tokens=False)["input_ids"]
    ended = reply if chat.turn_end is None else [*reply, chat.turn_end]
    return AnswerTokens([*prompt, *ended[:-1]], ended, REWRITE_PROBABILITIES)


def build_trees(answers: Sequence[AnswerTokens]) -> Iterator[AnswerTree]:
    """Group prompts into trees of ``PROMPTS_PER_TREE``."""
    for start in range(0, len(answers), PROMPTS_PER_TREE):
        some = answers[start : start + PROMPTS_PER_TREE]
        # Logits are computed at the last ``own`` positions of each slot, which therefore must not
        # be shared.
        own = max(max(len(answer.reply), 1) for answer in some)
        columns = zip(*(answer.ids for answer in some), strict=False)
        alike = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        shortest = min(len(answer.ids) for answer in some)
        yield AnswerTree(max(0, min(alike, shortest - own)), tuple(some))


def read_rows(folder: Path, split: str, most: int | None = None) -> list[dict[str, Any]]:
    """Read one split of a question set's folder, or an evenly spaced selection of ``most`` rows."""
    import pyarrow.parquet as pq

    path = folder / f"{split}.parquet"
    if not path.is_file():
        raise ConfigError(f"no file {str(path)!r}: make it with posh-reward judges collect")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    if most is None or most >= len(rows):
        return rows
    return [rows[place * len(rows) // most] for place in range(most)]


def collate(rows: Sequence[dict[str, Any]], pad: int) -> dict[str, torch.Tensor]:
    """Pad trees to tensors in which the answers of all rows are at the same positions.

    A row is ``[padding, shared][padding, slot][padding, slot]...``: slots are equally long and end
    with the tokens that predict the answer. Returns ``input_ids`` and ``position_ids`` (rows,
    tokens); ``attention_mask`` (rows, 1, tokens, tokens), true where one token attends to another;
    ``logits_to_keep`` (slots x longest rewrite), the predicting positions; ``labels`` (rows, slots,
    longest rewrite), the rewrites' tokens, else ``IGNORED_LABEL``; ``probabilities`` (rows, slots,
    labels), NaN for rewrites and empty slots; ``weights`` (rows, slots), 0 for empty slots.
    """
    batch: list[AnswerTree] = [row["tree"] for row in rows]
    shared = max(tree.shared for tree in batch)
    slots = max(len(tree.answers) for tree in batch)
    size, width = 0, 1  # tokens of a slot, and of the longest rewrite
    for tree in batch:
        size = max(size, *(len(answer.ids) - tree.shared for answer in tree.answers))
        width = max(width, *(len(answer.reply) for answer in tree.answers))
    length = shared + slots * size
    # Padding on the left of each part, so that all answers end in the same columns, and one
    # ``logits_to_keep`` serves all rows: the head is the largest layer of a small model.
    ids = np.full((len(batch), length), pad, np.int64)
    positions = np.zeros((len(batch), length), np.int64)
    part = np.full((len(batch), length), -1, np.int64)  # -1 padding, 0 shared, then 1, 2 ... slots
    labels = np.full((len(batch), slots, width), IGNORED_LABEL, np.int64)
    targets = np.full((len(batch), slots, len(LABELS)), np.nan, np.float32)
    weights = np.zeros((len(batch), slots), np.float32)
    for row, tree in enumerate(batch):
        if tree.shared:
            prefix = slice(shared - tree.shared, shared)
            ids[row, prefix] = tree.answers[0].ids[: tree.shared]
            positions[row, prefix] = range(tree.shared)
            part[row, prefix] = 0
        for slot, answer in enumerate(tree.answers):
            end = shared + (slot + 1) * size
            start = end - (len(answer.ids) - tree.shared)
            ids[row, start:end] = answer.ids[tree.shared :]
            # Positions continue from the shared tokens, as if the slot were alone with them.
            positions[row, start:end] = range(tree.shared, len(answer.ids))
            part[row, start:end] = slot + 1
            if answer.reply:
                labels[row, slot, width - len(answer.reply) :] = answer.reply
            targets[row, slot], weights[row, slot] = answer.probabilities, 1.0
    ends = shared + size * np.arange(1, slots + 1)  # (slots,) where each slot ends
    places = (ends[:, None] - np.arange(width, 0, -1)).ravel()  # (slots x width,)
    arrays = {
        "input_ids": ids, "position_ids": positions, "attention_mask": tree_mask(part)[:, None],
        "logits_to_keep": places, "labels": labels, "probabilities": targets, "weights": weights,
    }  # fmt: skip
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def tree_mask(part: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return (rows, query, key): a token attends to the shared tokens and its slot, up to itself.

    ``part`` (rows, tokens) is 0 for shared tokens, from 1 for each slot's, and -1 for padding.
    """
    keys = part[:, None, :]  # (rows, 1, tokens)
    alike = (part[:, :, None] == keys) | (keys == 0)
    sees: NDArray[np.bool_] = alike & (keys >= 0) & np.tri(part.shape[1], dtype=bool)
    # Padding attends to itself: a softmax over nothing is NaN.
    sees |= np.eye(part.shape[1], dtype=bool)
    return sees


MIN_PROBABILITY = 1e-9  # of a label: the teacher's may be 0, which has no logarithm


class AnswerTrainer(Trainer):  # type: ignore[misc]
    """Train a student on a question set.

    ``label_ids`` are, for each label, the single tokens that mean it; a rewrite's mean loss counts
    ``rewrite_weight`` times as much as a question's.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        rows: AnswerTrees,
        held_out: AnswerTrees,
        label_ids: Sequence[Sequence[int]],
        rewrite_weight: float = 1.0,
        **others: Any,
    ) -> None:
        args.remove_unused_columns = False
        pad = others["processing_class"].pad_token_id
        super().__init__(
            model=model,
            args=args,
            train_dataset=rows,
            eval_dataset=held_out,
            data_collator=partial(collate, pad=0 if pad is None else pad),
            compute_metrics=lambda it: measure_fidelity(it.predictions, it.label_ids),
            **others,
        )
        self.model_accepts_loss_kwargs = False  # the loss below is a mean over rows
        self._label_ids = [torch.tensor(ids) for ids in label_ids]
        self._rewrite_weight = rewrite_weight

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the mean loss of the rows, and on request each row's answer."""
        inputs = dict(inputs)
        targets, labels = inputs.pop("probabilities"), inputs.pop("labels")
        weights = inputs.pop("weights")
        logits = model(**inputs, use_cache=False).logits  # (rows, slots x width, vocabulary)
        rows, slots, width = labels.shape
        log_probabilities = logits.float().log_softmax(-1).view(rows, slots, width, -1)
        answers = log_answers(log_probabilities, labels, self._label_ids)
        divergence = kl_divergence(targets.nan_to_num(1 / len(LABELS)), answers[..., :-1])
        rewrite = self._rewrite_weight * answers[..., -1]
        # ``where`` passes a zero gradient to the branch that is not taken, but 0 times NaN is NaN:
        # hence the ``nan_to_num`` above.
        losses = torch.where(targets[..., 0].isnan(), rewrite, divergence)
        loss = (losses * weights).sum() / weights.sum()
        return (loss, answers) if return_outputs else loss

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        prediction_loss_only: bool,
        ignore_keys: Any = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Return the loss, the answers and the teacher's probabilities of one batch."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, answers = self.compute_loss(model, inputs, return_outputs=True)
        real = inputs["weights"] > 0
        return loss.detach(), answers[real].detach(), inputs["probabilities"][real]


def log_answers(
    log_probabilities: torch.Tensor, labels: torch.Tensor, label_ids: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return each label's log-probability, and the rewrite's mean loss: (..., labels + 1).

    ``log_probabilities`` (..., positions, vocabulary) are those at the last positions of each slot,
    ``labels`` (..., positions) the rewrites' tokens, else ``IGNORED_LABEL``.
    """
    last = log_probabilities[..., -1, :]
    # Not renormalised over the labels: the divergence then penalises mass on other tokens.
    by_label = [last[..., ids.to(last.device)].logsumexp(-1) for ids in label_ids]
    counts = labels != IGNORED_LABEL
    tokens = log_probabilities.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    rewrite = -(tokens * counts).sum(-1) / counts.sum(-1).clamp(min=1)
    return torch.stack([*by_label, rewrite], dim=-1)


def kl_divergence(targets: torch.Tensor, log_outputs: torch.Tensor) -> torch.Tensor:
    """Return the divergence in nats of (..., labels) student from teacher distributions: (...)."""
    log_targets = targets.clamp(min=MIN_PROBABILITY).log()
    return (targets * (log_targets - log_outputs)).sum(-1)


def measure_fidelity(answers: Floats, targets: Floats) -> dict[str, float]:
    """Return the agreement of a student with its teacher, under the names in the log.

    ``answers`` are from ``log_answers``; ``targets`` (rows, labels) are NaN for rewrites.
    """
    is_question = ~np.isnan(targets[:, 0])
    figures: dict[str, float] = {}
    if not is_question.all():
        figures["rewrite_loss"] = float(answers[~is_question, -1].mean())
    if not is_question.any():
        return figures
    targets, outputs = targets[is_question], np.exp(answers[is_question, :-1].astype(np.float64))
    mass = outputs.sum(axis=1, keepdims=True)
    outputs /= mass
    log_targets = np.log(np.maximum(targets, MIN_PROBABILITY))
    log_outputs = np.log(np.maximum(outputs, MIN_PROBABILITY))
    divergences = (targets * (log_targets - log_outputs)).sum(axis=1)
    scale = np.arange(1, len(LABELS) + 1)
    teacher: Floats = targets @ scale
    student: Floats = outputs @ scale
    return figures | {
        "kl": float(divergences.mean()),
        "label_mass": float(mass.mean()),
        "grades_apart": float(np.abs(teacher - student).mean()),
        "present_alike": float(
            ((teacher >= MIN_PRESENT_GRADE) == (student >= MIN_PRESENT_GRADE)).mean()
        ),
        "kappa": quadratic_kappa(teacher, student),
    }
