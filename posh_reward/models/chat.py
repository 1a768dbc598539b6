"""User messages -> token ids, through a tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError
from posh_reward.models.model import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

REMEMBERED = 1024  # cached prefixes; beyond that only those of the current call
MARK = "\u2402message\u2403"  # placeholder for the message while the template is rendered


class Chat:
    """Chat format of POSH's questions: one user message, no system message, thinking off.

    Images precede the text; the template adds a placeholder for each. The names of special or added
    tokens in a description stay plain text. A shared prefix is tokenised once, unless the tokenizer
    would merge its end with what follows.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._plain = plain_tokenizer(tokenizer)
        self._starts: dict[str, list[int] | None] = {}
        self._frames: dict[int, tuple[list[int], list[int]]] = {}
        self._frame(0)

    @property
    def turn_end(self) -> int | None:
        """The special or added token with which the template ends a turn, if any."""
        _, tail = self._frame(0)
        # A tokenizer read from GGUF marks few as special: Gemma's <end_of_turn> is only added.
        added = self.tokenizer.added_tokens_decoder.get(tail[0]) if tail else None
        return tail[0] if added is not None and added.content.strip() else None

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of each prompt, including the template's."""
        return [ids for ids, _ in self.split(prompts)]

    def split(self, prompts: Sequence[Prompt]) -> list[tuple[list[int], int]]:
        """Each prompt's token ids, and how many of them are the template's and the prefix's.

        Where the tokenizer would merge across prefix and suffix, only the template's are counted.
        """
        # Tokenising dominates CPU time and thousands of questions share a description: tokenise
        # each prefix once, and then only the short suffixes.
        starts = self._prefixes(prompts)
        rests = self._many([p.text if starts[p.prefix] is None else p.suffix for p in prompts])
        splits = []
        for prompt, rest in zip(prompts, rests, strict=True):
            before, after = self._frame(len(prompt.images))
            head = before + (starts[prompt.prefix] or [])
            splits.append((head + rest + after, len(head)))
        return splits

    def _frame(self, images: int) -> tuple[list[int], list[int]]:
        """Ids of the template before and after a message with this many images."""
        if images not in self._frames:
            before, after = self._many(list(template_halves(self.tokenizer, images)), special=True)
            self._frames[images] = before, after
        return self._frames[images]

    def _prefixes(self, prompts: Sequence[Prompt]) -> dict[str, list[int] | None]:
        """Ids of each prefix; recent ones are cached, since equal ones arrive close together."""
        firsts = {prompt.prefix: prompt for prompt in reversed(prompts)}
        starts = {
            prefix: self._starts[prefix] if prefix in self._starts else self._start(first)
            for prefix, first in firsts.items()
        }
        self._starts = starts if len(self._starts) > REMEMBERED else self._starts | starts
        return starts

    def _start(self, first: Prompt) -> list[int] | None:
        """Ids of a prefix; None if they depend on what follows it."""
        # One prompt represents all with its prefix: tokenizers merge only within a word, and a
        # metric's suffixes all begin with the same one.
        start, suffix, whole = self._many([first.prefix, first.suffix, first.text])
        return start if start + suffix == whole else None

    def _many(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
        """Ids of each text; special tokens in it count as such only if ``special``."""
        if not texts:
            return []
        if not special and self._plain is not None:
            encoded = self._plain.encode_batch_fast(texts, add_special_tokens=False)
            return [each.ids for each in encoded]
        ids: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, split_special_tokens=not special
        )["input_ids"]
        return ids


def plain_tokenizer(tokenizer: PreTrainedTokenizerBase) -> Tokenizer | None:
    """Copy a tokenizer so that names of added tokens in a text stay plain text.

    ``split_special_tokens`` covers only tokens marked as special. Qwen3's ``</think>`` and
    ``<tool_call>`` are added tokens without that mark. Added whitespace, such as indents, stays.
    """
    from tokenizers import AddedToken, Tokenizer

    added = tokenizer.added_tokens_decoder.values()
    unmarked = [each.content for each in added if not each.special and each.content.strip()]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not unmarked:
        return None
    plain = Tokenizer.from_str(backend.to_str())
    plain.add_special_tokens([AddedToken(each, normalized=False) for each in unmarked])
    plain.encode_special_tokens = True
    plain.no_truncation()
    plain.no_padding()
    return plain


def template_halves(tokenizer: PreTrainedTokenizerBase, images: int = 0) -> tuple[str, str]:
    """The chat template's text before and after the user's message, thinking off."""
    model = tokenizer.name_or_path or "this model"
    if not tokenizer.chat_template:
        raise ConfigError(
            f"the tokenizer of {model} has no chat template: choose an instruction-tuned model"
        )
    parts = [*({"type": "image"} for _ in range(images)), {"type": "text", "text": MARK}]
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": parts if images else MARK}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
    )
    if not isinstance(rendered, str) or rendered.count(MARK) != 1:
        raise ConfigError(
            f"the chat template of {model} does not render the user's message exactly once: "
            "choose another model"
        )
    before, after = rendered.split(MARK)
    return before, after
