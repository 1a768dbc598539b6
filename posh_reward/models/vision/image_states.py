"""Keys and values of tokens, computed once and attended to by many rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import torch

from posh_reward.models.vision.image_tokens import Ids
from posh_reward.types import PromptImage


class ImageStates:
    """Keys and values of tokens by layer, for one or many rows that follow ``before``.

    A model uses it as its cache, through ``update`` alone.

    Args:
        before: states of the tokens before these, in one row that all rows share.
    """

    def __init__(self, before: ImageStates | None = None) -> None:
        self.before = before
        self.position: int = before.position if before else 0
        """Of the next token. An image has fewer positions than tokens."""
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def length(self) -> int:
        """Tokens per row."""
        return self._layers[0][0].shape[2] if self._layers else 0

    @property
    def total(self) -> int:
        """Tokens per row, including ``before``."""
        return self.length + (self.before.total if self.before else 0)

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values, each (rows, heads, tokens, size); return the whole prompt's."""
        if layer < len(self._layers):
            earlier_key, earlier_value = self._layers[layer]
            key, value = torch.cat([earlier_key, key], 2), torch.cat([earlier_value, value], 2)
            self._layers[layer] = (key, value)
        else:
            self._layers.append((key, value))
        # Expanding the shared row is a view; only this concatenation, which lives for one layer's
        # attention, copies it for all rows.
        pairs = [*self._earlier(layer, len(key)), (key, value)]
        return torch.cat([k for k, _ in pairs], 2), torch.cat([v for _, v in pairs], 2)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        if self._layers:
            kept = torch.tensor(rows, device=self._layers[0][0].device)
            self._layers = [(key[kept], value[kept]) for key, value in self._layers]

    def _earlier(self, layer: int, rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if self.before is not None:
            yield from self.before._earlier(layer, rows)
            key, value = self.before._layers[layer]
            yield key.expand(rows, -1, -1, -1), value.expand(rows, -1, -1, -1)


Key = tuple[tuple[PromptImage, ...], Ids]
"""Images, and a prompt's tokens up to the last of them: its stem."""


class StatesCache:
    """LRU cache of the states of images and of texts after them."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._stems: OrderedDict[Key, dict[Ids, ImageStates]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._stems)

    def find(self, key: Key, prefix: Ids = ()) -> ImageStates | None:
        """The cached states after a stem and a prefix, or None."""
        if key not in self._stems:
            return None
        self._stems.move_to_end(key)
        return self._stems[key].get(prefix)

    def add(self, key: Key, prefix: Ids, states: ImageStates) -> None:
        """Cache states for later prompts."""
        self._stems.setdefault(key, {})[prefix] = states

    def make_room(self, key: Key, tokens: int) -> bool:
        """Evict others until this many more tokens fit; False if they never do."""
        # Evict whole images, oldest first; of image ``key`` only texts after it, since its own
        # states are about to be continued.
        while self._stems and self._tokens() + tokens > self.room:
            oldest = next(iter(self._stems))
            if oldest != key:
                del self._stems[oldest]
                continue
            texts = [prefix for prefix in self._stems[key] if prefix]
            if not texts:
                break
            del self._stems[key][texts[0]]
        return self._tokens() + tokens <= self.room

    def _tokens(self) -> int:
        return sum(each.length for texts in self._stems.values() for each in texts.values())
