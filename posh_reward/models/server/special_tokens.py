"""Texts that a chat server would take for special tokens of its model.

A chat endpoint turns "<|im_end|>" in a description into the token that ends the message, and
none has an option to keep it as text. No change of spelling is sure to leave the question's
meaning alone either, so such a prompt is not sent: it fails, and the failure names the token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from posh_reward.models.server.server_http import ExchangeError, ServerClient
from posh_reward.types import Failure

BRACKETED = (
    re.compile(r"<[|\uff5c][^<>]{1,80}[|\uff5c]>|<[^<>\s]{1,80}>"),
    re.compile(r"\[[^][\s]{1,40}\]"),
)
"""Possible special tokens, by their form. No match can hide in another one of its own pattern."""

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
"""Those of common models: what is refused at a server that does not say how it splits texts."""

AT_ONCE = 2000  # characters of one request to /tokenize: no more tokens than any model takes
REMEMBERED = 100_000  # strings after which those seen before are forgotten


class SpecialTokens:
    """Bracketed strings that are special tokens, by the server's word where it can tell (vLLM)."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._special: dict[str, bool] = {}

    async def learn(self, client: ServerClient, url: str, texts: Iterable[str]) -> None:
        """Ask about the bracketed strings in some texts that are not known yet.

        Where the server does not answer, they count as special if they look like the usual ones.
        """
        if len(self._special) > REMEMBERED:
            self._special.clear()
        strings = dict.fromkeys(each for text in texts for each in bracketed(text))
        for some in _portions([each for each in strings if each not in self._special]):
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
            tokens = _strings(reply)
            if tokens is None:
                return
            self._special.update((each, each in tokens) for each in some)

    def failure(self, text: str) -> Failure | None:
        """The reason why a text cannot be sent; None if it can."""
        for each in bracketed(text):
            if self._special.get(each, USUAL.fullmatch(each) is not None):
                why = f"the text holds {each!r}, which the server would read as a special token"
                return Failure("prompt", f"{why}: remove it, or use a judge in this process")
        return None


def bracketed(text: str) -> Iterator[str]:
    """The strings in a text that could be special tokens: ``<|im_end|>``, ``</s>``, ``[INST]``."""
    for opening, pattern in zip("<[", BRACKETED, strict=True):
        if opening in text:
            yield from (match[0] for match in pattern.finditer(text))


def _portions(strings: Iterable[str]) -> Iterator[list[str]]:
    """The strings in groups that fit into one request each."""
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


def _strings(reply: Mapping[str, object]) -> set[str] | None:
    """The tokens in an answer of vLLM's ``/tokenize``, as text; None if it does not give them."""
    strings = reply.get("token_strs")
    if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
        return None
    return set(strings)
