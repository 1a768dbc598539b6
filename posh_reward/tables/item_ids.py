"""Ids of a table: each stands for one item, with one reference and one text of each model."""

from __future__ import annotations

from hashlib import blake2b

from posh_reward.errors import InputError
from posh_reward.settings import shorten


class ItemIds:
    """The ids of a table; digests, so that a table of millions fits into memory."""

    def __init__(self) -> None:
        self._references: dict[bytes, bytes] = {}
        self._by_model: dict[str, set[bytes]] = {}

    def add(self, id: object, model: object, reference: object, remedy: str) -> None:
        """Add a row's.

        Raises:
            InputError: an earlier row has the id and the model, or with the id another reference.
        """
        own = self._by_model.setdefault(str(model or ""), set())
        if (name := _hash_texts(id)) in own:
            twice = "occurs twice"
            if model:
                twice += f" for the model {shorten(model)}"
            raise InputError(f"the id {shorten(str(id))} {twice}: {remedy}")
        own.add(name)
        self.check_reference(id, reference)

    @property
    def first_model(self) -> str:
        return next(iter(self._by_model), "")

    def apart_from(self, model: str) -> list[str]:
        """Other models that have no id of this one, and so cannot be compared with it."""
        own = self._by_model.get(model, set())
        return [name for name, ids in self._by_model.items() if name != model and not own & ids]

    def differences(self) -> str | None:
        """Say that the models have different ids; None if all have the same."""
        sets = list(self._by_model.values())
        common = len(set.intersection(*sets)) if sets else 0
        if all(len(ids) == common for ids in sets):
            return None
        counts = ", ".join(f"{name!r} {len(ids):,}" for name, ids in self._by_model.items())
        return f"the models have different ids ({counts}; all have {common:,}), and so their means"

    def check_reference(self, id: object, reference: object) -> None:
        """Raise InputError if an earlier row has this id and another reference."""
        if not reference:
            return
        now = _hash_texts(reference)
        if self._references.setdefault(_hash_texts(id), now) != now:
            raise InputError(
                f"the id {shorten(str(id))} has {shorten(reference)} as its reference, and "
                "another one in an earlier row: texts about different images are not to be "
                "compared, so keep the rows of different datasets or splits apart"
            )


def _hash_texts(*values: object) -> bytes:
    text = repr(tuple(map(str, values)))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
