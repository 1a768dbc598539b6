"""transformers' Trainer with the loss where a label or a rewrite stands.

Of a question only the distribution after the prompt counts: the Kullback-Leibler divergence from
the teacher's labels to the student's, whose labels are read among all tokens, so that it also
learns to answer with a label at all. Of a rewrite each token counts, as in language modelling.
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

LEAST = 1e-9  # smallest probability of a label: a teacher may say 0, whose logarithm there is not


class AnswerTrainer(Trainer):  # type: ignore[misc]
    """Trainer of a student on a question set.

    Args:
        model: the student.
        args: transformers' settings.
        rows: to learn from.
        held_out: to be evaluated on.
        label_ids: ids of the tokens that say each label.
        rewrite_weight: of a rewrite's mean loss against a question's.
        **others: the Trainer's.
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
        """Mean loss of the rows; with it, on request, each row's answer."""
        inputs = dict(inputs)
        targets, labels, weights = (
            inputs.pop(name) for name in ("probabilities", "labels", "weights")
        )
        logits = model(**inputs, use_cache=False).logits  # (rows, slots x room, vocabulary)
        rows, slots, room = labels.shape
        log_probabilities = logits.float().log_softmax(-1).view(rows, slots, room, -1)
        answers = log_answers(log_probabilities, labels, self._label_ids)
        divergence = kl(targets.nan_to_num(1 / len(LABELS)), answers[..., :-1])
        rewrite = self._rewrite_weight * answers[..., -1]
        # ``where`` keeps no gradient of the branch that is not taken, but NaN times 0 is NaN: so
        # the targets of rewrites were made numbers above.
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
        """Loss, answers and the teacher's probabilities of one batch."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, answers = self.compute_loss(model, inputs, return_outputs=True)
        real = inputs["weights"] > 0
        return loss.detach(), answers[real].detach(), inputs["probabilities"][real]


def log_answers(
    log_probabilities: torch.Tensor, labels: torch.Tensor, label_ids: Sequence[torch.Tensor]
) -> torch.Tensor:
    """(..., labels + 1) log-probability of each label, and the mean loss of the rewrite's tokens.

    Args:
        log_probabilities: (..., positions, vocabulary) at the last positions of each slot.
        labels: (..., positions) the rewrites' tokens, else ``IGNORED``.
        label_ids: ids of the tokens that say each label.
    """
    last = log_probabilities[..., -1, :]
    # Among the whole vocabulary: mass that goes to no label is lost mass, which the divergence from
    # the teacher then punishes.
    by_label = [last[..., ids.to(last.device)].logsumexp(-1) for ids in label_ids]
    counts = labels != IGNORED
    tokens = log_probabilities.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    rewrite = -(tokens * counts).sum(-1) / counts.sum(-1).clamp(min=1)
    return torch.stack([*by_label, rewrite], dim=-1)


def kl(targets: torch.Tensor, log_outputs: torch.Tensor) -> torch.Tensor:
    """(...) divergence in nats of the student's distributions from the teacher's, (..., labels)."""
    log_targets = targets.clamp(min=LEAST).log()
    return (targets * (log_targets - log_outputs)).sum(-1)


def fidelity(answers: Floats, targets: Floats) -> dict[str, float]:
    """Agreement of a student with its teacher, under the names in the log.

    ``answers`` are of ``log_answers``; ``targets`` (rows, labels) have NaN for rewrites.
    """
    is_question = ~np.isnan(targets[:, 0])
    figures: dict[str, float] = {}
    if not is_question.all():
        figures["rewrite_loss"] = float(answers[~is_question, -1].mean())
    if not is_question.any():
        return figures
    targets, log_outputs = targets[is_question], answers[is_question, :-1].astype(np.float64)
    mass = np.exp(log_outputs).sum(axis=1, keepdims=True)
    outputs = np.exp(log_outputs) / mass
    scale = np.arange(1, len(LABELS) + 1)
    first, other = targets @ scale, outputs @ scale
    return figures | {
        "kl": divergence(targets, outputs),
        "label_mass": float(mass.mean()),
        "grades_apart": float(np.abs(first - other).mean()),
        "present_alike": float(((first >= PRESENT) == (other >= PRESENT)).mean()),
        "kappa": quadratic_kappa(first, other),
    }


def divergence(targets: Floats, outputs: Floats) -> float:
    """Mean Kullback-Leibler divergence, in nats, of (rows, labels) distributions."""
    logs = np.log(np.maximum(targets, LEAST)) - np.log(np.maximum(outputs, LEAST))
    return float((targets * logs).sum(axis=1).mean())
