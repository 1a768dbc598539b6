"""Forward passes of a vision-language model: each image is computed once for all questions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from posh_reward.models.labels import NOT_NUMBERS
from posh_reward.models.packed.packing import GROUP_KEYS
from posh_reward.models.packed.text_runner import (
    NO_ROOM,
    NOTHING,
    OUT_OF_MEMORY,
    PromptValues,
    Read,
    float32_head,
    likeliest,
)
from posh_reward.models.vision.image_states import ImageStates, StatesCache
from posh_reward.models.vision.image_tokens import Ids, ImageEncoder, ImageTokens
from posh_reward.types import Failure

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Row = tuple[int, Ids]  # index of a prompt, and its tokens after the cached ones
Answer = Callable[[ImageStates, Sequence[Ids]], list[Any]]
"""States of a prefix, and rows that continue it -> an answer for each row."""


class ImageRunner:
    """Read logits after prompts with images and write greedy replies.

    A prompt's images are computed first and cached, as is text after them that several prompts
    share. The rest is computed in batches of rows, padded to the same length. The other rows of a
    batch change only rounding.

    Args:
        model: Qwen2.5-VL or Qwen3-VL, in evaluation mode, on one device.
        encoder: of its images.
        budget: most tokens of questions in a forward pass, padding included. An image is always
            computed in one pass.
    """

    def __init__(self, model: PreTrainedModel, encoder: ImageEncoder, budget: int) -> None:
        self.model = model
        self.encoder = encoder
        self.computed = 0  # prompt tokens computed so far, without padding
        self.decoded = 0  # tokens of replies so far
        self.cache = StatesCache(0)
        self._budget = budget

    def clear(self, room: int) -> None:
        """Drop all states, and make room for those of ``room`` tokens."""
        self.cache = StatesCache(room)

    @torch.inference_mode()
    def read(self, prompts: Sequence[ImageTokens], read: Read) -> list[PromptValues]:
        """``read`` of the logits after each prompt, or a failure."""

        def answer(before: ImageStates, rows: Sequence[Ids]) -> list[PromptValues]:
            logits, _ = self.ends(ImageStates(before), rows)
            values: list[PromptValues] = read(logits).tolist()
            return values

        with float32_head(self.model):
            return self._answers(prompts, 0, answer)

    @torch.inference_mode()
    def write(
        self, prompts: Sequence[ImageTokens], max_tokens: int, stops: Collection[int]
    ) -> list[list[int] | Failure]:
        """The greedy reply to each prompt, including its stop token, or a failure."""
        answer = partial(self._replies, max_tokens=max_tokens, stops=frozenset(stops))
        return self._answers(prompts, max_tokens, answer)

    def _answers(self, prompts: Sequence[ImageTokens], reply: int, answer: Answer) -> list[Any]:
        answers: dict[int, Any] = {}
        by_images: dict[object, list[int]] = {}
        for index, prompt in enumerate(prompts):
            by_images.setdefault((prompt.images, prompt.stem), []).append(index)
        with torch.autocast(self.model.device.type, enabled=False):  # the trainer's, if any
            # Image by image: its hundreds of tokens are computed once for all questions about it,
            # and may be evicted afterwards.
            for group in by_images.values():
                for before, rows in self._states(prompts, group):
                    if isinstance(before, Failure):
                        answers.update((index, before) for index, _ in rows)
                        continue
                    for batch in self._batches(before, rows, reply):
                        answers.update(self._batch_answers(before, batch, answer))
        return [answers[index] for index in range(len(prompts))]

    def _states(
        self, prompts: Sequence[ImageTokens], group: Sequence[int]
    ) -> Iterator[tuple[ImageStates | Failure, list[Row]]]:
        """States for prompts about the same images, and the rows that continue them.

        Text after the images that only one prompt has is part of that prompt's row.
        """
        first = prompts[group[0]]
        stem = self._stem(first)
        if isinstance(stem, Failure):
            yield stem, [(index, ()) for index in group]
            return
        by_prefix: dict[Ids, list[int]] = {}
        for index in group:
            by_prefix.setdefault(prompts[index].prefix, []).append(index)
        unshared: list[Row] = []
        for prefix, indices in by_prefix.items():
            # Three levels: image, shared text after it, question. Each holds only its own states
            # and refers to those of the level before.
            states = stem if not prefix else self.cache.find((first.images, first.stem), prefix)
            if states is None and len(indices) > 1:
                states = self._prefix(first, stem, prefix)
            if states is None:
                unshared += [(index, prefix + prompts[index].own) for index in indices]
            else:
                yield states, [(index, prompts[index].own) for index in indices]
        if unshared:
            yield stem, unshared

    def _stem(self, prompt: ImageTokens) -> ImageStates | Failure:
        key = (prompt.images, prompt.stem)
        if (states := self.cache.find(key)) is not None:
            return states
        if not self.cache.make_room(key, len(prompt.stem)):
            return NO_ROOM
        with suppress(torch.OutOfMemoryError):
            stem = self.look(prompt)
            if isinstance(stem, ImageStates):
                self.cache.add(key, (), stem)
            return stem
        return self._stem(prompt) if self._evict_all() else OUT_OF_MEMORY

    def _evict_all(self) -> bool:
        """Free the memory of all cached images; False if there were none."""
        had_any = bool(self.cache)
        self.clear(self.cache.room)
        torch.cuda.empty_cache()  # does nothing without CUDA
        return had_any

    def look(self, prompt: ImageTokens) -> ImageStates | Failure:
        """Compute a prompt up to the last of its images."""
        patches = self.encoder.patches(prompt.images)
        if isinstance(patches, Failure):
            return patches
        pixels, grid = patches
        ids = torch.tensor([prompt.stem])
        kinds = (ids == self.encoder.placeholder).int()
        core: Any = self.model.base_model
        positions, shift = core.get_rope_index(
            input_ids=ids, mm_token_type_ids=kinds, image_grid_thw=grid
        )
        states = ImageStates()
        real = torch.ones_like(ids, dtype=torch.bool)
        self._pass(states, ids, positions, real, pixel_values=pixels, image_grid_thw=grid)
        # Positions after an image continue from the largest of its three coordinates, not from its
        # number of tokens; ``shift`` is the difference, 0 or less.
        states.position = len(prompt.stem) + int(shift)
        self.computed += len(prompt.stem)
        return states

    def _prefix(self, prompt: ImageTokens, stem: ImageStates, prefix: Ids) -> ImageStates | None:
        """The states of text after images; None if there is no room for them."""
        key = (prompt.images, prompt.stem)
        if not self.cache.make_room(key, len(prefix)):
            return None
        states = ImageStates(stem)
        try:
            self.ends(states, [prefix])
        except torch.OutOfMemoryError:
            return None
        states.position = stem.position + len(prefix)
        self.cache.add(key, prefix, states)
        return states

    def _batches(self, before: ImageStates, rows: Sequence[Row], reply: int) -> Iterator[list[Row]]:
        """Rows of similar lengths, few enough for the budget and for memory."""
        batch: list[Row] = []
        for row in sorted(rows, key=lambda row: (len(row[1]), row[1])):
            longest = len(row[1])
            keys = before.total + longest + reply
            fits = (len(batch) + 1) * longest <= self._budget  # rows ascend in length
            if batch and not (fits and (len(batch) + 1) * keys <= GROUP_KEYS):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _batch_answers(
        self, before: ImageStates, batch: Sequence[Row], answer: Answer
    ) -> list[tuple[int, Any]]:
        """The answers to a batch, computed in halves if memory is too small."""
        with suppress(torch.OutOfMemoryError):
            answers = answer(before, [ids for _, ids in batch])
            return [(index, each) for (index, _), each in zip(batch, answers, strict=True)]
        if len(batch) == 1:
            if not self._evict_all():
                return [(batch[0][0], OUT_OF_MEMORY)]
            return self._batch_answers(before, batch, answer)
        torch.cuda.empty_cache()
        half = len(batch) // 2
        return [
            *self._batch_answers(before, batch[:half], answer),
            *self._batch_answers(before, batch[half:], answer),
        ]

    def ends(self, states: ImageStates, rows: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (rows, vocabulary) after each row, and a mask (rows, longest) of its tokens."""
        lengths = torch.tensor([len(row) for row in rows])
        longest = int(lengths.max())
        real = torch.arange(longest) < lengths[:, None]
        # Padding repeats the row's last token; no row reads another's states.
        ids = torch.tensor([[*row, *row[-1:] * (longest - len(row))] for row in rows])
        # Text has equal positions in time, height and width: (3, rows, longest).
        positions = torch.arange(longest).expand(3, len(rows), -1) + states.position
        hidden = self._pass(states, ids, positions, real)
        last = hidden[torch.arange(len(rows)), lengths - 1]
        head: Any = self.model.get_output_embeddings()
        logits: torch.Tensor = head(last)
        self.computed += int(lengths.sum())
        return logits, real

    def _replies(
        self, before: ImageStates, rows: Sequence[Ids], max_tokens: int, stops: frozenset[int]
    ) -> list[list[int] | Failure]:
        states = ImageStates(before)
        logits, real = self.ends(states, rows)
        replies: list[list[int]] = likeliest(logits).tolist()
        open_rows = list(range(len(rows)))
        head: Any = self.model.get_output_embeddings()
        ends = {*stops, NOTHING}
        for step in range(max_tokens - 1):
            left = [at for at, row in enumerate(open_rows) if replies[row][-1] not in ends]
            if not left:
                break
            if len(left) < len(open_rows):  # drop finished rows
                states.keep(left)
                real, open_rows = real[left], [open_rows[at] for at in left]
            real = torch.cat([real, real.new_ones(len(open_rows), 1)], 1)
            ids = torch.tensor([replies[row][-1:] for row in open_rows])
            lengths = torch.tensor([[len(rows[row])] for row in open_rows])
            positions = (before.position + lengths + step).expand(3, -1, -1)
            hidden = self._pass(states, ids, positions, real)
            for row, token in zip(open_rows, likeliest(head(hidden[:, -1])).tolist(), strict=True):
                replies[row] += token
        self.decoded += sum(map(len, replies))
        return [NOT_NUMBERS if reply[-1] == NOTHING else reply for reply in replies]

    def _pass(
        self,
        states: ImageStates,
        ids: torch.Tensor,
        positions: torch.Tensor,
        real: torch.Tensor,
        **images: torch.Tensor,
    ) -> torch.Tensor:
        """Hidden states (rows, tokens, size) of tokens that follow ``states``, which grow by them.

        Args:
            states: of the same rows; the model uses them as its cache.
            ids: (rows, tokens).
            positions: (3, rows, tokens) in time, height and width.
            real: (rows, own tokens of ``states`` and these) False for padding.
            **images: patches and grids of the images whose placeholders are among the tokens.
        """
        device = self.model.device
        before = states.total - states.length
        mask = visible(before, real.to(device), ids.shape[1], self.model.dtype)
        core: Any = self.model.base_model
        hidden: torch.Tensor = core(
            input_ids=ids.to(device),
            position_ids=positions.to(device),
            attention_mask=mask,
            past_key_values=states,
            use_cache=True,
            **{name: each.to(device) for name, each in images.items()},
        ).last_hidden_state
        return hidden


def visible(before: int, real: torch.Tensor, queries: int, dtype: torch.dtype) -> torch.Tensor:
    """Additive mask (rows, 1, queries, keys): 0 where a query may attend, else minus infinity.

    Args:
        before: number of shared tokens before the rows; all queries see them.
        real: (rows, own) False for padding; the last ``queries`` of the rows' tokens are queries.
        queries: per row.
        dtype: of the model.
    """
    rows, own = real.shape
    causal = real.new_ones(queries, own).tril(own - queries)
    # Shared tokens, then the row's own that are neither padding nor in the future.
    allowed = torch.cat([real.new_ones(rows, queries, before), causal & real[:, None]], -1)
    mask = torch.zeros(allowed.shape, dtype=dtype, device=real.device)  # (rows, queries, keys)
    return mask.masked_fill_(~allowed, float("-inf"))[:, None]
