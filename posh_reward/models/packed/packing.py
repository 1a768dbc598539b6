"""Many prompts in one forward pass, each token computed once.

The tokens to compute form one long row, so that linear layers see no padding. Only attention knows
which belong together: each segment attends to its own path, the slots of its prompt's tokens so
far, whichever prompt or pass computed them. Three prompts, in sorted order, and their trie::

    a b c d      prompt 0        a -- b -- c -- d
    a b c e f    prompt 1        |         `--- e -- f
    a g          prompt 2        `--- g

    segment    its slots    its path = what its last token attends to
    a b c d    0 1 2 3      0 1 2 3
    e f        4 5          0 1 2 4 5        slots of a b c, then its own
    g          6            0 6

The pass is ``a b c d e f g``, 7 tokens instead of 11, at positions 0 1 2 3 3 4 1. Every layer
writes the keys and values of the 7 tokens into their slots, then gathers those of each path. The
last n slots of a path are the n tokens of its segment, so that token i of the segment may attend to
all but the last n - 1 - i of the path: e to 0 1 2 4, f to all. If ``a b c x`` follows in a later
pass, its segment is only ``x``, with the path 0 1 2 7.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from posh_reward.errors import InputError, JudgeError
from posh_reward.models import prompt_images
from posh_reward.models.model import Prompt
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Ints = npt.NDArray[np.int64]
TOKEN_TYPE = np.dtype(">u8")  # big-endian, so that keys as bytes sort in token order
IMAGE_BIT = 1 << 63  # in the ids of image tokens, which makes them negative as int64


class PlacedImage(NamedTuple):
    """An image in a prompt: rows x columns tokens from ``start`` on."""

    image: PromptImage
    start: int
    rows: int
    columns: int

    @property
    def end(self) -> int:
        return self.start + self.rows * self.columns


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A tokenised prompt, in two parts: the prefix that other prompts share, and the rest.

    All tokens of an image have one id, which is derived from its pixels. So prompts that begin with
    the same ids begin with the same images, and sharing prefixes shares images as well.
    """

    start: bytes  # ids, eight bytes each
    own: bytes
    images: tuple[PlacedImage, ...] = ()  # in order; all end in ``start``

    @property
    def key(self) -> bytes:
        """All ids as bytes, which sort in token order."""
        return self.start + self.own

    @property
    def ids(self) -> Ints:
        """(tokens,) ids; those of images are negative."""
        return np.frombuffer(self.key, TOKEN_TYPE).astype(np.int64)

    @property
    def shared(self) -> int:
        return len(self.start) // TOKEN_TYPE.itemsize

    def __len__(self) -> int:
        return (len(self.start) + len(self.own)) // TOKEN_TYPE.itemsize

    def positions(self, first: int, end: int) -> Ints:
        """Positions (3, end - first) in time, height and width; ``end`` may lie beyond the prompt.

        An image takes as many positions as its longer side has tokens. For two tokens of text, an
        image of 2 rows and 3 columns, and two more tokens of text:

            time    0 1  2 2 2 2 2 2  5 6
            height  0 1  2 2 2 3 3 3  5 6
            width   0 1  2 3 4 2 3 4  5 6
        """
        if not self.images:
            return np.broadcast_to(np.arange(first, end), (3, end - first))
        positions = np.tile(np.arange(end), (3, 1))
        for image in self.images:
            grid = np.indices((1, image.rows, image.columns)).reshape(3, -1)
            positions[:, image.start : image.end] = positions[:, [image.start]] + grid
            positions[:, image.end :] += max(image.rows, image.columns) - grid.shape[1]
        return positions[:, first:]


def prompt_tokens(
    prompt: Prompt, ids: Sequence[int], shared: int, encoder: ImageEncoder | None
) -> PromptTokens | Failure:
    """A prompt's tokens; a failure for unusable images.

    ``ids`` have one placeholder per image; other prompts share the first ``shared`` of them.
    """
    whole = np.asarray(ids, np.uint64)
    images: list[PlacedImage] = []
    if prompt.images and encoder is not None:
        places = np.flatnonzero(whole == encoder.placeholder)
        if len(places) != len(prompt.images) or places[-1] >= shared:
            return prompt_images.NO_PLACE
        counts = np.ones(len(whole), np.int64)
        for place, image in zip(places.tolist(), prompt.images, strict=True):
            try:
                rows, columns = encoder.find_token_grid(image)
            except InputError as error:
                return prompt_images.image_failure(error)
            images.append(PlacedImage(image, int(counts[:place].sum()), rows, columns))
            counts[place] = rows * columns
            # 63 bits of a digest: among a million images, two are alike with probability 1e-7.
            digest = sha256(image.digest.encode()).digest()
            whole[place] = IMAGE_BIT | int.from_bytes(digest[:8], "big")
        whole, shared = whole.repeat(counts), int(counts[:shared].sum())
    key, at = whole.astype(TOKEN_TYPE).tobytes(), shared * TOKEN_TYPE.itemsize
    return PromptTokens(key[:at], key[at:], tuple(images))


class ImageEncoder:
    """The image processor and the vision tower of Qwen2.5-VL or Qwen3-VL."""

    def __init__(self, model: PreTrainedModel, processor: Any, max_pixels: int) -> None:
        factor = processor.patch_size * processor.merge_size
        prompt_images.check_max_pixels(max_pixels, factor)
        least = min(processor.size["shortest_edge"], max_pixels)
        self.sizes = prompt_images.SizeLimits(factor, least, max_pixels)
        self.placeholder: int = model.config.image_token_id
        self._model: Any = model
        self._processor = processor

    def find_token_grid(self, image: PromptImage) -> tuple[int, int]:
        """Rows and columns of an image's tokens; ``InputError`` if it cannot have any."""
        width, height = prompt_images.size_for_model(
            *prompt_images.read_image_size(image), *self.sizes
        )
        return height // self.sizes.factor, width // self.sizes.factor

    def patches(self, image: PromptImage) -> tuple[torch.Tensor, torch.Tensor] | Failure:
        """Pixels (patches, values per patch) of an image, and its grid (1, 3) of patches."""
        resized = prompt_images.image_for_model(image, self.sizes)
        if isinstance(resized, Failure):
            return resized
        batch = self._processor([resized], do_resize=False, return_tensors="pt")
        device = self._model.device
        return batch["pixel_values"].to(device), batch["image_grid_thw"].to(device)

    def features(self, images: Sequence[PromptImage]) -> torch.Tensor | Failure:
        """Embeddings (1 + layers, tokens, size) of images, one after the other.

        The first replaces token embeddings; Qwen3-VL adds others to its first layers' states.
        """
        found: dict[PromptImage, torch.Tensor] = {}
        for image in dict.fromkeys(images):
            patches = self.patches(image)
            if isinstance(patches, Failure):
                return patches
            pixels, grid = patches
            visual = self._model.base_model.visual
            seen = visual(pixels.to(visual.dtype), grid_thw=grid, return_dict=True)
            layers = [seen.pooler_output, *(getattr(seen, "deepstack_features", None) or ())]
            found[image] = torch.stack(layers)
        return torch.cat([found[image] for image in images], dim=1)


ATTENTION_NAME = "posh_reward_paths"  # this attention's name in transformers
MAX_SEGMENT_TOKENS = 128  # longer segments are split, so that a group's are similar
MAX_GROUP_KEYS = 2**16  # most keys gathered at once, padding included; bounds memory
PATH_STEP_TOKENS = 256  # paths whose lengths lie in one step of this size count as equally long
MAX_LENGTH_RATIO, SPARE_TOKENS = 1.25, 16
"""A group's longest segment has at most 1.25 times the tokens of its shortest, and 16 more."""
KEY_ALIGNMENT_SLOTS = 16
"""Keys of a group are padded to a multiple of this, as fast kernels require of masks."""
SDPA_ON_CUDA = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Kernels that accept a mask and need no new plan for each shape."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of a prompt that are computed together."""

    ids: Ints  # (n,) the tokens; negative for those of images
    positions: Ints  # (3, n) in time, height and width
    path: Ints  # (m,) slots of the prompt's first m tokens; the last n are these tokens' own
    prompt: int | None = None  # index of the prompt that ends with this segment, if one does
    features: torch.Tensor | None = None  # (layers, image tokens among the n, size)


def split_into_segments(
    tokens: PromptTokens, path: Ints, start: int, prompt: int, features: torch.Tensor | None = None
) -> list[Segment]:
    """The tokens of a prompt from ``start`` on, in pieces of about equal length.

    ``features`` (layers, tokens, size) are those of the image tokens from ``start`` on.
    """
    ids, positions = tokens.ids, tokens.positions(start, len(path))
    # Segments of a group are padded to the longest, so equal pieces waste least.
    pieces = math.ceil((len(ids) - start) / MAX_SEGMENT_TOKENS)
    bounds = np.linspace(start, len(ids), pieces + 1).round().astype(int).tolist()
    made = []
    for first, end in pairwise(bounds):
        own_ids, own_positions = ids[first:end], positions[:, first - start : end - start]
        image_tokens = int((own_ids < 0).sum())
        own_features = None
        if features is not None and image_tokens:
            own_features, features = features[:, :image_tokens], features[:, image_tokens:]
        ended = prompt if end == len(ids) else None
        made.append(Segment(own_ids, own_positions, path[:end], ended, own_features))
    return made


def similar_rows(rows: Sequence[Segment]) -> Iterator[list[int]]:
    """Groups of row indices that need little padding and fit into memory."""

    # A group costs rows x (longest row) queries over (longest path) keys. Short questions after
    # long prefixes, and long prefixes themselves, would pad each other: sort by length of path
    # first, in coarse steps so that groups do not shrink to one row, then by length of row.
    def sort_key(index: int) -> tuple[int, int]:
        return len(rows[index].path) // PATH_STEP_TOKENS, len(rows[index].ids)

    group: list[int] = []
    longest_path = 0
    for index in sorted(range(len(rows)), key=sort_key):
        length, path = len(rows[index].ids), len(rows[index].path)
        if group:
            keys = (len(group) + 1) * max(longest_path, path)
            shortest = len(rows[group[0]].ids)  # since lengths ascend
            if keys > MAX_GROUP_KEYS or length > shortest * MAX_LENGTH_RATIO + SPARE_TOKENS:
                yield group
                group, longest_path = [], 0
        group.append(index)
        longest_path = max(longest_path, path)
    yield group


NO_SLOTS: Ints = np.zeros(0, np.int64)


class Slots:
    """Reference-counted slots, and an LRU cache of prefixes that yields when slots run out.

    These are only numbers; the tensors are in ``SlotStates``. A slot is one token, not a page of
    several: prefixes are shared up to their last common token.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._users = np.zeros(capacity, np.int32)
        self._free: Ints = np.arange(capacity, dtype=np.int64)[::-1].copy()
        self._left = capacity
        self._prefixes: OrderedDict[bytes, Ints] = OrderedDict()
        self._keys: list[bytes] = []

    def take(self, count: int) -> Ints | None:
        """Allocate slots with one user each; None if there are not enough."""
        while self._left < count and self._prefixes:
            key, path = self._prefixes.popitem(last=False)
            del self._keys[bisect_left(self._keys, key)]
            self.release(path)
        if self._left < count:
            return None
        # A stack, lowest slots on top: a path then covers neighbouring rows of the tensors, which
        # are faster to gather.
        slots: Ints = self._free[self._left - count : self._left][::-1].copy()
        self._left -= count
        self._users[slots] = 1
        return slots

    def hold(self, path: Ints) -> None:
        """Add a user to each slot; ``path`` has no duplicates."""
        self._users[path] += 1

    def release(self, path: Ints) -> None:
        """Remove a user from each slot; free slots without users."""
        self._users[path] -= 1
        idle = path[self._users[path] == 0]
        self._free[self._left : self._left + len(idle)] = idle
        self._left += len(idle)

    def keep(self, key: bytes, path: Ints) -> None:
        """Cache the states of these tokens for later prompts."""
        if key in self._prefixes:
            self._prefixes.move_to_end(key)
            return
        self.hold(path)
        self._prefixes[key] = path
        self._keys.insert(bisect_left(self._keys, key), key)

    def prefix(self, key: bytes) -> Ints:
        """Slots of the longest cached prefix of these tokens."""
        nearest = self.nearest(key)
        if not nearest:
            return NO_SLOTS
        self._prefixes.move_to_end(nearest)
        return self._prefixes[nearest][: count_common_tokens(nearest, key)]

    def nearest(self, key: bytes) -> bytes:
        """The cached key with the longest common prefix; empty if none is cached."""
        # In sorted order, it is one of the two neighbours.
        at = bisect_left(self._keys, key)
        neighbours = self._keys[max(at - 1, 0) : at + 1]
        return max(neighbours, key=lambda each: count_common_tokens(each, key), default=b"")


def count_common_tokens(first: bytes, second: bytes) -> int:
    """Length in tokens of the common prefix."""
    length = min(len(first), len(second)) // TOKEN_TYPE.itemsize
    first_ids = np.frombuffer(first, TOKEN_TYPE, length)
    different = first_ids != np.frombuffer(second, TOKEN_TYPE, length)
    if not different.any():
        return length
    return int(different.argmax())


class SlotStates:
    """Keys and values of every layer, by slot."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # (capacity, heads, size)

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of one slot in all layers written so far."""
        tensors = chain.from_iterable(self.layers.values())
        return sum(tensor.nbytes for tensor in tensors) // self.capacity

    def write(
        self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (tokens, heads, size) into their slots; return all of the layer."""
        if layer not in self.layers:
            self.layers[layer] = (
                key.new_empty((self.capacity, *key.shape[1:])),
                value.new_empty((self.capacity, *value.shape[1:])),
            )
        keys, values = self.layers[layer]
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)
        return keys, values


class RowGroup:
    """Segments of similar lengths, padded to the same length for one call of attention."""

    def __init__(
        self, rows: Sequence[Segment], offsets: Sequence[int], device: torch.device
    ) -> None:
        # Padding repeats a token of the same row, so no prompt ever reads another's states.
        # Repeated queries are dropped by ``real``; repeated keys lie beyond every query's position,
        # so the causal mask hides them.
        lengths = np.array([[len(row.ids)] for row in rows])  # (rows, 1)
        path_lengths = np.array([[len(row.path)] for row in rows])  # (rows, 1)
        columns = np.arange(lengths.max())  # (width,)
        keys = math.ceil(path_lengths.max() / KEY_ALIGNMENT_SLOTS) * KEY_ALIGNMENT_SLOTS
        column = np.minimum(columns, lengths - 1)  # (rows, width)
        query = column + np.array(offsets)[:, None]
        real = np.flatnonzero(columns < lengths)
        paths = [np.pad(row.path, (0, keys - len(row.path)), "edge") for row in rows]
        self.query = copy_to_device(device, query)  # (rows, width) indices of tokens in the pass
        self.key = copy_to_device(device, np.stack(paths))  # (rows, keys) slots
        # (tokens,) The rows x width queries that are not padding, and the index of each in the pass
        self.real = copy_to_device(device, real)
        self.target = copy_to_device(device, query.reshape(-1)[real])
        # Indices into the row's path, whichever slots that consists of.
        self._at = copy_to_device(device, column + path_lengths - lengths)  # (rows, width)
        self._masks: dict[tuple[int, int | None], torch.Tensor] = {}

    def attend_together(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scaling: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Attention (tokens, heads, size) of the group's tokens; ``window`` is as far as they see.

        ``query`` is (tokens of the pass, heads, size), ``keys`` and ``values`` (slots, heads,
        size), perhaps with fewer heads.
        """
        heads, shared = keys.shape[1], query.shape[1] // keys.shape[1]
        rows, width = self.query.shape
        # Grouped-query attention: ``shared`` query heads use the same keys. Arranged as shared x
        # width queries of one key head, they need the keys gathered only once.
        queries = rows_at(query, self.query).view(rows, width, heads, shared, -1)
        queries = queries.permute(0, 2, 3, 1, 4)  # (rows, heads, shared, width, size)
        with sdpa_kernel(SDPA_ON_CUDA) if query.is_cuda else nullcontext():
            out = torch.nn.functional.scaled_dot_product_attention(
                queries.reshape(rows, heads, shared * width, -1),
                rows_at(keys, self.key).transpose(1, 2),  # (rows, heads, keys, size)
                rows_at(values, self.key).transpose(1, 2),
                attn_mask=self._build_mask(shared, window, query.dtype),
                scale=scaling,
            )
        out = out.view(rows, heads, shared, width, -1).permute(0, 3, 1, 2, 4)
        return out.reshape(rows * width, heads * shared, -1).index_select(0, self.real)

    def _build_mask(self, shared: int, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """Additive mask (rows, 1, shared x width, keys): 0 where a query may attend, else -inf."""
        if (shared, window) not in self._masks:
            at = torch.arange(self.key.shape[1], device=self.key.device)  # (keys,)
            query_at = self._at[:, :, None]  # (rows, width, 1)
            visible = at <= query_at  # (rows, width, keys)
            if window is not None:
                visible &= at > query_at - window
            mask = torch.zeros(visible.shape, dtype=dtype, device=at.device)
            mask.masked_fill_(~visible, float("-inf"))
            # Cached for all layers of a pass: they differ at most in their window.
            self._masks[shared, window] = mask.repeat(1, shared, 1)[:, None]
        return self._masks[shared, window]


class Pack:
    """One forward pass of segments, whose paths are slots written earlier or in this pass."""

    def __init__(self, rows: Sequence[Segment], states: SlotStates, device: torch.device) -> None:
        # All rows are concatenated without padding: linear layers, which take most of the time,
        # compute no wasted token. Only ``groups`` pad, and only for attention.
        self.prompts: list[int] = []  # that end in this pass
        self.states = states
        offsets, last = [], []  # each row's first token in the pass; each prompt's last one
        features: list[torch.Tensor] = []
        tokens = 0
        for row in rows:
            offsets.append(tokens)
            tokens += len(row.ids)
            if row.prompt is not None:
                self.prompts.append(row.prompt)
                last.append(tokens - 1)
            if row.features is not None:
                features.append(row.features)
        self.ids = copy_to_device(device, np.concatenate([row.ids for row in rows]))  # (tokens,)
        self.positions = copy_to_device(
            device, np.concatenate([row.positions for row in rows], axis=1)
        )
        self.slots = copy_to_device(
            device, np.concatenate([row.path[-len(row.ids) :] for row in rows])
        )
        self.features: torch.Tensor | None = None  # (layers, image tokens, size)
        if features:
            self.features = torch.cat(features, dim=1)
        self.last = copy_to_device(device, np.asarray(last, np.int64))  # (prompts,)
        self.groups: list[RowGroup] = []
        for group in similar_rows(rows):
            group_rows, group_offsets = [rows[i] for i in group], [offsets[i] for i in group]
            self.groups.append(RowGroup(group_rows, group_offsets, device))

    def run(self, model: PreTrainedModel) -> torch.Tensor:
        """Logits (prompts, vocabulary) after the prompts that end in this pass, in their order."""
        # Instead of transformers' cache, ``attend_packed`` reads and writes ``states``.
        options: dict[str, Any] = {"use_cache": False, "pack": self}
        logits: torch.Tensor
        # A trainer's autocast would round a float32 judge to bfloat16.
        with torch.autocast(model.device.type, enabled=False):
            if self.features is None:
                options |= {"input_ids": self.ids[None], "logits_to_keep": self.last}
                # In text, the positions in time, height and width are equal.
                logits = model(position_ids=self.positions[:1], **options).logits[0]
                return logits
            seen = self.ids < 0  # (tokens,)
            embedded = model.get_input_embeddings()(self.ids.clamp(min=0))  # (tokens, size)
            embedded[seen] = self.features[0].to(embedded.dtype)
            if len(self.features) > 1:  # Qwen3-VL adds features in its first layers, too
                deep = [*self.features[1:]]
                options |= {"visual_pos_masks": seen[None], "deepstack_visual_embeds": deep}
            hidden = model.get_decoder()(
                inputs_embeds=embedded[None], position_ids=self.positions[:, None], **options
            ).last_hidden_state[0]
            logits = model.get_output_embeddings()(hidden[self.last])
            return logits


def rows_at(values: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """``values[which]``, by a faster operation that copies whole rows."""
    return values.index_select(0, which.flatten()).view(*which.shape, *values.shape[1:])


def attend_packed(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    pack: Pack | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention (1, tokens, heads, size) for transformers to call in each layer.

    ``query`` is (1, heads, tokens, size); ``key`` and ``value`` may have fewer heads.
    """
    extras = ("softcap", "s_aux", "position_bias")
    needed = next((name for name in extras if options.get(name) is not None), None)
    if pack is None or needed is not None:
        raise JudgeError(
            f"{type(module).__name__} needs {needed or 'its own attention'}, which packed prompts "
            "do not support: serve the model with vLLM, judge 'server'"
        )
    layer: Any = module.layer_idx
    query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
    # Write before reading: a row's path ends in the slots of its own tokens, and a row may
    # continue another row of this pass.
    keys, values = pack.states.write(layer, pack.slots, key, value)
    out = query.new_empty((*query.shape[:2], value.shape[-1]))
    for group in pack.groups:
        part = group.attend_together(query, keys, values, scaling, sliding_window)
        out.index_copy_(0, group.target, part)
    return out[None], None


@contextmanager
def packed_attention(model: PreTrainedModel) -> Iterator[None]:
    """Use packed attention in the model inside this context."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, attend_packed)
    decoder = model.get_decoder()  # not a vision tower, which attends as it always does
    before = decoder.config._attn_implementation
    decoder.set_attn_implementation(ATTENTION_NAME)
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)


def copy_to_device(device: torch.device, values: Ints) -> torch.Tensor:
    """Copy an array to a device without waiting for the device's earlier work."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
