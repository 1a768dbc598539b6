"""What ``PoSh.score`` is given -> what can be examined, or why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.metrics.inputs import check_lists
from posh_reward.models.prompt_images import images_of
from posh_reward.types import Description, Failure, PromptImage


class Task(NamedTuple):
    """A pair as it was given."""

    generation: str | None
    reference: str | None
    image: PromptImage | Failure | None

    @property
    def hashable(self) -> bool:
        """Whether both texts are texts."""
        return isinstance(self.generation, str) and isinstance(self.reference, str)


class Pair(NamedTuple):
    """A pair that can be examined."""

    generation: Description
    reference: Description
    image: PromptImage | None


def check_given(
    generations: Sequence[object],
    references: Sequence[object],
    images: Sequence[object] | None,
    *,
    looks: bool,
) -> Sequence[object] | None:
    """The images, if a witness looks at them; None if nobody does.

    Raises:
        InputError: the lists differ in length, one is a bare string, or images are missing.
    """
    check_lists(generations=generations, references=references)
    if not looks:
        return None
    if images is None:
        raise InputError("this metric has a witness, which looks at images: pass images=...")
    check_lists(generations=generations, images=images)
    return images


def tasks_of(
    generations: Sequence[str | None],
    references: Sequence[str | None],
    images: Sequence[object] | None,
) -> list[Task]:
    """The pairs, each with its image if there are images."""
    prompt_images = [None] * len(generations) if images is None else images_of(images)
    return list(map(Task, generations, references, prompt_images))


def sound(
    generation: Description | Failure,
    reference: Description | Failure,
    image: PromptImage | Failure | None,
) -> Pair | None:
    """The pair, if it can be examined: an empty reference says nothing to compare with."""
    if isinstance(generation, Failure) or isinstance(reference, Failure):
        return None
    if isinstance(image, Failure) or not reference.text:
        return None
    return Pair(generation, reference, image)


def why_unscorable(
    generation: Description | Failure,
    reference: Description | Failure,
    image: PromptImage | Failure | None,
) -> Failure:
    """Why ``sound`` makes no pair of them."""
    for name, text in (("reference", reference), ("generation", generation)):
        if isinstance(text, Failure):
            return replace(text, detail=f"the {name} {text.detail}")
    return image if isinstance(image, Failure) else Failure("text", "the reference is empty")
