"""User messages -> token ids, through a tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posh_reward.errors import ConfigError
from posh_reward.models.model import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

REMEMBERED = 1024  # prefixes that are remembered; beyond that only those of the current call
MARK = "\u2402message\u2403"  # stands for the message while the template is read


class Chat:
    """One user message, no system message, thinking off: the form that POSH asks in.

    Images precede the text, where the template puts one placeholder for each. A description that
    holds the text of a special or an added token, such as a placeholder, keeps it as text. A shared
    prefix is tokenised once, unless the tokenizer would join it to what follows.

    Args:
        tokenizer: with a chat template.

    Raises:
        ConfigError: it has no template, or one that drops the message.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._plain = plain_tokenizer(tokenizer)
        self._starts: dict[str, list[int] | None] = {}
        self._frames: dict[int, tuple[list[int], list[int]]] = {}
        self._frame(0)

    @property
    def turn_end(self) -> int | None:
        """The token that the template closes a turn with; None if it closes it with text."""
        _, tail = self._frame(0)
        first = tail[0] if tail else None
        return first if first in self.tokenizer.all_special_ids else None

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of each prompt, from the first of the template to the last."""
        return [ids for ids, _ in self.split(prompts)]

    def split(self, prompts: Sequence[Prompt]) -> list[tuple[list[int], int]]:
        """Each prompt's token ids, and how many of them are the template's and the prefix's.

        Where the tokenizer would join prefix and suffix, only the template's are counted.
        """
        # Tokenising dominates the host's time, and thousands of questions share a description: so
        # each prefix is tokenised once, and only the short rests anew.
        starts = self._prefixes(prompts)
        rests = self._many([p.text if starts[p.prefix] is None else p.suffix for p in prompts])
        splits = []
        for prompt, rest in zip(prompts, rests, strict=True):
            before, after = self._frame(len(prompt.images))
            head = before + (starts[prompt.prefix] or [])
            splits.append((head + rest + after, len(head)))
        return splits

    def _frame(self, images: int) -> tuple[list[int], list[int]]:
        """Ids of what the template puts before and after a message with so many images."""
        if images not in self._frames:
            before, after = template_halves(self.tokenizer, images)
            self._frames[images] = (
                self._ids(before, special=True),
                self._ids(after, special=True),
            )
        return self._frames[images]

    def _prefixes(self, prompts: Sequence[Prompt]) -> dict[str, list[int] | None]:
        """Ids of each prefix; recent ones are remembered, since they come in waves."""
        firsts = {prompt.prefix: prompt for prompt in reversed(prompts)}
        starts = {
            prefix: self._starts[prefix] if prefix in self._starts else self._start(first)
            for prefix, first in firsts.items()
        }
        self._starts = starts if len(self._starts) > REMEMBERED else self._starts | starts
        return starts

    def _start(self, first: Prompt) -> list[int] | None:
        """Ids of a prefix; None if they depend on what follows it."""
        # One prompt stands for all with its prefix: tokenizers join only within a word, and a
        # metric's suffixes begin with the same one.
        start = self._ids(first.prefix)
        whole = self._ids(first.text)
        return start if start + self._ids(first.suffix) == whole else None

    def _ids(self, text: str, *, special: bool = False) -> list[int]:
        [ids] = self._many([text], special=special)
        return ids

    def _many(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
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
    """A copy that takes no part of a text for a token that stands for something else.

    ``split_special_tokens`` covers only those that are marked as special. Qwen3's ``</think>`` and
    ``<tool_call>`` are not, but are tokens that were added all the same. Added white space, such as
    indents, is left as it is.

    Returns:
        None if ``split_special_tokens`` does it, or the tokenizer is not a fast one.
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
    """The chat template's text before and after the user's message, thinking off.

    Args:
        tokenizer: with a chat template.
        images: how many precede the text; their placeholders are in the first half.

    Raises:
        ConfigError: there is no template, or one that drops the message.
    """
    if not tokenizer.chat_template:
        raise ConfigError(
            f"the tokenizer of {tokenizer.name_or_path or 'this model'} has no chat template: "
            "choose an instruction-tuned model"
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
            f"the chat template of {tokenizer.name_or_path or 'this model'} does not repeat the "
            "user's message once: choose another model"
        )
    before, after = rendered.split(MARK)
    return before, after
