"""Texts that a chat server would read as special tokens of its model.

A chat endpoint turns "<|im_end|>" in a description into the token that ends the message, and none
has an option against it. Respelling it might change the question's meaning. So such a prompt is
not sent: it fails, and the failure names the token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from posh_reward.models.server.server_http import ExchangeError, ServerClient
from posh_reward.types import Failure

BRACKETED = (
    re.compile(r"<[|\uff5c][^<>]{1,80}[|\uff5c]>|<[^<>\s]{1,80}>"),
    re.compile(r"\[[^][\s]{1,40}\]"),
)
"""Possible special tokens by form. Matches of one pattern cannot be nested."""

USUAL = re.compile(
    r"""
    <[|\uff5c] .+ [|\uff5c]>                                  # Qwen, Llama 3, Phi, DeepSeek
    | </?(s|unk|pad|bos|eos|mask|cls|sep|sop|eop|image|img|audio|video|think|n)>
    | </?(start|end)_of_\w+> | </?(tool|unused|reserved|extra_id|image|audio)\w*>  # Gemma
    | \[/?(INST|AVAILABLE_TOOLS|TOOL_\w+|SYSTEM_PROMPT|IMG\w*|THINK|PREFIX|MIDDLE|SUFFIX)\]
    | \[(CLS|SEP|PAD|UNK|MASK|BOS|EOS|gMASK|sMASK|control_\d+)\]  # BERT, GLM
    """,
    re.VERBOSE,
)
"""Those of common models, refused where the server does not show how it tokenises."""

AT_ONCE = 2000  # characters per request to /tokenize, so that it fits any model's context
REMEMBERED = 100_000  # cached strings; beyond that the cache is cleared


class SpecialTokens:
    """Bracketed strings that are special tokens, as reported by the server where it can (vLLM)."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._special: dict[str, bool] = {}

    async def learn(self, client: ServerClient, url: str, texts: Iterable[str]) -> None:
        """Ask the server about new bracketed strings in these texts.

        Without its answer, those that look like a common model's tokens count as special.
        """
        if len(self._special) > REMEMBERED:
            self._special.clear()
        candidates = dict.fromkeys(each for text in texts for each in bracketed(text))
        for some in _portions([each for each in candidates if each not in self._special]):
            body = {
                "model": self._model,
                "prompt": "\n".join(some),
                "add_special_tokens": False,
                "return_token_strs": True,
            }
            try:
                reply = await client.post(f"{url.removesuffix('/v1')}/tokenize", body)
            except ExchangeError:
                return
            strings = reply.get("token_strs")
            if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
                return
            tokens = set(strings)
            self._special.update((each, each in tokens) for each in some)

    def failure(self, text: str) -> Failure | None:
        """The reason why a text cannot be sent, or None."""
        for each in bracketed(text):
            if self._special.get(each, USUAL.fullmatch(each) is not None):
                why = f"the text contains {each!r}, which the server would read as a special token"
                return Failure("prompt", f"{why}: remove it, or use a judge in this process")
        return None


def bracketed(text: str) -> Iterator[str]:
    """Strings in a text that could be special tokens: ``<|im_end|>``, ``</s>``, ``[INST]``."""
    for opening, pattern in zip("<[", BRACKETED, strict=True):
        if opening in text:
            yield from (match[0] for match in pattern.finditer(text))


def _portions(strings: Iterable[str]) -> Iterator[list[str]]:
    """Groups of strings that fit into one request each."""
    portion: list[str] = []
    size = 0
    for each in strings:
        if portion and size + len(each) > AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += len(each) + 1
    if portion:
        yield portion
