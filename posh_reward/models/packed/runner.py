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
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.errors import JudgeError
from posh_reward.models.asker import BLIND
from posh_reward.models.chat import Chat
from posh_reward.models.model import NOT_NUMBERS, Note, Prompt, ignore
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
    common,
    on,
    packed_attention,
    prompt_tokens,
    segments,
)
from posh_reward.types import Failure, PromptImage

if TYPE_CHECKING:
    from transformers import PreTrainedModel


logger = logging.getLogger(__name__)

Read = Callable[[torch.Tensor], torch.Tensor]  # logits (prompts, vocabulary) -> (prompts, values)
PassValues = tuple[list[int], torch.Tensor]  # prompts that ended in a pass; values read there
PromptValues = list[float] | Failure  # values read after a prompt

HEAD_CHUNK = 16384  # tokens of the vocabulary whose weights are cast to float32 at once
NOTHING = -1  # in place of a token where logits are NaN
COLLECT_SECONDS = 1.0  # between two readings of values, so that a kill costs only the last ones
REPLIES_AT_ONCE = 512  # enough to keep a large GPU busy; their logits take 150 MB
NO_ROOM = Failure("prompt", "the prompt does not fit into memory_gb: raise it")
OUT_OF_MEMORY = Failure(
    "engine", "out of memory: lower max_batch_tokens or memory_gb, or choose a smaller model"
)


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
        self._forget()

    @torch.inference_mode()
    def read(
        self, prompts: Sequence[PromptTokens], read: Read, note: Note = ignore
    ) -> list[PromptValues]:
        """``read`` of the logits after each prompt, or a failure."""
        with self._packed(), float32_head(self.model):
            values, paths = self._prefill(prompts, read, note, hold=False)
        assert not paths
        return values

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[PromptTokens],
        max_tokens: int,
        stops: Collection[int],
        note: Note = ignore,
    ) -> list[list[int] | Failure]:
        """The greedy reply to each prompt, including its stop token, or a failure."""
        replies: dict[int, list[int] | Failure] = {}
        with self._packed():
            for group in self._groups(prompts, max_tokens):
                self._forget_last()
                group_replies = self._reply([prompts[i] for i in group], max_tokens, stops)
                replies.update(zip(group, group_replies, strict=True))
                for index in group:
                    note(index, replies[index])
        return [replies.get(index, NO_ROOM) for index in range(len(prompts))]

    def _prefill(
        self, prompts: Sequence[PromptTokens], read: Read, note: Note = ignore, *, hold: bool
    ) -> tuple[list[PromptValues], dict[int, Ints]]:
        """The values after each prompt and, with ``hold``, the paths of prompts that have them."""
        results: dict[int, PromptValues] = {}
        passes: list[PassValues] = []
        paths: dict[int, Ints] = {}
        rows: list[Segment] = []  # placed, not yet computed
        waiting = 0  # tokens of ``rows``
        collected = time.monotonic()

        def collect() -> None:
            """Read the passes' values from the device, which waits for the last of them."""
            for ended, values in passes:
                for index, each in zip(ended, values.tolist(), strict=True):
                    results[index] = each
                    note(index, each)
            passes.clear()

        def compute() -> None:
            nonlocal waiting, collected
            for ended, values in self._passes(rows, read) if rows else ():
                passes.append((ended, values))
                for prompt in () if hold else ended:
                    self._slots.release(paths.pop(prompt))
            self.computed += waiting
            rows.clear()
            waiting = 0
            if not hold and time.monotonic() > collected + COLLECT_SECONDS:
                collect()
                collected = time.monotonic()

        def rank(index: int) -> tuple[bool, bytes, bytes]:
            start, own = prompts[index].start, prompts[index].own
            # Prompts with a cached prefix first, before it is evicted.
            return common(self._slots.nearest(start), start) < prompts[index].shared, start, own

        try:
            for index in sorted(range(len(prompts)), key=rank):
                new_rows = self._place(prompts[index], index)
                if new_rows is NO_ROOM:  # computing the waiting rows frees slots
                    compute()
                    self._forget_last()
                    new_rows = self._place(prompts[index], index)
                if isinstance(new_rows, Failure):
                    results[index] = new_rows
                    continue
                paths[index] = new_rows[-1].path
                rows.extend(new_rows)
                waiting += sum(len(row.ids) for row in new_rows)
                if waiting >= self._budget:
                    compute()
            compute()
        except torch.OutOfMemoryError:
            self._forget()
            paths = {}
            if hold:
                passes.clear()  # without their states, replies cannot go on
        collect()
        return [results.get(index, OUT_OF_MEMORY) for index in range(len(prompts))], paths

    def _place(self, prompt: PromptTokens, index: int) -> list[Segment] | Failure:
        """Allocate slots for a prompt's tokens; return the rows to compute."""
        key, (last_key, last) = prompt.key, self._last
        prefix = max(last[: common(last_key, key)], self._slots.prefix(key), key=len)
        prefix = prefix[: len(prompt) - 1]  # the last token must be computed: it is read
        self._slots.hold(prefix)  # otherwise ``take`` might evict it
        new = self._slots.take(len(prompt) - len(prefix))
        if new is None:
            self._slots.release(prefix)
            return NO_ROOM
        path = np.concatenate([prefix, new])
        features = self._features(prompt, len(prefix))
        if isinstance(features, Failure):
            self._slots.release(path)
            return features
        # The previous prompt is held until now: in sorted order the next one shares most with it,
        # even beyond the cached prefix.
        self._slots.hold(path)
        self._slots.release(last)
        self._last = (key, path)
        self._slots.keep(prompt.start, path[: prompt.shared])
        return segments(prompt, path, len(prefix), index, features)

    def _features(self, prompt: PromptTokens, start: int) -> torch.Tensor | Failure | None:
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

    def _passes(self, rows: Sequence[Segment], read: Read) -> Iterator[PassValues]:
        """Compute rows in one pass, or in more if memory is too small for that."""
        try:
            yield self._pass(rows, read)
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
        yield from self._passes(rows[:half], read)
        yield from self._passes(rows[half:], read)

    def _pass(self, rows: Sequence[Segment], read: Read) -> PassValues:
        # In its own frame, so that the pack of a failed pass, whose masks may take gigabytes, is
        # freed before the halves run.
        pack = Pack(rows, self.states, self.model.device)
        return pack.prompts, read(pack.run(self.model))

    def _groups(self, prompts: Sequence[PromptTokens], reply: int) -> Iterator[list[int]]:
        """Sorted prompts in groups that fit into the slots with their replies; none too long."""
        group: list[int] = []
        left = self._slots.capacity
        for index in sorted(range(len(prompts)), key=lambda i: (prompts[i].start, prompts[i].own)):
            need = len(prompts[index]) + reply
            if group and (need > left or len(group) == REPLIES_AT_ONCE):
                yield group
                group, left = [], self._slots.capacity
            if need <= left:
                group.append(index)
                left -= need
        if group:
            yield group

    def _reply(
        self, prompts: Sequence[PromptTokens], max_tokens: int, stops: Collection[int]
    ) -> list[list[int] | Failure]:
        # The prefill's logits give each reply's first token. Paths are held, since every further
        # token attends to its whole prompt.
        first, paths = self._prefill(prompts, likeliest, hold=True)
        replies: list[Any] = list(first)
        unfinished = list(paths)
        try:
            for _ in range(max_tokens - 1):
                unfinished = [i for i in unfinished if replies[i][-1] not in {*stops, NOTHING}]
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
                    for ended, tokens in self._passes(
                        rows[start : start + self._budget], likeliest
                    ):
                        for index, token in zip(ended, tokens.tolist(), strict=True):
                            replies[index] += token
            for path in paths.values():
                self._slots.release(path)
            unfinished = []
        except torch.OutOfMemoryError:
            self._forget()
        self.decoded += sum(len(reply) for reply in replies if not isinstance(reply, Failure))
        for index in paths:
            if index in unfinished:
                replies[index] = OUT_OF_MEMORY
            elif replies[index][-1] == NOTHING:
                replies[index] = NOT_NUMBERS
        return replies

    @contextmanager
    def _packed(self) -> Iterator[None]:
        try:
            with packed_attention(self.model):
                yield
        except BaseException:
            self._forget()  # the contents of slots are unknown after an error
            raise

    def _forget(self) -> None:
        self._slots = Slots(self.states.capacity)
        self._last = (b"", NO_SLOTS)

    def _forget_last(self) -> None:
        self._slots.release(self._last[1])
        self._last = (b"", NO_SLOTS)


def log_probabilities(logits: torch.Tensor, tokens: Sequence[int], top: int = 0) -> torch.Tensor:
    """Log-probabilities (prompts, tokens) of these tokens, normalised over the vocabulary.

    ``logits`` are (prompts, vocabulary). Tokens beyond the ``top`` likeliest get minus infinity.
    """
    logits = logits.float()
    token_logits = logits.index_select(-1, on(logits.device, np.asarray(tokens, np.int64)))
    logprobs = token_logits - logits.logsumexp(-1, keepdim=True)
    if not top:
        return logprobs
    least = logits.topk(min(top, logits.shape[-1])).values[:, -1:]
    # Comparisons with NaN are false, so NaN stays NaN.
    return logprobs.masked_fill(token_logits < least, float("-inf"))


def likeliest(logits: torch.Tensor) -> torch.Tensor:
    """Tokens (prompts, 1) with the highest logit; ``NOTHING`` where some logit is NaN."""
    return torch.where(logits.isnan().any(-1), NOTHING, logits.argmax(-1))[:, None]


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
        chunks = torch.split(module.weight, HEAD_CHUNK)
        logits = torch.cat([hidden @ chunk.float().T for chunk in chunks], dim=-1)
        return logits if module.bias is None else logits + module.bias

    hook = head.register_forward_hook(in_float32)
    try:
        yield
    finally:
        hook.remove()


CPU_BYTES = 2 * 2**30  # default memory for states on a CPU
CUDA_SHARE = 0.5  # default share for states of the memory that the weights leave free on a GPU
MOST_TOKENS = 2**20  # cap on stored states
SAMPLE = [Prompt("A dog and a cat sleep.\n\n", f'Q: Is "{word}" there?') for word in ("dog", "it")]
"""Two prompts with a common prefix."""
TOLERANCE = 0.1
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
        self.per_token = self._check()  # bytes of a token's states
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

    def encode(self, prompts: Sequence[Prompt], reply: int) -> list[PromptTokens | Failure]:
        """Tokenise prompts; fail those with unusable images, or too long with ``reply`` tokens."""
        encoder, limit = self.runner.encoder, self._context
        why = f"the prompt is longer than the model's context of {limit} tokens"
        # A text-only model's template cannot render images.
        texts = prompts if encoder else [each._replace(images=()) for each in prompts]
        starts: dict[bytes, bytes] = {}
        encoded: list[PromptTokens | Failure] = []
        for prompt, (ids, shared) in zip(prompts, self.chat.split(texts), strict=True):
            blind = prompt.images and encoder is None
            tokens = BLIND if blind else prompt_tokens(prompt, ids, shared, encoder)
            if isinstance(tokens, PromptTokens):
                if len(tokens) + reply > limit:
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
            space = CPU_BYTES if self._device.type == "cpu" else 0.0
            if memory_gb is not None:
                space = memory_gb * 2**30
            elif self._device.type == "cuda":
                space = CUDA_SHARE * (free_memory(self._device) or 0)
            self.runner.clear(max(min(int(space / self.per_token), MOST_TOKENS), 1))

    @torch.inference_mode()
    def _check(self) -> int:
        """Compare packed prompts with a plain pass for each; return bytes of a token's states."""
        prompts, encoder = SAMPLE, self.runner.encoder
        if encoder is not None:
            from PIL import Image

            side = encoder.sizes.factor  # wider than high, since positions depend on the shape
            image = Image.linear_gradient("L").resize((3 * side, 2 * side))
            seeing = (PromptImage("sample", image),)
            prompts = [*SAMPLE, *(each._replace(images=seeing) for each in SAMPLE)]
        sample: list[Any] = self.encode(prompts, 0)
        try:
            failure = next((each for each in sample if isinstance(each, Failure)), None)
            if failure is None:
                plain = torch.stack([self._plain(each) for each in sample]).cpu()
                self.runner.clear(sum(map(len, sample)))
                packed: list[Any] = self.runner.read(sample, torch.Tensor.float)
                states = self.runner.states
                failure = next((each for each in packed if isinstance(each, Failure)), None)
        except JudgeError:
            raise
        except (torch.OutOfMemoryError, TypeError, ValueError, AttributeError, LookupError,
                RuntimeError) as error:  # fmt: skip
            raise self._unfit(f"{type(error).__name__}: {error}") from error
        if failure is not None:
            raise self._unfit(str(failure))
        layers, used = self.model.config.get_text_config().num_hidden_layers, len(states.layers)
        if used != layers:
            raise self._unfit(f"{used} of its {layers} layers use the common attention")
        unlike = (torch.tensor(packed) - plain).square().mean().sqrt()
        if not unlike <= TOLERANCE * plain.std():  # also if they are NaN
            raise self._unfit("its answers differ")
        self.runner.computed = 0
        per_token = states.bytes_per_slot
        self.runner.clear(0)
        return per_token

    def _plain(self, tokens: PromptTokens) -> torch.Tensor:
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

    def _unfit(self, reason: str) -> JudgeError:
        return JudgeError(
            f"{type(self.model).__name__} cannot answer packed prompts ({reason}): serve it with "
            "vLLM and use the judge 'server'"
        )
