"""POSH as a reward function of TRL's trainers (GRPO and its kin)."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posh_reward.errors import InputError, JudgeError
from posh_reward.metric.aggregate import EQUAL, mean_score, of_kind
from posh_reward.metric.posh import PoSh
from posh_reward.reward.shaping import Shaping, length_ratio, shape
from posh_reward.types import Direction, Scores

logger = logging.getLogger(__name__)

LogMetric = Callable[[str, float], None]
LogExtra = Callable[[str, list[Any]], None]

METRICS = (
    "posh/precision",
    "posh/recall",
    "posh/f1",
    "posh/precision_entity",
    "posh/precision_attribute",
    "posh/precision_relation",
    "posh/recall_entity",
    "posh/recall_attribute",
    "posh/recall_relation",
    "posh/generation_elements",
    "posh/reference_elements",
    "posh/length_ratio",
    "posh/failed_share",
    "posh/unparsed",
)
"""Names given to ``log_metric``: all of them, on every rank, at every call. Means over the
completions of a call that have the figure; NaN if none has."""

EXTRAS = ("posh_precision", "posh_recall", "posh_f1", "posh_failure")
"""Columns given to ``log_extra``, one value per completion; None, or "" for no failure."""


class PoshReward:
    """A callable for ``GRPOTrainer(reward_funcs=...)``.

    The dataset has a column with each image's reference. A completion that cannot be judged
    gets ``None``, which TRL leaves out of its group. References are parsed once per run. The
    object pickles; what it has loaded or cached stays behind.

    Args:
        posh: the metric; by default ``PoSh()`` with the embedded judge.
        shaping: how scores make a reward; by default their f1, as in the paper.
        reference_column: the dataset's column of references.
        max_failed_calls: after so many calls in a row in which every completion failed, stop.

    Example:
        ``GRPOTrainer(model, reward_funcs=PoshReward(), args=..., train_dataset=...)``
    """

    __name__ = "posh"

    def __init__(
        self,
        posh: PoSh | None = None,
        shaping: Shaping | None = None,
        *,
        reference_column: str = "reference",
        max_failed_calls: int = 10,
    ) -> None:
        self.posh = posh if posh is not None else PoSh()
        self.shaping = shaping if shaping is not None else Shaping()
        self.reference_column = reference_column
        self.max_failed_calls = max_failed_calls
        self._failed_calls = 0

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] = (),
        *,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards in [0.2, 1], one per completion; None for those that could not be judged.

        Args:
            prompts: unused; part of TRL's contract.
            completions: strings, or conversations whose assistant turns are the description.
            log_metric: TRL's; is given ``METRICS``.
            log_extra: TRL's; is given ``EXTRAS``.
            columns: the dataset's columns, among them that of references; others are ignored.

        Raises:
            InputError: the column of references is missing or of another length.
            JudgeError: nothing could be judged for ``max_failed_calls`` calls in a row.
        """
        references = self._references(columns, len(completions))
        scores = self._score([completion_text(c) for c in completions], references)
        if log_metric is not None:
            for name, value in metrics(scores).items():
                log_metric(name, value)
        if log_extra is not None:
            for name, values in extras(scores).items():
                log_extra(name, values)
        self._note_failures(scores)
        return [shape(score, self.shaping) for score in scores]

    def _references(self, columns: Mapping[str, Any], expected: int) -> list[Any]:
        if self.reference_column not in columns:
            there = ", ".join(sorted(columns)) or "none"
            raise InputError(
                f"no column {self.reference_column!r} of references reached the reward (columns: "
                f"{there}): name it with reference_column, and keep it in the dataset "
                "(remove_unused_columns=False)"
            )
        references = list(columns[self.reference_column])
        if len(references) != expected:
            raise InputError(
                f"{expected} completions but {len(references)} values in column "
                f"{self.reference_column!r}: TRL passes one for each completion"
            )
        return references

    def _score(self, texts: list[Any], references: list[Any]) -> list[Scores]:
        try:
            return self.posh.score(texts, references)
        except JudgeError as error:
            reason = f"the judge could not work: {error}"
            return [Scores(None, None, None, self.posh.signature, failure=reason) for _ in texts]

    def _note_failures(self, scores: Sequence[Scores]) -> None:
        """Logs why completions failed, and stops a run that is getting no reward at all."""
        reasons = Counter(score.failure for score in scores if score.failure is not None)
        if not reasons:
            self._failed_calls = 0
            return
        failed = sum(reasons.values())
        listed = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        logger.warning("%d of %d completions have no reward: %s", failed, len(scores), listed)
        self._failed_calls = self._failed_calls + 1 if failed == len(scores) else 0
        if self._failed_calls >= self.max_failed_calls:
            raise JudgeError(
                f"no completion could be judged in {self._failed_calls} calls in a row; the last "
                f"reason: {reasons.most_common(1)[0][0]}. Mend that and resume from the last "
                "checkpoint, or raise max_failed_calls"
            )


def completion_text(completion: object) -> object:
    """The description in a completion: a string, or the assistant's turns of a conversation.

    What is neither is returned as it is, for the metric to fail with its reason.
    """
    if not isinstance(completion, list | tuple):
        return completion
    turns = [
        turn["content"]
        for turn in completion
        if isinstance(turn, dict) and turn.get("role") == "assistant" and "content" in turn
    ]
    texts = [_content_text(turn) for turn in turns]
    if not texts or any(text is None for text in texts):
        return completion
    return "\n".join(text for text in texts if text is not None)


def _content_text(content: object) -> str | None:
    """Text of a message's content, which is a string or a list of typed parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return None


def metrics(scores: Sequence[Scores]) -> dict[str, float]:
    """The figures of one call under the names of ``METRICS``, in their order."""
    judged = [score for score in scores if score.f1 is not None]
    values: dict[str, float] = {
        "posh/precision": _mean([score.precision for score in scores]),
        "posh/recall": _mean([score.recall for score in scores]),
        "posh/f1": _mean([score.f1 for score in scores]),
        "posh/generation_elements": _mean([score.count("precision") for score in judged]),
        "posh/reference_elements": _mean([score.count("recall") for score in judged]),
        "posh/length_ratio": _mean([length_ratio(score) for score in judged]),
        "posh/failed_share": _mean([float(score.failure is not None) for score in scores]),
        "posh/unparsed": float(sum(score.unparsed for score in scores)),
    }
    for direction in ("precision", "recall"):
        for kind in ("entity", "attribute", "relation"):
            sub_scores = [_sub_score(score, direction, kind) for score in judged]
            values[f"posh/{direction}_{kind}"] = _mean(sub_scores)
    return {name: values[name] for name in METRICS}


def extras(scores: Sequence[Scores]) -> dict[str, list[Any]]:
    """The columns of one call under the names of ``EXTRAS``."""
    columns: tuple[list[Any], ...] = (
        [score.precision for score in scores],
        [score.recall for score in scores],
        [score.f1 for score in scores],
        [score.failure or "" for score in scores],
    )
    return dict(zip(EXTRAS, columns, strict=True))


def _sub_score(score: Scores, direction: Direction | str, kind: str) -> float | None:
    elements = [e for e in of_kind(score.elements, kind) if e.direction == direction]
    return mean_score(elements, EQUAL) if elements else None


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
