"""Check that a judge tells texts apart, before a run depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from posh_reward.errors import JudgeError
from posh_reward.metrics.metric import Figures, mean, read_signature_field
from posh_reward.models.model import explain_doubtful_replies
from posh_reward.posh.means import Weights
from posh_reward.types import Scores, SentenceVerdict

PROBES = ("A man in a red coat holds a small dog.", "Two ships sail under a dark sky.")
"""Texts of which each supports itself and nothing of the other."""
NEGATED_PROBES = ("A man in a red coat is not holding a dog.", "No ship sails under a dark sky.")
"""Sentences of which each contradicts the probe in its place."""
MIN_SCORE_GAP = 0.15
"""Least distance of identical texts' scores above those of unrelated ones; scores are 0.2 to 1.
SmolLM2-135M reaches 0.04."""
NOT_CHECKED = "the judge is not checked: its grades may mean nothing"
"""Said of a run, or of a trial of one, with ``check_judge: false``: it measures time and memory."""


class PoshLike(Figures[Scores], Protocol):
    """The part of POSH that a reward needs: ``PoSh``, or a server's ``serve.client.RemotePosh``."""

    @property
    def weights(self) -> Weights:
        """Weights of entities, attributes and relations."""

    @property
    def witness(self) -> object:
        """The witness, if it is in this process."""

    @property
    def wants_images(self) -> bool:
        """True with a witness."""

    @property
    def reads_sentences(self) -> bool:
        """True with a reader of sentences."""

    def score(self, *columns: Any, **by_field: Any) -> list[Scores]:
        """Score generations against references and, with a witness, images."""


def check_judge(metric: PoshLike) -> None:
    """Score two texts against themselves and each other, with each judge of a cascade.

    A witness may raise precision, so with one only recall is compared. A reader of sentences reads
    the texts and their negations.

    Raises:
        JudgeError: a pair has no score, most replies are not grades, identical texts do not score
            clearly above unrelated ones, or the reader does not tell a sentence from its negation;
            the message has the remedy.
    """
    columns: list[Sequence[object]] = [PROBES * 2, PROBES + PROBES[::-1]]
    if metric.wants_images:
        columns.append([_image_for(metric.witness)] * len(columns[0]))
    with_each_judge = getattr(metric, "with_each_judge", lambda: [metric])
    for each in with_each_judge():
        scores = each.score(*columns)
        reason = explain_unfit(scores[:2], scores[2:], recall_only=metric.wants_images)
        if reason is not None:
            raise JudgeError(f"the judge {read_signature_field(each.signature, 'judge')} {reason}")
    reader = read_signature_field(metric.signature, "reader")
    if reader is not None:
        columns[0], columns[1] = PROBES + NEGATED_PROBES, PROBES * 2
        reason = explain_unreadable(metric.score(*columns))
        if reason is not None:
            raise JudgeError(f"the reader {reader} {reason}")


def explain_unreadable(scores: Sequence[Scores]) -> str | None:
    """Give the reason why a reader with these verdicts cannot read; None if it can.

    The first half are sentences that their references state, the second half the same, negated.
    """
    verdicts: list[SentenceVerdict] = []
    for score in scores:
        if score.failure is not None:
            return f"could not read a first sentence: {score.failure}"
        verdicts += score.sentences
    values = [each.value for each in verdicts]
    half = len(values) // 2
    if "contradicted" not in values[:half] and set(values[half:]) == {"contradicted"}:
        return None
    return (
        f"does not tell a sentence from its negation: it calls stated ones "
        f"{' and '.join(values[:half])}, and their negations {' and '.join(values[half:])}. Is it "
        "trained on natural language inference, or instruction-tuned and large enough "
        "(docs/sentences.md)?"
    )


def explain_unfit(
    identical: Sequence[Scores], unrelated: Sequence[Scores], *, recall_only: bool = False
) -> str | None:
    """Give the reason why a judge with these scores cannot judge; None if it can."""
    for score in (*identical, *unrelated):
        if score.failure is not None:
            return f"could not score a first pair: {score.failure}"
    doubtful = mean([score.doubtful_share for score in (*identical, *unrelated)])
    if (reason := explain_doubtful_replies(doubtful)) is not None:
        return reason
    axes = ("recall",) if recall_only else ("precision", "recall")
    high, low = _mean_of_axes(identical, axes), _mean_of_axes(unrelated, axes)
    if high - low >= MIN_SCORE_GAP:
        return None
    return (
        f"does not tell texts apart: identical ones score {high:.2f}, unrelated ones {low:.2f}. "
        "Is it instruction-tuned, and large enough? 135 million parameters are not, 1.5 billion "
        "barely (docs/local_judge.md)"
    )


def _mean_of_axes(scores: Sequence[Scores], axes: Sequence[str]) -> float:
    return mean([getattr(score, axis) for score in scores for axis in axes])


def _image_for(witness: object) -> object:
    # An oracle knows only its own drawings; any other witness can look at a blank.
    from PIL import Image

    from posh_reward.posh.oracle import Oracle

    if isinstance(witness, Oracle):
        return witness.an_image()
    return Image.new("RGB", (168, 112), "white")
