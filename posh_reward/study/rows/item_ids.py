"""Ids of a table: each stands for one item, with one reference and one text of each model."""

from __future__ import annotations

from hashlib import blake2b

from posh_reward.errors import InputError
from posh_reward.settings import brief


class ItemIds:
    """The ids of a table; digests, so that a table of millions fits into memory."""

    def __init__(self) -> None:
        self._references: dict[bytes, bytes] = {}
        self._texts: set[bytes] = set()

    def add(self, id: object, model: object, reference: object, remedy: str) -> None:
        """Add a row's.

        Raises:
            InputError: an earlier row has the id and the model, or with the id another reference.
        """
        text = _digest(id, model)
        if text in self._texts:
            twice = "occurs twice"
            if model:
                twice += f" for the model {brief(model)}"
            raise InputError(f"the id {brief(str(id))} {twice}: {remedy}")
        self._texts.add(text)
        self.check_reference(id, reference)

    def check_reference(self, id: object, reference: object) -> None:
        """Raise InputError if an earlier row has this id and another reference."""
        if not reference:
            return
        now = _digest(reference)
        if self._references.setdefault(_digest(id), now) != now:
            raise InputError(
                f"the id {brief(str(id))} has {brief(reference)} as its reference, and another one "
                "in an earlier row: texts about different images are not to be compared, so keep "
                "the rows of different datasets or splits apart"
            )


def _digest(*values: object) -> bytes:
    return blake2b(
        repr(tuple(map(str, values))).encode("utf-8", "replace"), digest_size=16
    ).digest()
