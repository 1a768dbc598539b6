"""What ``PoSh.score`` is given -> what can be examined, or why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.models.pictures import picture_of
from posh_reward.types import Description, Failure, Picture


class Task(NamedTuple):
    """A pair as it was given."""

    generation: str | None
    reference: str | None
    picture: Picture | Failure | None

    @property
    def hashable(self) -> bool:
        """Whether both texts are texts."""
        return isinstance(self.generation, str) and isinstance(self.reference, str)


class Pair(NamedTuple):
    """A pair that can be examined."""

    generation: Description
    reference: Description
    picture: Picture | None


def read_pictures(images: Sequence[object] | None, expected: int) -> list[Picture | Failure]:
    """The pictures that a witness is asked about; each object is read once.

    Raises:
        InputError: there are none, or not one for each pair.
    """
    if images is None:
        raise InputError("this metric has a witness, which looks at pictures: pass images=...")
    if len(images) != expected:
        raise InputError(f"{len(images)} images for {expected} generations: pass one for each")
    held = list(images)  # a column of a dataset decodes its pictures anew at each look
    known: dict[int, Picture | Failure] = {}
    for image in held:
        if id(image) not in known:
            known[id(image)] = picture_of(image)
    return [known[id(image)] for image in held]


def check_lists(generations: Sequence[object], references: Sequence[object]) -> None:
    """Raises ``InputError`` unless there are two lists of one length."""
    for name, texts in (("generations", generations), ("references", references)):
        if isinstance(texts, str | bytes):
            raise InputError(f"{name} is one string: pass a list of texts, [{texts[:40]!r}]")
    if len(generations) != len(references):
        raise InputError(
            f"{len(generations)} generations but {len(references)} references: "
            "pass one reference for each generation"
        )


def sound(
    generation: Description | Failure,
    reference: Description | Failure,
    picture: Picture | Failure | None,
) -> Pair | None:
    """The pair, if it can be examined: an empty reference says nothing to compare with."""
    if isinstance(generation, Failure) or isinstance(reference, Failure):
        return None
    if isinstance(picture, Failure) or not reference.text:
        return None
    return Pair(generation, reference, picture)


def why_unscorable(
    generation: Description | Failure,
    reference: Description | Failure,
    picture: Picture | Failure | None,
) -> Failure:
    """Why ``sound`` makes no pair of them."""
    for name, text in (("reference", reference), ("generation", generation)):
        if isinstance(text, Failure):
            return replace(text, detail=f"the {name} {text.detail}")
    return picture if isinstance(picture, Failure) else Failure("text", "the reference is empty")
