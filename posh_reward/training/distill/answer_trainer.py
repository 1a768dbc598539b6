"""transformers' Trainer with a loss on labels and rewrites.

For a question the loss is the Kullback-Leibler divergence between the teacher's and the student's
distributions over the labels after the prompt. The student's is over the whole vocabulary, so that
it also learns to answer with a label at all. For a rewrite it is the language-modelling loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import Trainer

from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.study.judges.judge_agreement import quadratic_kappa
from posh_reward.study.statistics import Floats
from posh_reward.training.distill.answer_rows import IGNORED, AnswerTrees, collate
from posh_reward.types import LABELS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, TrainingArguments

LEAST = 1e-9  # lower bound on a label's probability: the teacher's may be 0, which has no logarithm


class AnswerTrainer(Trainer):  # type: ignore[misc]
    """Train a student on a question set.

    Args:
        model: the student.
        args: transformers' settings.
        rows: training set.
        held_out: evaluation set.
        label_ids: for each label, the ids of the single tokens that mean it.
        rewrite_weight: weight of a rewrite's mean loss relative to a question's.
        **others: as the Trainer's.
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
            compute_metrics=lambda outputs: fidelity(outputs.predictions, outputs.label_ids),
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
        targets, labels, weights = (
            inputs.pop(name) for name in ("probabilities", "labels", "weights")
        )
        logits = model(**inputs, use_cache=False).logits  # (rows, slots x width, vocabulary)
        rows, slots, width = labels.shape
        log_probabilities = logits.float().log_softmax(-1).view(rows, slots, width, -1)
        answers = log_answers(log_probabilities, labels, self._label_ids)
        divergence = kl(targets.nan_to_num(1 / len(LABELS)), answers[..., :-1])
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

    Args:
        log_probabilities: (..., positions, vocabulary) at the last positions of each slot.
        labels: (..., positions) the rewrites' tokens, else ``IGNORED``.
        label_ids: for each label, the ids of the single tokens that mean it.
    """
    last = log_probabilities[..., -1, :]
    # Not renormalised over the labels: the divergence then penalises mass on other tokens.
    by_label = [last[..., ids.to(last.device)].logsumexp(-1) for ids in label_ids]
    counts = labels != IGNORED
    tokens = log_probabilities.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    rewrite = -(tokens * counts).sum(-1) / counts.sum(-1).clamp(min=1)
    return torch.stack([*by_label, rewrite], dim=-1)


def kl(targets: torch.Tensor, log_outputs: torch.Tensor) -> torch.Tensor:
    """Return the divergence in nats of (..., labels) student from teacher distributions: (...)."""
    log_targets = targets.clamp(min=LEAST).log()
    return (targets * (log_targets - log_outputs)).sum(-1)


def fidelity(answers: Floats, targets: Floats) -> dict[str, float]:
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
    logs = np.log(np.maximum(targets, LEAST)) - np.log(np.maximum(outputs, LEAST))
    scale = np.arange(1, len(LABELS) + 1)
    teacher: Floats = targets @ scale
    student: Floats = outputs @ scale
    return figures | {
        "kl": float((targets * logs).sum(axis=1).mean()),
        "label_mass": float(mass.mean()),
        "grades_apart": float(np.abs(teacher - student).mean()),
        "present_alike": float(((teacher >= PRESENT) == (student >= PRESENT)).mean()),
        "kappa": quadratic_kappa(teacher, student),
    }
