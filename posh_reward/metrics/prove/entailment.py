"""Probability that an image shows a tuple: the paper's p(I |= t') (eq. 2), by a vision model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.metric import check_lists
from posh_reward.metrics.prove.prove_prompts import prompt_of, verdicts_of
from posh_reward.metrics.prove.tuple_scenes import Tuple
from posh_reward.models.asker import Asker
from posh_reward.models.labels import distribution
from posh_reward.models.model import Model, model_of
from posh_reward.store import Store
from posh_reward.types import Failure, PromptImage, Verdict

LABELS = ("no", "yes")


class Entailment:
    """A vision model's probability of "yes" against "no" for statements about images.

    The paper uses OFA, fine-tuned for visual entailment.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    def probabilities(
        self, statements: Sequence[tuple[str, PromptImage | Failure]]
    ) -> list[float | Failure]:
        """Probability that each statement is true of its image; failures of images are kept."""
        prompts = [
            prompt_of("entailment", {"statement": text}, (image,))
            for text, image in statements
            if isinstance(image, PromptImage)
        ]
        verdicts = iter(verdicts_of(self.asker, prompts, LABELS))
        return [
            image if isinstance(image, Failure) else _probability(next(verdicts))
            for _, image in statements
        ]


def _probability(verdict: Verdict) -> float | Failure:
    masses = distribution(verdict)
    return masses if isinstance(masses, Failure) else masses[LABELS.index("yes")]


def entailment_of(
    model: str | Mapping[str, Any] | Model | None, store: Store | None
) -> Entailment | None:
    """Make the judge for a model; None without a model.

    Raises:
        InputError: the model is unknown or does not take images.
        ConfigError: its settings are invalid.
    """
    return None if model is None else Entailment(Asker(model_of(model, sees=True), store))


def check_inputs(
    entailment: Entailment | None, images: Sequence[object] | None, **texts: Sequence[object]
) -> None:
    """Check that all lists match, and that images and the entailment judge come together.

    Raises:
        InputError: they do not.
    """
    check_lists(**texts, **({} if images is None else {"images": images}))
    if images is not None and entailment is None:
        raise InputError("images need a model that judges them: pass entailment=...")
    if images is None and entailment is not None:
        raise InputError("the entailment judge needs images: pass images=...")


def statement(parts: Tuple) -> str:
    """A tuple as a statement about an image."""
    if len(parts) == 1:
        return f'the image shows "{parts[0]}"'
    if len(parts) == 2:
        return f'"{parts[0]}" can be described as "{parts[1]}"'
    return f'"{parts[0]}" {parts[1]} "{parts[2]}"'
