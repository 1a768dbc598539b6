"""User messages -> token ids, through a tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.models.model import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

MAX_CACHED_PREFIXES = 1024  # beyond that only those of the current call are kept
MESSAGE_MARK = "\u2402message\u2403"  # placeholder for the message while the template is rendered


class Chat:
    """Chat format of POSH's questions: one user message, no system message, thinking off.

    Images precede the text; the template adds a placeholder for each. The names of special or added
    tokens in a description stay plain text. A shared prefix is tokenised once, unless the tokenizer
    would merge its end with what follows.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._plain = plain_tokenizer(tokenizer)
        self._prefix_ids: dict[str, list[int] | None] = {}
        self._template_ids: dict[int, tuple[list[int], list[int]]] = {}
        self._encode_template(0)

    @property
    def turn_end(self) -> int | None:
        """The special or added token with which the template ends a turn, if any."""
        _, tail = self._encode_template(0)
        # A tokenizer read from GGUF marks few as special: Gemma's <end_of_turn> is only added.
        added = self.tokenizer.added_tokens_decoder.get(tail[0]) if tail else None
        if added is None or not added.content.strip():
            return None
        return tail[0]

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of each prompt, including the template's."""
        return [ids for ids, _ in self.split(prompts)]

    def split(self, prompts: Sequence[Prompt]) -> list[tuple[list[int], int]]:
        """Each prompt's token ids, and how many of them are the template's and the prefix's.

        Where the tokenizer would merge across prefix and suffix, only the template's are counted.
        """
        # Tokenising dominates CPU time and thousands of questions share a description: tokenise
        # each prefix once, and then only the short suffixes.
        prefixes = self._encode_prefixes(prompts)
        to_encode = []
        for prompt in prompts:
            merges = prefixes[prompt.prefix] is None
            to_encode.append(prompt.text if merges else prompt.suffix)
        splits = []
        for prompt, remainder in zip(prompts, self._encode_texts(to_encode), strict=True):
            before, after = self._encode_template(len(prompt.images))
            shared = before + (prefixes[prompt.prefix] or [])
            splits.append((shared + remainder + after, len(shared)))
        return splits

    def _encode_template(self, images: int) -> tuple[list[int], list[int]]:
        """Ids of the template before and after a message with this many images."""
        if images not in self._template_ids:
            halves = template_halves(self.tokenizer, images)
            before, after = self._encode_texts(list(halves), special=True)
            self._template_ids[images] = before, after
        return self._template_ids[images]

    def _encode_prefixes(self, prompts: Sequence[Prompt]) -> dict[str, list[int] | None]:
        """Ids of each prefix; recent ones are cached, since equal ones arrive close together."""
        firsts = {prompt.prefix: prompt for prompt in reversed(prompts)}
        encoded: dict[str, list[int] | None] = {}
        for prefix, first in firsts.items():
            if prefix in self._prefix_ids:
                encoded[prefix] = self._prefix_ids[prefix]
            else:
                encoded[prefix] = self._encode_prefix(first)
        if len(self._prefix_ids) > MAX_CACHED_PREFIXES:
            self._prefix_ids = encoded
        else:
            self._prefix_ids = self._prefix_ids | encoded
        return encoded

    def _encode_prefix(self, first: Prompt) -> list[int] | None:
        """Ids of a prefix; None if they depend on what follows it."""
        # One prompt represents all with its prefix: tokenizers merge only within a word, and a
        # metric's suffixes all begin with the same one.
        prefix, suffix, whole = self._encode_texts([first.prefix, first.suffix, first.text])
        if prefix + suffix != whole:
            return None
        return prefix

    def _encode_texts(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
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
    content: Any = MESSAGE_MARK
    if images:  # templates of text-only models may accept nothing but a string
        content = [{"type": "image"}] * images + [{"type": "text", "text": MESSAGE_MARK}]
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
    )
    if not isinstance(rendered, str) or rendered.count(MESSAGE_MARK) != 1:
        raise ConfigError(
            f"the chat template of {model} does not render the user's message exactly once: "
            "choose another model"
        )
    before, after = rendered.split(MESSAGE_MARK)
    return before, after
