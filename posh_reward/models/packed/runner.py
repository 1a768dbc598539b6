"""Forward passes of a language model, computing shared prefixes once, even across calls.

Prompts are taken in sorted order, so that those with common beginnings, images included, follow
each other: each needs states only from where it differs from the one before, or from a cached one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.errors import JudgeError
from posh_reward.models.asker import NO_IMAGES_ACCEPTED
from posh_reward.models.chat import Chat
from posh_reward.models.model import NOT_NUMBERS, OnAnswer, Prompt, ignore_answer
from posh_reward.models.packed.checkpoint import free_memory
from posh_reward.models.packed.host_copy import HostCopy
from posh_reward.models.packed.packing import (
    NO_SLOTS,
    ImageEncoder,
    Ints,
    Pack,
    PromptTokens,
    Segment,
    Slots,
    SlotStates,
    copy_to_device,
    count_common_tokens,
    packed_attention,
    prompt_tokens,
    split_into_segments,
)
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from transformers import PreTrainedModel


logger = logging.getLogger(__name__)

Read = Callable[[torch.Tensor], torch.Tensor]  # logits (prompts, vocabulary) -> (prompts, values)
PassValues = tuple[list[int], torch.Tensor]  # prompts that ended in a pass; values read there
PromptValues = list[float] | Failure  # values read after a prompt

HEAD_CHUNK_TOKENS = 16384  # tokens of the vocabulary whose weights are cast to float32 at once
NO_TOKEN_ID = -1  # in place of a token where logits are NaN
COLLECT_INTERVAL_SECONDS = 1.0  # between readings of values: a kill costs only the last ones
REPLIES_AT_ONCE = 512  # enough to keep a large GPU busy; their logits take 150 MB
NO_ROOM = Failure("prompt", "the prompt does not fit into memory_gb: raise it")
OUT_OF_MEMORY = Failure(
    "engine", "out of memory: lower max_batch_tokens or memory_gb, or choose a smaller model"
)


@dataclass
class Prefill:
    """The prompts of one call: rows that wait, passes on the device, values read from it."""

    read: Read
    note: OnAnswer
    hold: bool  # True if paths stay allocated, for replies
    rows: list[Segment] = field(default_factory=list)  # with slots, not yet computed
    waiting_tokens: int = 0  # of ``rows``
    paths: dict[int, Ints] = field(default_factory=dict)  # of prompts with allocated slots
    passes: list[PassValues] = field(default_factory=list)  # computed, not yet collected
    values: dict[int, PromptValues] = field(default_factory=dict)
    collected: float = field(default_factory=time.monotonic)

    def collect_values(self) -> None:
        """Read the passes' values from the device, which waits for the last of them."""
        for ended, pass_values in self.passes:
            for index, values in zip(ended, pass_values.tolist(), strict=True):
                self.values[index] = values
                self.note(index, values)
        self.passes.clear()
        self.collected = time.monotonic()


class Runner:
    """Read logits after prompts and write greedy replies.

    Results do not depend on the order of the prompts. The other prompts of a pass, and how much of
    a prompt is cached, change only rounding: by about 1e-6 of a logit in float32, a few hundredths
    in bfloat16. Passes are of ``budget`` tokens and what the last prompt has beyond them.
    """

    def __init__(
        self, model: PreTrainedModel, budget: int, encoder: ImageEncoder | None = None
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.computed = 0  # prompt tokens computed so far
        self.decoded = 0  # tokens of replies so far
        self._full_budget = budget
        self._last: tuple[bytes, Ints] = (b"", NO_SLOTS)
        self.clear(0)

    def clear(self, capacity: int) -> None:
        """Drop all states, make room for those of ``capacity`` tokens, and reset the budget."""
        self.states = SlotStates(capacity)
        self._budget = self._full_budget
        self._reset_slots()

    @torch.inference_mode()
    def read(
        self, prompts: Sequence[PromptTokens], read: Read, note: OnAnswer = ignore_answer
    ) -> list[PromptValues]:
        """``read`` of the logits after each prompt, or a failure."""
        with self._use_packed_attention(), float32_head(self.model):
            values, paths = self._prefill(prompts, read, note, hold=False)
        assert not paths
        return values

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[PromptTokens],
        max_tokens: int,
        stops: Collection[int],
        note: OnAnswer = ignore_answer,
    ) -> list[list[int] | Failure]:
        """The greedy reply to each prompt, including its stop token, or a failure."""
        replies: dict[int, list[int] | Failure] = {}
        with self._use_packed_attention():
            for group in self._group_by_capacity(prompts, max_tokens):
                self._release_last()
                group_replies = self._write_replies([prompts[i] for i in group], max_tokens, stops)
                replies.update(zip(group, group_replies, strict=True))
                for index in group:
                    note(index, replies[index])
        return [replies.get(index, NO_ROOM) for index in range(len(prompts))]

    def _prefill(
        self,
        prompts: Sequence[PromptTokens],
        read: Read,
        note: OnAnswer = ignore_answer,
        *,
        hold: bool,
    ) -> tuple[list[PromptValues], dict[int, Ints]]:
        """The values after each prompt and, with ``hold``, the paths of prompts that have them."""
        prefill = Prefill(read, note, hold)
        try:
            for index in sorted(range(len(prompts)), key=lambda i: self._rank(prompts[i])):
                self._add_prompt(prefill, index, prompts[index])
                if prefill.waiting_tokens >= self._budget:
                    self._compute_rows(prefill)
            self._compute_rows(prefill)
        except torch.OutOfMemoryError:
            self._reset_slots()
            prefill.paths.clear()
            if hold:
                prefill.passes.clear()  # without their states, replies cannot go on
        prefill.collect_values()
        values = [prefill.values.get(index, OUT_OF_MEMORY) for index in range(len(prompts))]
        return values, prefill.paths

    def _rank(self, prompt: PromptTokens) -> tuple[bool, bytes, bytes]:
        """The sort key of a prompt: with a cached prefix first, before it is evicted."""
        cached = count_common_tokens(self._slots.nearest(prompt.start), prompt.start)
        return cached < prompt.shared, prompt.start, prompt.own

    def _add_prompt(self, prefill: Prefill, index: int, prompt: PromptTokens) -> None:
        """Add a prompt's rows to those that wait; its failure if that is impossible."""
        rows = self._allocate_rows(prompt, index)
        if rows is NO_ROOM:  # computing the waiting rows frees slots
            self._compute_rows(prefill)
            self._release_last()
            rows = self._allocate_rows(prompt, index)
        if isinstance(rows, Failure):
            prefill.values[index] = rows
            return
        prefill.paths[index] = rows[-1].path
        prefill.rows.extend(rows)
        prefill.waiting_tokens += sum(len(row.ids) for row in rows)

    def _compute_rows(self, prefill: Prefill) -> None:
        """Compute the rows that wait; release the paths of prompts that end, unless held."""
        if not prefill.rows:
            return
        for ended, values in self._compute_passes(prefill.rows, prefill.read):
            prefill.passes.append((ended, values))
            if not prefill.hold:
                for index in ended:
                    self._slots.release(prefill.paths.pop(index))
        self.computed += prefill.waiting_tokens
        prefill.rows.clear()
        prefill.waiting_tokens = 0
        if not prefill.hold and time.monotonic() > prefill.collected + COLLECT_INTERVAL_SECONDS:
            prefill.collect_values()

    def _allocate_rows(self, prompt: PromptTokens, index: int) -> list[Segment] | Failure:
        """Allocate slots for a prompt's tokens; return the rows to compute."""
        key, (last_key, last) = prompt.key, self._last
        prefix = max(last[: count_common_tokens(last_key, key)], self._slots.prefix(key), key=len)
        prefix = prefix[: len(prompt) - 1]  # the last token must be computed: it is read
        self._slots.hold(prefix)  # otherwise ``take`` might evict it
        new = self._slots.take(len(prompt) - len(prefix))
        if new is None:
            self._slots.release(prefix)
            return NO_ROOM
        path = np.concatenate([prefix, new])
        features = self._encode_images(prompt, len(prefix))
        if isinstance(features, Failure):
            self._slots.release(path)
            return features
        # The previous prompt is held until now: in sorted order the next one shares most with it,
        # even beyond the cached prefix.
        self._slots.hold(path)
        self._slots.release(last)
        self._last = (key, path)
        self._slots.keep(prompt.start, path[: prompt.shared])
        return split_into_segments(prompt, path, len(prefix), index, features)

    def _encode_images(self, prompt: PromptTokens, start: int) -> torch.Tensor | Failure | None:
        """Features of a prompt's images from token ``start`` on, if there are any.

        Only here are pixels read: those of a pass, so of ``budget`` tokens and one prompt.
        """
        images = [each.image for each in prompt.images if each.start >= start]
        if not images or self.encoder is None:
            return None
        try:
            with torch.autocast(self.model.device.type, enabled=False):
                return self.encoder.features(images)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # does nothing without CUDA
            return OUT_OF_MEMORY

    def _compute_passes(self, rows: Sequence[Segment], read: Read) -> Iterator[PassValues]:
        """Compute rows in one pass, or in more if memory is too small for that."""
        try:
            yield self._compute_pass(rows, read)
            return
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise
        torch.cuda.empty_cache()
        tokens = sum(len(row.ids) for row in rows)
        self._budget = max(min(self._budget, tokens) // 2, 1)
        logger.warning("the judge is out of memory: passes of %d tokens from now on", self._budget)
        # In order, since a row may continue one of the first half.
        half = len(rows) // 2
        yield from self._compute_passes(rows[:half], read)
        yield from self._compute_passes(rows[half:], read)

    def _compute_pass(self, rows: Sequence[Segment], read: Read) -> PassValues:
        # In its own frame, so that the pack of a failed pass, whose masks may take gigabytes, is
        # freed before the halves run.
        pack = Pack(rows, self.states, self.model.device)
        return pack.prompts, read(pack.run(self.model))

    def _group_by_capacity(
        self, prompts: Sequence[PromptTokens], reply_tokens: int
    ) -> Iterator[list[int]]:
        """Sorted prompts in groups that fit into the slots with their replies; none too long."""
        group: list[int] = []
        left = self._slots.capacity
        for index in sorted(range(len(prompts)), key=lambda i: (prompts[i].start, prompts[i].own)):
            need = len(prompts[index]) + reply_tokens
            if group and (need > left or len(group) == REPLIES_AT_ONCE):
                yield group
                group, left = [], self._slots.capacity
            if need <= left:
                group.append(index)
                left -= need
        if group:
            yield group

    def _write_replies(
        self, prompts: Sequence[PromptTokens], max_tokens: int, stops: Collection[int]
    ) -> list[list[int] | Failure]:
        # The prefill's logits give each reply's first token. Paths are held, since every further
        # token attends to its whole prompt.
        first, paths = self._prefill(prompts, find_likeliest, hold=True)
        replies: list[Any] = list(first)
        unfinished = list(paths)
        ends = {*stops, NO_TOKEN_ID}
        try:
            for _ in range(max_tokens - 1):
                unfinished = [i for i in unfinished if replies[i][-1] not in ends]
                if not unfinished:
                    break
                slots = self._slots.take(len(unfinished))
                assert slots is not None, "groups are sized to fit"
                rows = []
                for index, slot in zip(unfinished, slots, strict=True):
                    # A row is one token long: the reply's last, at the end of its path.
                    path = paths[index] = np.append(paths[index], slot)
                    ids = np.asarray(replies[index][-1:], np.int64)
                    positions = prompts[index].positions(len(path) - 1, len(path))
                    rows.append(Segment(ids, positions, path, index))
                for start in range(0, len(rows), self._budget):
                    part = rows[start : start + self._budget]
                    for ended, tokens in self._compute_passes(part, find_likeliest):
                        for index, token in zip(ended, tokens.tolist(), strict=True):
                            replies[index] += token
            for path in paths.values():
                self._slots.release(path)
            unfinished = []
        except torch.OutOfMemoryError:
            self._reset_slots()
        for reply in replies:
            if not isinstance(reply, Failure):
                self.decoded += len(reply)
        for index in paths:
            if index in unfinished:
                replies[index] = OUT_OF_MEMORY
            elif replies[index][-1] == NO_TOKEN_ID:
                replies[index] = NOT_NUMBERS
        return replies

    @contextmanager
    def _use_packed_attention(self) -> Iterator[None]:
        try:
            with packed_attention(self.model):
                yield
        except BaseException:
            self._reset_slots()  # the contents of slots are unknown after an error
            raise

    def _reset_slots(self) -> None:
        self._slots = Slots(self.states.capacity)
        self._last = (b"", NO_SLOTS)

    def _release_last(self) -> None:
        self._slots.release(self._last[1])
        self._last = (b"", NO_SLOTS)


def log_probabilities(logits: torch.Tensor, tokens: Sequence[int], top: int = 0) -> torch.Tensor:
    """Log-probabilities (prompts, tokens) of these tokens, normalised over the vocabulary.

    ``logits`` are (prompts, vocabulary). Tokens beyond the ``top`` likeliest get minus infinity.
    """
    logits = logits.float()
    token_logits = logits.index_select(
        -1, copy_to_device(logits.device, np.asarray(tokens, np.int64))
    )
    logprobs = token_logits - logits.logsumexp(-1, keepdim=True)
    if not top:
        return logprobs
    least = logits.topk(min(top, logits.shape[-1])).values[:, -1:]
    # Comparisons with NaN are false, so NaN stays NaN.
    return logprobs.masked_fill(token_logits < least, float("-inf"))


def find_likeliest(logits: torch.Tensor) -> torch.Tensor:
    """Tokens (prompts, 1) with the highest logit; ``NO_TOKEN_ID`` where some logit is NaN."""
    return torch.where(logits.isnan().any(-1), NO_TOKEN_ID, logits.argmax(-1))[:, None]


@contextmanager
def float32_head(model: PreTrainedModel) -> Iterator[None]:
    """Inside this context, compute logits in float32: bfloat16 rounds them to multiples of 1/8."""
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or head.weight.dtype == torch.float32:
        yield
        return

    def in_float32(module: torch.nn.Linear, inputs: tuple[torch.Tensor], _: Any) -> torch.Tensor:
        hidden = inputs[0].float()  # (1, prompts, size)
        # In chunks: all weights in float32 would take as much memory as several layers.
        chunks = torch.split(module.weight, HEAD_CHUNK_TOKENS)
        logits = torch.cat([hidden @ chunk.float().T for chunk in chunks], dim=-1)
        if module.bias is None:
            return logits
        return logits + module.bias

    hook = head.register_forward_hook(in_float32)
    try:
        yield
    finally:
        hook.remove()


DEFAULT_CPU_STATE_BYTES = 2 * 2**30  # default memory for states on a CPU
CUDA_STATE_SHARE = 0.5  # default share of the memory that the weights leave free on a GPU
MAX_STORED_TOKENS = 2**20  # cap on stored states
SAMPLE_PROMPTS = [
    Prompt("A dog and a cat sleep.\n\n", 'Q: Is "dog" there?'),
    Prompt("A dog and a cat sleep.\n\n", 'Q: Is "it" there?'),
]
"""Two prompts with a common prefix."""
MAX_RELATIVE_RMS_DIFFERENCE = 0.1
"""Maximal RMS difference of packed and plain logits, relative to their standard deviation. Rounding
in bfloat16 causes a few hundredths; seeing another prompt's token about 1."""


class LoadedModel:
    """A model on its device, with its tokenizer and, if it takes images, their processor."""

    def __init__(
        self, model: PreTrainedModel, chat: Chat, images: Any, budget: int, max_pixels: int
    ) -> None:
        self.model = model.eval()
        self.chat = chat
        encoder = None if images is None else ImageEncoder(model, images, max_pixels)
        self.runner = Runner(model, budget, encoder)
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context = context if isinstance(context, int) else math.inf
        self.per_token = self._check_against_plain()  # bytes of a token's states
        self._device = model.device

    @cached_property
    def _host_copy(self) -> HostCopy:
        return HostCopy(self.model.parameters())

    @property
    def stops(self) -> set[int]:
        ends = getattr(self.model.generation_config, "eos_token_id", None)
        several = ends if isinstance(ends, list) else [ends]
        stops = {*several, self.chat.tokenizer.eos_token_id, self.chat.turn_end}
        return {token for token in stops if token is not None}

    def encode(self, prompts: Sequence[Prompt], reply_tokens: int) -> list[PromptTokens | Failure]:
        """Tokenise prompts; fail those with unusable images, or too long with the reply."""
        encoder, limit = self.runner.encoder, self._context
        why = f"the prompt is longer than the model's context of {limit} tokens"
        # A text-only model's template cannot render images.
        texts = prompts if encoder else [each._replace(images=()) for each in prompts]
        starts: dict[bytes, bytes] = {}
        encoded: list[PromptTokens | Failure] = []
        for prompt, (ids, shared) in zip(prompts, self.chat.split(texts), strict=True):
            if prompt.images and encoder is None:
                encoded.append(NO_IMAGES_ACCEPTED)
                continue
            tokens = prompt_tokens(prompt, ids, shared, encoder)
            if isinstance(tokens, PromptTokens):
                if len(tokens) + reply_tokens > limit:
                    tokens = Failure("prompt", why)
                else:  # one object for the start that thousands of questions share
                    start = starts.setdefault(tokens.start, tokens.start)
                    tokens = PromptTokens(start, tokens.own, tokens.images)
            encoded.append(tokens)
        return encoded

    def put_away(self) -> None:
        """Move the weights off the GPU; do nothing on a CPU."""
        if self._device.type == "cpu":
            return
        self._host_copy.put_away()
        torch.cuda.empty_cache()

    def bring_back(self, memory_gb: float | None) -> None:
        """Put the weights back, and make room for states: ``memory_gb``, or a share of the rest."""
        if self.model.device != self._device:
            try:
                self._host_copy.bring_back(self._device)
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                raise JudgeError(
                    f"the judge's weights no longer fit on {self._device} ({error}): leave it more "
                    "memory, or use the judge 'server'"
                ) from error
        if not self.runner.states.layers:  # it was asleep: the GPU's free memory may have changed
            space = 0.0
            if memory_gb is not None:
                space = memory_gb * 2**30
            elif self._device.type == "cpu":
                space = DEFAULT_CPU_STATE_BYTES
            elif self._device.type == "cuda":
                space = CUDA_STATE_SHARE * (free_memory(self._device) or 0)
            self.runner.clear(max(min(int(space / self.per_token), MAX_STORED_TOKENS), 1))

    @torch.inference_mode()
    def _check_against_plain(self) -> int:
        """Compare packed prompts with a plain pass for each; return bytes of a token's states."""
        prompts, encoder = SAMPLE_PROMPTS, self.runner.encoder
        if encoder is not None:
            from PIL import Image

            side = encoder.sizes.factor  # wider than high, since positions depend on the shape
            image = Image.linear_gradient("L").resize((3 * side, 2 * side))
            seeing = (PromptImage("sample", image),)
            prompts = SAMPLE_PROMPTS + [each._replace(images=seeing) for each in SAMPLE_PROMPTS]
        sample: list[Any] = self.encode(prompts, 0)
        try:
            failure = next((each for each in sample if isinstance(each, Failure)), None)
            if failure is None:
                plain = torch.stack([self._compute_plain_logits(each) for each in sample]).cpu()
                self.runner.clear(sum(map(len, sample)))
                packed: list[Any] = self.runner.read(sample, torch.Tensor.float)
                states = self.runner.states
                failure = next((each for each in packed if isinstance(each, Failure)), None)
        except JudgeError:
            raise
        except (torch.OutOfMemoryError, TypeError, ValueError, AttributeError, LookupError,
                RuntimeError) as error:  # fmt: skip
            raise self._packing_error(f"{type(error).__name__}: {error}") from error
        if failure is not None:
            raise self._packing_error(str(failure))
        layers, used = self.model.config.get_text_config().num_hidden_layers, len(states.layers)
        if used != layers:
            raise self._packing_error(f"{used} of its {layers} layers use the common attention")
        unlike = (torch.tensor(packed) - plain).square().mean().sqrt()
        if not unlike <= MAX_RELATIVE_RMS_DIFFERENCE * plain.std():  # also if they are NaN
            raise self._packing_error("its answers differ")
        self.runner.computed = 0
        per_token = states.bytes_per_slot
        self.runner.clear(0)
        return per_token

    def _compute_plain_logits(self, tokens: PromptTokens) -> torch.Tensor:
        """Logits (vocabulary) after a prompt, by transformers alone."""
        model: Any = self.model
        ids, options = tokens.ids, {}
        if tokens.images and self.runner.encoder is not None:
            patches = self.runner.encoder.patches(tokens.images[0].image)
            assert not isinstance(patches, Failure), patches
            ids = np.where(ids < 0, self.runner.encoder.placeholder, ids)
            kinds = torch.from_numpy(tokens.ids < 0).int()[None].to(model.device)
            names = ("pixel_values", "image_grid_thw", "mm_token_type_ids")
            options = dict(zip(names, (*patches, kinds), strict=True))
        with torch.autocast(model.device.type, enabled=False):
            logits: torch.Tensor = model(
                input_ids=torch.from_numpy(ids)[None].to(model.device), use_cache=False, **options
            ).logits
        return logits[0, -1].float()

    def _packing_error(self, reason: str) -> JudgeError:
        return JudgeError(
            f"{type(self.model).__name__} cannot answer packed prompts ({reason}): serve it with "
            "vLLM and use the judge 'server'"
        )
